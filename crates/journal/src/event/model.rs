//! What the model was asked, and what it said.

use belljar_domain::Sequence;
use belljar_objects::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::blob::BlobRef;

/// What goes to the model in this turn is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptBuilt {
    pub turn: u32,
    /// Of the whole request's body.
    pub sha256: Digest,
    pub bytes: u64,
    /// Up to which byte the provider is asked to keep what it has read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cache_breakpoints: Vec<u64>,
    /// How much of it is the beginning of the turn before, byte for byte.
    pub shared_prefix_bytes: u64,
}

/// Written before the request is sent: from here on it may cost money.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LlmRequested {
    pub turn: u32,
    /// From 1.
    pub attempt: u32,
    pub model: String,
    pub prompt: Digest,
    /// The most that the answer can cost by the price list, in billionths of a dollar. A request
    /// whose answer is lost is charged this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<u64>,
    /// Whether it is the turn that must end with a result: no tool is offered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last: bool,
}

/// Tokens by kinds that never overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    pub input: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    /// Thoughts included.
    pub output: u64,
}

impl Tokens {
    pub fn total(&self) -> u64 {
        [self.cache_read, self.cache_write, self.output]
            .into_iter()
            .fold(self.input, u64::saturating_add)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.output = self.output.saturating_add(other.output);
    }
}

/// Part of an answer, whichever provider it came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    Text {
        text: String,
    },
    Thinking {
        text: String,
        /// Handed back unchanged, if the provider wants that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    ToolUse {
        id: String,
        name: String,
        input: Value,
    },
    /// What only its provider understands, handed back unchanged.
    Opaque {
        content: Value,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LlmResponded {
    pub turn: u32,
    /// Which [`LlmRequested`] this answers.
    pub asked: Sequence,
    pub blocks: Vec<Block>,
    /// In the provider's words.
    pub stop: String,
    pub tokens: Tokens,
    pub nano_dollars: u64,
    /// The provider did not say what it cost: what was set aside was charged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_request: Option<String>,
    /// The answer as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<BlobRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_micros: Option<u64>,
    pub micros: u64,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LlmTrouble {
    /// Whoever asked died before the answer was written down, and nobody has it.
    Lost,
    Refused,
    Overloaded,
    Broken,
    OutOfBudget,
}

impl LlmTrouble {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Refused => "refused",
            Self::Overloaded => "overloaded",
            Self::Broken => "broken",
            Self::OutOfBudget => "out_of_budget",
        }
    }
}

/// A request came to nothing, and is settled: it may be made again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LlmFailed {
    pub turn: u32,
    pub asked: Sequence,
    pub trouble: LlmTrouble,
    pub message: String,
    /// What it cost nevertheless, as far as anybody knows.
    pub nano_dollars: u64,
    pub micros: u64,
}
