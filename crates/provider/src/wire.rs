//! The three protocols: how a conversation is written in each, and an answer read.
//!
//! Bodies begin with what stays the same and end with what changes: model and form,
//! tools, system, messages, and at last what may differ from turn to turn. The next
//! request of a conversation therefore begins with nearly all of the last one.

mod anthropic;
mod chat;
mod responses;

use belljar_llm::json::Value;
use belljar_llm::{Dialect, Usage};

use crate::answer::Answer;
use crate::conversation::{Block, Conversation, Input, Message, Tool};
use crate::failure::Failure;
use crate::provider::{OnDelta, Options};

pub use anthropic::{Lifetime, Version};

/// No answer has more blocks, items or calls than this.
const MOST_PARTS: usize = 1024;

/// Puts one answer together.
pub(crate) trait Assemble: Send {
    /// The next event of a stream.
    fn event(&mut self, event: Value<'_>, on_delta: &mut OnDelta<'_>) -> Result<(), Failure>;

    /// An answer in one piece.
    fn whole(&mut self, answer: Value<'_>) -> Result<(), Failure>;

    /// The mark that Chat Completions put at the end.
    fn mark(&mut self) {}

    /// Nothing that follows would change the answer.
    fn is_over(&self) -> bool;

    /// The model has said why it stopped; only numbers may be missing.
    fn is_complete(&self) -> bool;

    /// What the provider has counted so far.
    fn usage(&self) -> Option<Usage>;

    /// The answer, if it came to its end.
    fn finish(&mut self) -> Result<Answer, Failure>;
}

pub(crate) fn assemble(dialect: Dialect) -> Box<dyn Assemble> {
    match dialect {
        Dialect::AnthropicMessages => Box::new(anthropic::Assembly::default()),
        Dialect::OpenAiResponses => Box::new(responses::Assembly::default()),
        Dialect::OpenAiChat => Box::new(chat::Assembly::default()),
    }
}

/// The body of a request. `lifetime` is of the prefix in Anthropic's cache; none: it
/// is not told what to remember.
pub(crate) fn body(
    dialect: Dialect,
    conversation: &Conversation,
    options: &Options,
    lifetime: Option<Lifetime>,
) -> Vec<u8> {
    match dialect {
        Dialect::AnthropicMessages => anthropic::body(conversation, options, lifetime),
        Dialect::OpenAiResponses => responses::body(conversation, options),
        Dialect::OpenAiChat => chat::body(conversation, options),
    }
}

/// Tools by name: the order must not depend on who collected them.
fn tools(conversation: &Conversation) -> Vec<&Tool> {
    let mut tools: Vec<_> = conversation.tools.iter().collect();
    tools.sort_unstable_by_key(|tool| &tool.name);
    tools
}

/// The whole system prompt, for providers that take it in one piece.
fn system(conversation: &Conversation) -> String {
    let parts = conversation.system.iter().map(|part| part.text.as_str());
    parts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// The blocks of a message that can be sent in this dialect, results first. Thoughts
/// that led to nothing, because the model was cut off, are taken back by nobody.
fn sendable(message: &Message, dialect: Dialect) -> Vec<&Block> {
    let is_plain = |block: &Block| match block {
        Block::Text { text } => !text.is_empty(),
        Block::ToolCall(_) | Block::ToolResult(_) => true,
        Block::Opaque(_) => false,
    };
    let end = message.blocks.iter().rposition(is_plain).map_or(0, |last| last + 1);
    let is_sendable = |block: &&Block| match block {
        Block::Opaque(opaque) => opaque.dialect == dialect,
        block => is_plain(block),
    };
    let mut blocks: Vec<_> = message.blocks[..end].iter().filter(is_sendable).collect();
    blocks.sort_by_key(|block| !matches!(block, Block::ToolResult(_)));
    blocks
}

/// Arguments as OpenAI's dialects carry them: text, whatever it says.
fn arguments(input: &Input) -> &str {
    input.text()
}

fn cache_key(options: &Options) -> Option<&str> {
    let key = options.cache_key.as_deref()?;
    Some(&key[..key.floor_char_boundary(key.len().min(64))])
}

/// A name that is only shown.
pub(crate) fn label(value: Option<Value<'_>>) -> Option<String> {
    value.and_then(|value| value.str()).map(|text| crate::failure::shortened(&text, 200))
}
