//! What the model answers, whatever the dialect.

use serde_json::{Value, json};

use super::ask::{Ask, Tool};
use crate::script::{Call, Stop, Turn, Usage};

#[derive(Debug)]
pub(crate) struct Reply {
    /// What it thought, if that is told.
    pub(crate) thoughts: Option<String>,
    /// Text, in the pieces in which it is streamed.
    pub(crate) pieces: Vec<String>,
    pub(crate) calls: Vec<Made>,
    /// If it stops early.
    pub(crate) stop: Option<Stop>,
    /// Nothing if the script keeps it from the client.
    pub(crate) usage: Option<Usage>,
}

/// A tool call, made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    /// An object, or a text that is not JSON.
    pub(crate) input: Value,
}

impl Made {
    /// The arguments as a text: what a model really writes.
    pub(crate) fn arguments(&self) -> String {
        self.input.as_str().map_or_else(|| self.input.to_string(), str::to_owned)
    }
}

impl Reply {
    /// A model calls only what it was offered, or what it makes up while it may call
    /// anything; with no such tool it just talks.
    pub(crate) fn new(ask: &Ask, turn: &Turn) -> Self {
        let offered = |tool: &Tool, input| (tool.name.clone(), tool.namespace.clone(), input);
        let mut calls = Vec::new();
        for call in &turn.calls {
            let made = match call {
                Call::Shell { shell } => {
                    let command = ask.markers.fill(shell);
                    let mut tools = ask.tools.iter();
                    tools.find_map(|tool| Some(offered(tool, shell_input(tool, &command)?)))
                }
                Call::Tool { tool, input } => {
                    ask.tool(tool).map(|tool| offered(tool, ask.markers.fill_value(&json!(input))))
                }
                Call::Raw { tool, arguments } => {
                    ask.tool(tool).map(|tool| offered(tool, ask.markers.fill(arguments).into()))
                }
                Call::Invented { invented, input } => (!ask.tools.is_empty())
                    .then(|| (invented.clone(), None, ask.markers.fill_value(&json!(input)))),
            };
            if let Some((name, namespace, input)) = made {
                let id = format!("call_{}_{}", ask.id, calls.len());
                calls.push(Made { id, name, namespace, input });
            }
        }
        let mut pieces = turn.pieces(&ask.markers);
        if pieces.is_empty() && calls.is_empty() {
            pieces.push("I have no tool for this.".to_owned());
        }
        let thoughts =
            (ask.wants_thoughts && !turn.think.is_empty()).then(|| ask.markers.fill(&turn.think));
        Self { thoughts, pieces, calls, stop: turn.stop, usage: Some(turn.usage) }
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
