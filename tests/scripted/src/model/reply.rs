//! What the model answers, whatever the dialect.

use serde_json::{Value, json};

use super::ask::{Ask, Tool};
use crate::script::{Call, Turn, Usage};

#[derive(Debug)]
pub(crate) struct Reply {
    /// Text, in the pieces in which it is streamed.
    pub(crate) pieces: Vec<String>,
    pub(crate) calls: Vec<Made>,
    /// Nothing if the script keeps it from the client.
    pub(crate) usage: Option<Usage>,
}

/// A tool call, made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) input: Value,
}

impl Reply {
    /// A model calls only what it was offered; with no such tool it just talks.
    pub(crate) fn new(ask: &Ask, turn: &Turn) -> Self {
        let mut calls = Vec::new();
        for call in &turn.calls {
            let made = match call {
                Call::Shell { shell } => {
                    ask.tools.iter().find_map(|tool| Some((tool, shell_input(tool, shell)?)))
                }
                Call::Tool { tool: name, input } => {
                    let offered = ask.tools.iter().find(|tool| tool.name == *name);
                    offered.map(|tool| (tool, json!(input)))
                }
            };
            if let Some((tool, input)) = made {
                let id = format!("call_{}_{}", ask.id, calls.len());
                let (name, namespace) = (tool.name.clone(), tool.namespace.clone());
                calls.push(Made { id, name, namespace, input });
            }
        }
        let mut pieces = turn.pieces();
        if pieces.is_empty() && calls.is_empty() {
            pieces.push("I have no tool for this.".to_owned());
        }
        Self { pieces, calls, usage: Some(turn.usage) }
    }

    pub(crate) fn text(&self) -> String {
        self.pieces.concat()
    }
}

/// The command as this tool wants it, if it is a shell.
fn shell_input(tool: &Tool, command: &str) -> Option<Value> {
    const SHELLS: [&str; 6] =
        ["bash", "exec_command", "local_shell", "run_command", "shell", "shell_command"];
    if !SHELLS.contains(&tool.name.to_ascii_lowercase().as_str()) {
        return None;
    }
    let properties = &tool.schema["properties"];
    let key = if properties.get("cmd").is_some() { "cmd" } else { "command" };
    if properties[key]["type"] == "array" {
        return Some(json!({ key: ["bash", "-c", command] }));
    }
    Some(json!({ key: command }))
}
