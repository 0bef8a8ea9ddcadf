//! Answers of Messages.

use std::collections::BTreeMap;

use belljar_llm::json::{Kind, Value};
use belljar_llm::usage::AnthropicCounts;
use belljar_llm::{Dialect, Usage};

use crate::answer::{Answer, Stop};
use crate::conversation::{Block, Input, Opaque, ToolCall};
use crate::failure::{Failure, field, text};
use crate::parameters::AppliedParameters;
use crate::provider::{Delta, OnDelta};
use crate::wire::{Assemble, MOST_PARTS, label};
use crate::write::object;

#[derive(Debug, Default)]
pub(crate) struct Assembly {
    blocks: BTreeMap<u64, Piece>,
    counts: AnthropicCounts,
    stop: Option<String>,
    id: Option<String>,
    model: Option<String>,
    has_begun: bool,
    is_over: bool,
}

/// A block that may still grow.
#[derive(Debug)]
enum Piece {
    Text(String),
    Call {
        id: String,
        name: String,
        /// What came with the beginning of the block; nothing, as a rule.
        given: String,
        json: String,
    },
    Thinking {
        text: String,
        signature: String,
    },
    /// Thoughts that nobody may read.
    Redacted(String),
    /// A kind that was not asked for.
    Unknown,
}

impl Assemble for Assembly {
    fn event(&mut self, event: Value<'_>, on_delta: &mut OnDelta<'_>) -> Result<(), Failure> {
        let kind = text(event, "type", "type")?;
        match &*kind {
            "message_start" => {
                if std::mem::replace(&mut self.has_begun, true) {
                    return Err(Failure::Shape("message_start"));
                }
                let message = field(event, "message", Kind::Object, "message")?;
                self.id = label(message.get("id"));
                self.model = label(message.get("model"));
                self.count(message.get("usage"));
            }
            "content_block_start" => {
                let index = index(event)?;
                let block = field(event, "content_block", Kind::Object, "content_block")?;
                let piece = Piece::begin(block)?;
                piece.announce(on_delta);
                self.add(index, piece)?;
            }
            "content_block_delta" => {
                let piece = self.blocks.get_mut(&index(event)?).ok_or(Failure::Shape("index"))?;
                piece.grow(field(event, "delta", Kind::Object, "delta")?, on_delta)?;
            }
            "message_delta" => {
                self.count(event.get("usage"));
                let delta = field(event, "delta", Kind::Object, "delta")?;
                if let Some(reason) = delta.get("stop_reason").filter(|reason| !reason.is_null()) {
                    let reason = reason.str().ok_or(Failure::Shape("stop_reason"))?;
                    self.stop = Some(reason.into_owned());
                }
            }
            "message_stop" => self.is_over = true,
            "error" => return Err(Failure::said(field(event, "error", Kind::Object, "error")?)),
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, answer: Value<'_>) -> Result<(), Failure> {
        if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
            return Err(Failure::said(error));
        }
        self.has_begun = true;
        self.id = label(answer.get("id"));
        self.model = label(answer.get("model"));
        self.count(answer.get("usage"));
        let content = field(answer, "content", Kind::Array, "content")?;
        for (index, block) in (0..).zip(content.items()) {
            self.add(index, Piece::begin(block)?)?;
        }
        self.stop = Some(text(answer, "stop_reason", "stop_reason")?.into_owned());
        self.is_over = true;
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn is_complete(&self) -> bool {
        self.stop.is_some()
    }

    fn usage(&self) -> Option<Usage> {
        self.counts.usage()
    }

    fn finish(&mut self) -> Result<Answer, Failure> {
        // With the reason to stop, everything was said; `message_stop` adds nothing.
        let stop = self.stop.take().ok_or(Failure::Truncated)?;
        if !self.has_begun {
            return Err(Failure::Shape("message_start"));
        }
        let pieces = std::mem::take(&mut self.blocks).into_values();
        Ok(Answer {
            blocks: pieces.filter_map(Piece::block).collect(),
            stop: match stop.as_str() {
                "end_turn" | "stop_sequence" => Stop::End,
                "tool_use" => Stop::ToolCalls,
                "max_tokens" => Stop::MaxOutput,
                "refusal" => Stop::Refusal,
                "model_context_window_exceeded" => Stop::ContextFull,
                _ => Stop::Other(crate::failure::shortened(&stop, 200)),
            },
            usage: self.counts.usage(),
            model: self.model.take(),
            id: self.id.take(),
            retries: Vec::new(),
            applied: AppliedParameters::default(),
        })
    }
}

impl Assembly {
    fn count(&mut self, usage: Option<Value<'_>>) {
        if let Some(usage) = usage {
            self.counts.merge(usage);
        }
    }

    fn add(&mut self, index: u64, piece: Piece) -> Result<(), Failure> {
        if self.blocks.len() >= MOST_PARTS {
            return Err(Failure::Parts);
        }
        match self.blocks.insert(index, piece) {
            Some(_) => Err(Failure::Shape("index")),
            None => Ok(()),
        }
    }
}

fn index(event: Value<'_>) -> Result<u64, Failure> {
    event.get("index").and_then(|index| index.u64()).ok_or(Failure::Shape("index"))
}

fn own(value: Value<'_>, key: &str, place: &'static str) -> Result<String, Failure> {
    text(value, key, place).map(std::borrow::Cow::into_owned)
}

/// A string, or nothing if it is not there yet.
fn early(block: Value<'_>, key: &str) -> String {
    block.get(key).and_then(|value| value.str()).unwrap_or_default().into_owned()
}

fn raw(value: Value<'_>) -> Result<String, Failure> {
    String::from_utf8(value.raw().to_vec()).map_err(|_| Failure::Shape("content_block"))
}

impl Piece {
    fn begin(block: Value<'_>) -> Result<Self, Failure> {
        Ok(match &*text(block, "type", "content_block.type")? {
            "text" => Self::Text(own(block, "text", "text")?),
            "tool_use" => Self::Call {
                id: own(block, "id", "tool_use.id")?,
                name: own(block, "name", "tool_use.name")?,
                given: block.get("input").map_or_else(|| Ok(String::new()), raw)?,
                json: String::new(),
            },
            "thinking" => Self::Thinking {
                text: early(block, "thinking"),
                signature: early(block, "signature"),
            },
            "redacted_thinking" => Self::Redacted(own(block, "data", "redacted_thinking.data")?),
            _ => Self::Unknown,
        })
    }

    fn announce(&self, on_delta: &mut OnDelta<'_>) {
        match self {
            Self::Call { name, .. } => on_delta(Delta::ToolCall { name }),
            Self::Text(text) if !text.is_empty() => on_delta(Delta::Text(text)),
            _ => {}
        }
    }

    fn grow(&mut self, delta: Value<'_>, on_delta: &mut OnDelta<'_>) -> Result<(), Failure> {
        let kind = text(delta, "type", "delta.type")?;
        match (&*kind, self) {
            ("text_delta", Self::Text(all)) => {
                let more = text(delta, "text", "text_delta.text")?;
                on_delta(Delta::Text(&more));
                all.push_str(&more);
            }
            ("input_json_delta", Self::Call { json, .. }) => {
                let more = text(delta, "partial_json", "input_json_delta.partial_json")?;
                on_delta(Delta::Arguments(&more));
                json.push_str(&more);
            }
            ("thinking_delta", Self::Thinking { text: all, .. }) => {
                let more = text(delta, "thinking", "thinking_delta.thinking")?;
                on_delta(Delta::Reasoning(&more));
                all.push_str(&more);
            }
            ("signature_delta", Self::Thinking { signature, .. }) => {
                signature.push_str(&text(delta, "signature", "signature_delta.signature")?);
            }
            ("text_delta" | "input_json_delta" | "thinking_delta" | "signature_delta", other)
                if !matches!(other, Self::Unknown) =>
            {
                return Err(Failure::Shape("delta.type"));
            }
            // Citations, and what is yet to come.
            _ => {}
        }
        Ok(())
    }

    fn block(self) -> Option<Block> {
        let opaque = |fill: &dyn Fn(&mut crate::write::Object<'_>)| {
            let json = String::from_utf8(object(|item| fill(item))).ok()?;
            Some(Block::Opaque(Opaque { dialect: Dialect::AnthropicMessages, json }))
        };
        match self {
            Self::Text(text) => (!text.is_empty()).then(|| Block::text(text)),
            Self::Call { id, name, given, json } => {
                let written = if json.is_empty() { given } else { json };
                Some(Block::ToolCall(ToolCall { id, name, input: Input::read(&written) }))
            }
            // Without a signature it would not be taken back.
            Self::Thinking { signature, .. } if signature.is_empty() => None,
            Self::Thinking { text, signature } => opaque(&|item| {
                item.text("type", "thinking");
                item.text("thinking", &text);
                item.text("signature", &signature);
            }),
            Self::Redacted(data) => opaque(&|item| {
                item.text("type", "redacted_thinking");
                item.text("data", &data);
            }),
            Self::Unknown => None,
        }
    }
}
