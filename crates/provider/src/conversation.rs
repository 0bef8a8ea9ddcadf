//! What is said between people, a model and its tools, in no provider's words.
//!
//! Everything here can be written down and read again: a transcript is made of it.
//! Bytes that a model chose are kept as it chose them, arguments above all, so
//! that what is sent back is what was said, and providers find it in their caches.

mod arguments;
mod check;

use belljar_llm::Dialect;
use serde::{Deserialize, Serialize};

pub use arguments::{BadArguments, Input};
pub use check::InvalidConversation;

/// All that a model is told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// In whatever order: they are sent sorted by name.
    pub tools: Vec<Tool>,
    pub system: Vec<Part>,
    pub messages: Vec<Message>,
}

/// A piece of the system prompt. What stays the same for longest comes first, and
/// nothing that changes from day to day belongs here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub text: String,
    /// Up to here, everything is worth keeping in the provider's cache.
    #[serde(default)]
    pub ends_prefix: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub blocks: Vec<Block>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Assistant,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Block {
    Text { text: String },
    ToolCall(ToolCall),
    ToolResult(ToolResult),
    Opaque(Opaque),
}

/// What the model wants to have done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub input: Input,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call that it answers.
    pub call: String,
    pub text: String,
    #[serde(default)]
    pub is_error: bool,
}

/// What only its own provider understands: thoughts, signed or encrypted. It goes
/// back to the dialect that it came from as it was, and to no other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opaque {
    pub dialect: Dialect,
    /// A JSON object, in the form in which it is sent back.
    pub json: String,
}

/// What a model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments: an object.
    pub schema: serde_json::Value,
}

impl Message {
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, blocks: vec![Block::text(text)] }
    }

    pub fn results(results: impl IntoIterator<Item = ToolResult>) -> Self {
        Self { role: Role::User, blocks: results.into_iter().map(Block::ToolResult).collect() }
    }

    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    /// The text blocks, put together.
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

impl Block {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

impl ToolCall {
    /// A result for this call.
    pub fn answered(&self, text: impl Into<String>) -> ToolResult {
        ToolResult { call: self.id.clone(), text: text.into(), is_error: false }
    }

    /// The same, when it failed.
    pub fn failed(&self, text: impl Into<String>) -> ToolResult {
        ToolResult { is_error: true, ..self.answered(text) }
    }
}

impl Part {
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ends_prefix: false }
    }

    /// A part after which the provider's cache should remember everything.
    pub fn ending_prefix(text: impl Into<String>) -> Self {
        Self { text: text.into(), ends_prefix: true }
    }
}
