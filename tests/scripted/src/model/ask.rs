//! What a client asks for, whatever its dialect.

use std::collections::BTreeSet;

use serde_json::Value;

use super::dialect::Dialect;
use super::heard::Heard;
use crate::script::Markers;

#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) model: String,
    pub(crate) stream: bool,
    /// Chat Completions say nothing of usage in a stream unless asked to.
    pub(crate) include_usage: bool,
    /// Whether the client wants to have what the model thinks.
    pub(crate) wants_thoughts: bool,
    /// Tool results in the conversation.
    pub(crate) results: usize,
    pub(crate) answers: usize,
    pub(crate) markers: Markers,
    pub(crate) tools: Vec<Tool>,
    /// Differs from request to request, and is the same for a repeated one.
    pub(crate) id: String,
}

/// A tool that the client offers.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) kind: String,
    pub(crate) name: String,
    /// Tools of the Responses dialect may stand in a namespace.
    pub(crate) namespace: Option<String>,
    pub(crate) schema: Value,
}

impl Ask {
    /// Reads a body, or says what is wrong with it.
    pub(crate) fn read(dialect: Dialect, body: &Value, id: String) -> Result<Self, String> {
        let model = text(body, "model").ok_or("model: field required")?;
        let results = match dialect {
            Dialect::Messages => {
                if !body["max_tokens"].is_u64() {
                    return Err("max_tokens: field required".to_owned());
                }
                messages_results(list(body, "messages")?)?
            }
            Dialect::Responses if body["input"].is_string() => 0,
            Dialect::Responses => responses_results(list(body, "input")?)?,
            Dialect::Chat => chat_results(list(body, "messages")?)?,
        };
        let mut tools = Vec::new();
        for offered in body["tools"].as_array().into_iter().flatten() {
            collect(dialect, offered, None, &mut tools);
        }
        let Heard { answers, results: texts, user, .. } = Heard::read(dialect, body);
        let wants_thoughts = match dialect {
            Dialect::Messages => {
                ["enabled", "adaptive"].iter().any(|kind| body["thinking"]["type"] == **kind)
            }
            Dialect::Responses => {
                let include = body["include"].as_array().into_iter().flatten();
                include.into_iter().any(|what| what == "reasoning.encrypted_content")
            }
            Dialect::Chat => true,
        };
        Ok(Self {
            markers: Markers { results: texts, user, model: model.clone() },
            model,
            wants_thoughts,
            answers,
            stream: body["stream"].as_bool().unwrap_or(false),
            include_usage: body["stream_options"]["include_usage"].as_bool().unwrap_or(false),
            results,
            tools,
            id,
        })
    }

    /// The tool of this name, if it is on offer.
    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The tools, as a record names them.
    pub(crate) fn tool_names(&self) -> Vec<String> {
        let name = |tool: &Tool| match (tool.kind.as_str(), tool.name.as_str()) {
            (kind, "") => kind.to_owned(),
            (kind, name) => format!("{kind}:{name}"),
        };
        self.tools.iter().map(name).collect()
    }
}

fn collect(dialect: Dialect, offered: &Value, namespace: Option<&str>, tools: &mut Vec<Tool>) {
    // Messages leave the type away for a client's own tools.
    let kind = text(offered, "type").unwrap_or_else(|| "custom".to_owned());
    if kind == "namespace" {
        let name = text(offered, "name").unwrap_or_default();
        for inner in offered["tools"].as_array().into_iter().flatten() {
            collect(dialect, inner, Some(&name), tools);
        }
        return;
    }
    let described = if dialect == Dialect::Chat { &offered["function"] } else { offered };
    let key = if dialect == Dialect::Messages { "input_schema" } else { "parameters" };
    tools.push(Tool {
        kind,
        name: text(described, "name").unwrap_or_default(),
        namespace: namespace.map(str::to_owned),
        schema: described[key].clone(),
    });
}

fn text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(str::to_owned)
}

fn list<'v>(body: &'v Value, key: &str) -> Result<&'v [Value], String> {
    match body[key].as_array() {
        Some(items) if !items.is_empty() => Ok(items),
        _ => Err(format!("{key}: at least one is required")),
    }
}

/// Counts results, each of which must answer a call before it.
#[derive(Default)]
struct Count<'v> {
    calls: BTreeSet<&'v str>,
    results: usize,
}

impl<'v> Count<'v> {
    fn call(&mut self, id: &'v Value) {
        self.calls.extend(id.as_str());
    }

    fn result(&mut self, id: &'v Value) -> Result<(), String> {
        match id.as_str() {
            Some(id) if self.calls.contains(id) => {
                self.results += 1;
                Ok(())
            }
            _ => Err(format!("the tool result for {id} answers no tool call before it")),
        }
    }
}

fn messages_results(messages: &[Value]) -> Result<usize, String> {
    let mut count = Count::default();
    for block in messages.iter().filter_map(|message| message["content"].as_array()).flatten() {
        match block["type"].as_str() {
            Some("tool_use") => count.call(&block["id"]),
            Some("tool_result") => count.result(&block["tool_use_id"])?,
            _ => {}
        }
    }
    Ok(count.results)
}

fn responses_results(items: &[Value]) -> Result<usize, String> {
    let mut count = Count::default();
    for item in items {
        match item["type"].as_str() {
            Some("function_call" | "custom_tool_call") => count.call(&item["call_id"]),
            Some("function_call_output" | "custom_tool_call_output") => {
                count.result(&item["call_id"])?;
            }
            _ => {}
        }
    }
    Ok(count.results)
}

fn chat_results(messages: &[Value]) -> Result<usize, String> {
    let mut count = Count::default();
    for message in messages {
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            count.call(&call["id"]);
        }
        if message["role"] == "tool" {
            count.result(&message["tool_call_id"])?;
        }
    }
    Ok(count.results)
}
