//! What agent programs print, read into one form.
//!
//! Every line comes from inside of a sandbox: nothing of it is believed but what
//! it says about the program's own work.

use serde::Serialize;
use serde_json::{Value, json};

/// How a program tells what it does: one JSON document a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramDialect {
    Claude,
    Codex,
}

/// What happened, whichever program it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ProgramEvent {
    /// What the model says.
    Text {
        text: String,
    },
    ToolCall {
        id: String,
        tool: String,
        input: Value,
    },
    ToolResult {
        id: String,
        output: String,
        is_error: bool,
    },
    /// As the program counts; what is charged is in the result.
    Usage {
        input: u64,
        cache_read: u64,
        cache_write: u64,
        output: u64,
    },
    /// Ours: the program was told how many turns remain.
    Warning {
        turns_left: u32,
    },
    /// Anything else, as it came.
    Raw {
        event: Value,
    },
}

/// What is known of the work so far.
#[derive(Debug, Default)]
pub struct ProgramWork {
    /// Answers of the model, where the program tells them apart.
    pub turns: u32,
    pub verdict: Option<Verdict>,
    /// The program's own name of its session, by which it can be resumed.
    pub session: Option<String>,
    /// The answer that is being told.
    message: Option<String>,
    last_text: String,
    last_error: Option<String>,
}

/// How the program says that it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub is_well: bool,
    pub text: String,
    /// Why not, if not.
    pub why: Option<String>,
}

impl ProgramWork {
    /// Takes one line.
    pub fn read(&mut self, dialect: ProgramDialect, line: &str) -> Vec<ProgramEvent> {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            return vec![ProgramEvent::Raw { event: json!({ "line": line }) }];
        };
        let session = match dialect {
            ProgramDialect::Claude => &event["session_id"],
            ProgramDialect::Codex => &event["thread_id"],
        };
        if let Some(session) = session.as_str().filter(|name| is_session(name)) {
            self.session = Some(session.to_owned());
        }
        let mut events = match dialect {
            ProgramDialect::Claude => self.claude(&event),
            ProgramDialect::Codex => self.codex(&event),
        };
        if events.is_empty() {
            events.push(ProgramEvent::Raw { event });
        }
        events
    }

    fn claude(&mut self, event: &Value) -> Vec<ProgramEvent> {
        let blocks = event["message"]["content"].as_array().map_or(&[][..], Vec::as_slice);
        match event["type"].as_str() {
            Some("assistant") => {
                let id = event["message"]["id"].as_str().map(str::to_owned);
                // One answer comes in pieces; those of helpers count elsewhere.
                if event["parent_tool_use_id"].is_null() && (id.is_none() || id != self.message) {
                    self.turns += 1;
                    self.message = id;
                }
                blocks.iter().filter_map(claude_said).collect()
            }
            Some("user") => blocks.iter().filter_map(claude_result).collect(),
            Some("result") => {
                // `subtype` says success even when the model could not be asked.
                let reason = event["terminal_reason"].as_str();
                let is_error = event["is_error"].as_bool().unwrap_or(true);
                let is_well = !is_error && reason.is_none_or(|reason| reason == "completed");
                let text = text(&event["result"]);
                let why = || {
                    let subtype = event["subtype"].as_str().filter(|word| *word != "success");
                    let word = reason.or(subtype).unwrap_or("error");
                    if text.is_empty() { word.to_owned() } else { format!("{word}: {text}") }
                };
                let why = (!is_well).then(why);
                self.verdict = Some(Verdict { is_well, why, text });
                vec![usage(&event["usage"])]
            }
            _ => Vec::new(),
        }
    }

    fn codex(&mut self, event: &Value) -> Vec<ProgramEvent> {
        let item = &event["item"];
        let kind = item["type"].as_str();
        match (event["type"].as_str(), kind) {
            (Some("item.completed"), Some("agent_message")) => {
                self.last_text = text(&item["text"]);
                vec![ProgramEvent::Text { text: self.last_text.clone() }]
            }
            (Some("item.started"), Some("command_execution" | "mcp_tool_call")) => {
                vec![codex_call(item)]
            }
            (Some("item.completed"), Some("command_execution")) => {
                let is_error = item["exit_code"].as_i64() != Some(0);
                let output = text(&item["aggregated_output"]);
                vec![ProgramEvent::ToolResult { id: text(&item["id"]), output, is_error }]
            }
            // It is told once, when it is done.
            (Some("item.completed"), Some("file_change")) => {
                let is_error = item["status"].as_str() == Some("failed");
                let id = text(&item["id"]);
                let result = ProgramEvent::ToolResult { id, output: String::new(), is_error };
                vec![codex_call(item), result]
            }
            (Some("item.completed"), Some("mcp_tool_call")) => {
                let is_error = item["status"].as_str() == Some("failed");
                let output = item["result"].to_string();
                vec![ProgramEvent::ToolResult { id: text(&item["id"]), output, is_error }]
            }
            (Some("turn.completed"), _) => {
                let text = self.last_text.clone();
                self.verdict = Some(Verdict { is_well: true, why: None, text });
                vec![usage(&event["usage"])]
            }
            (Some("turn.failed"), _) => {
                let why = event["error"]["message"].as_str().map(str::to_owned);
                let why = why.or(self.last_error.take()).or(Some("the turn failed".to_owned()));
                let text = self.last_text.clone();
                self.verdict = Some(Verdict { is_well: false, why, text });
                Vec::new()
            }
            (Some("error"), _) => {
                self.last_error = event["message"].as_str().map(str::to_owned);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Why it failed, where it said no more than that.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }
}

/// Returns true if a text can be the name of a session. It becomes an argument of the program.
fn is_session(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=128).contains(&name.len()) && name.bytes().all(is_plain) && !name.starts_with('-')
}

fn claude_said(block: &Value) -> Option<ProgramEvent> {
    match block["type"].as_str()? {
        "text" => Some(ProgramEvent::Text { text: text(&block["text"]) }),
        "tool_use" => Some(ProgramEvent::ToolCall {
            id: text(&block["id"]),
            tool: text(&block["name"]),
            input: block["input"].clone(),
        }),
        _ => None,
    }
}

fn claude_result(block: &Value) -> Option<ProgramEvent> {
    (block["type"] == "tool_result").then(|| ProgramEvent::ToolResult {
        id: text(&block["tool_use_id"]),
        output: text(&block["content"]),
        is_error: block["is_error"].as_bool().unwrap_or(false),
    })
}

fn codex_call(item: &Value) -> ProgramEvent {
    let (tool, input) = match item["type"].as_str() {
        Some("command_execution") => ("shell", json!({ "command": item["command"] })),
        Some("file_change") => ("file_change", json!({ "changes": item["changes"] })),
        _ => (item["tool"].as_str().unwrap_or("tool"), item["arguments"].clone()),
    };
    ProgramEvent::ToolCall { id: text(&item["id"]), tool: tool.to_owned(), input }
}

/// Text, or the texts of a list of blocks.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> =
                blocks.iter().filter_map(|block| block["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// Both ways of counting: one provider's input holds what the cache held.
fn usage(usage: &Value) -> ProgramEvent {
    let count = |name: &str| usage[name].as_u64().unwrap_or(0);
    let cached = count("cached_input_tokens");
    ProgramEvent::Usage {
        input: count("input_tokens").saturating_sub(cached),
        cache_read: count("cache_read_input_tokens") + cached,
        cache_write: count("cache_creation_input_tokens"),
        output: count("output_tokens"),
    }
}

#[cfg(test)]
mod tests;
