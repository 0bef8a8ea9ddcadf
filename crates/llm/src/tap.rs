//! Reads along while an answer passes: usage, end, text, tool calls, errors.
//!
//! ```text
//!   upstream ──chunk──► Tap ──the same chunk──► client
//!                        │
//!                        └─ finish ─► Report
//! ```
//!
//! The bytes are not changed, with one exception: the event that tells a streamed
//! Chat's usage is dropped when the client had not asked for it. A tap can also
//! let whole events pass only, so that one of our own may follow at any time.

mod anthropic;
mod chat;
mod report;
mod responses;
mod seen;
#[cfg(test)]
mod tests;

pub use report::{Report, ToolCall, UpstreamError};

use crate::dialect::Dialect;
use crate::json::{Reader, Value};
use crate::sse::{Event, Splitter};
use crate::usage::Usage;
use seen::Seen;

/// More than any provider sends at once.
const LARGEST_BODY: usize = 64 << 20;

/// How an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Stream,
    Whole,
}

impl Form {
    /// By the answer's own `content-type`: errors come whole even when a stream
    /// was asked for.
    pub fn of(content_type: Option<&str>) -> Self {
        let kind = content_type.and_then(|kind| kind.split(';').next()).unwrap_or_default();
        if kind.trim().eq_ignore_ascii_case("text/event-stream") {
            Self::Stream
        } else {
            Self::Whole
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// The client did not ask for the event that tells the usage.
    pub drop_usage: bool,
    /// Pass events on only when they are complete.
    pub whole_events: bool,
    /// How much of the text, and of each tool call's arguments, to keep.
    pub keep: usize,
}

/// What goes on to the client in place of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pass {
    /// The chunk itself.
    Same,
    These(Vec<u8>),
}

#[derive(Debug)]
pub struct Tap {
    input: Input,
    options: Options,
    inner: Inner,
}

#[derive(Debug)]
enum Input {
    Stream(Splitter),
    Whole { body: Vec<u8>, is_blind: bool },
}

#[derive(Debug)]
struct Inner {
    dialect: Dialect,
    reader: Reader,
    seen: Seen,
}

impl Tap {
    pub fn new(dialect: Dialect, form: Form, options: Options) -> Self {
        let input = match form {
            Form::Stream => Input::Stream(Splitter::default()),
            Form::Whole => Input::Whole { body: vec![], is_blind: false },
        };
        let inner = Inner { dialect, reader: Reader::trusting(), seen: Seen::new(options.keep) };
        Self { input, options, inner }
    }

    pub fn push(&mut self, chunk: &[u8]) -> Pass {
        let Self { input, options, inner } = self;
        match input {
            Input::Whole { body, is_blind } => {
                if body.len() + chunk.len() > LARGEST_BODY {
                    *is_blind = true;
                    *body = vec![];
                }
                if !*is_blind {
                    body.extend_from_slice(chunk);
                }
                Pass::Same
            }
            Input::Stream(splitter) if options.drop_usage || options.whole_events => {
                if splitter.is_blind() {
                    return Pass::Same;
                }
                let had_rest = splitter.rest().len();
                let mut out = Vec::with_capacity(had_rest + chunk.len());
                let mut dropped = false;
                let let_go = splitter.push(chunk, |block| match inner.block(block) {
                    Extra::Usage if options.drop_usage => dropped = true,
                    Extra::Usage | Extra::No => out.extend_from_slice(block),
                });
                if let Some(let_go) = let_go {
                    out.extend_from_slice(&let_go);
                }
                if had_rest == 0 && out.len() == chunk.len() && !dropped {
                    return Pass::Same;
                }
                Pass::These(out)
            }
            Input::Stream(splitter) => {
                splitter.push(chunk, |block| {
                    inner.block(block);
                });
                Pass::Same
            }
        }
    }

    /// From now on, keeps what is generated until [`Tap::hear`] is called.
    pub fn listen(&mut self) {
        self.inner.seen.heard = Some(Vec::new());
    }

    /// What was generated since the last call, text and thoughts and arguments,
    /// as a client puts the pieces together.
    pub fn hear<R>(&mut self, listener: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let heard = self.inner.seen.heard.as_mut()?;
        let said = listener(heard);
        heard.clear();
        Some(said)
    }

    /// Whether an event of our own can follow: nothing half has passed.
    pub fn is_between_events(&self) -> bool {
        match &self.input {
            Input::Stream(_) if self.options.drop_usage || self.options.whole_events => true,
            Input::Stream(splitter) => splitter.rest().is_empty() && !splitter.is_blind(),
            Input::Whole { body, is_blind } => body.is_empty() && !is_blind,
        }
    }

    /// The usage of a stream that has come to its own end, as the report will have it. More may
    /// follow that says nothing new.
    pub fn settled(&self) -> Option<Usage> {
        match &self.input {
            Input::Stream(splitter) if !splitter.is_blind() => self.inner.seen.settled(),
            Input::Stream(_) | Input::Whole { .. } => None,
        }
    }

    /// The answer is over, or has been cut. Also what was held back of it.
    pub fn finish(mut self) -> (Vec<u8>, Report) {
        let mut held = vec![];
        let is_blind;
        match &self.input {
            Input::Stream(splitter) => {
                is_blind = splitter.is_blind();
                let rest = splitter.rest();
                // A last event without its empty line: clients do not count it, but
                // the upstream does.
                let extra = if rest.is_empty() { Extra::No } else { self.inner.block(rest) };
                let is_held = self.options.drop_usage || self.options.whole_events;
                if is_held && !(extra == Extra::Usage && self.options.drop_usage) {
                    held = rest.to_vec();
                }
            }
            Input::Whole { body, is_blind: too_large } => {
                is_blind = *too_large;
                if !body.is_empty() {
                    self.inner.whole(body);
                }
            }
        }
        (held, self.inner.seen.report(is_blind))
    }
}

/// Whether an event exists only because usage was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extra {
    No,
    Usage,
}

impl Inner {
    fn block(&mut self, block: &[u8]) -> Extra {
        let event = Event::read(block);
        if event.data.is_empty() {
            return Extra::No;
        }
        if *event.data == *b"[DONE]" {
            return Extra::No;
        }
        let Ok(value) = self.reader.read(&event.data) else {
            self.seen.unreadable += 1;
            return Extra::No;
        };
        match self.dialect {
            Dialect::AnthropicMessages => anthropic::event(&mut self.seen, value),
            Dialect::OpenAiResponses => responses::event(&mut self.seen, value),
            Dialect::OpenAiChat => return chat::event(&mut self.seen, value),
        }
        Extra::No
    }

    fn whole(&mut self, body: &[u8]) {
        let Ok(value) = self.reader.read(body) else {
            self.seen.unreadable += 1;
            return;
        };
        if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
            self.seen.error(error);
        }
        match self.dialect {
            Dialect::AnthropicMessages => anthropic::whole(&mut self.seen, value),
            Dialect::OpenAiResponses => responses::whole(&mut self.seen, value),
            Dialect::OpenAiChat => chat::whole(&mut self.seen, value),
        }
    }
}

fn text_of(value: Option<Value<'_>>) -> Option<String> {
    value.and_then(|value| value.str()).map(std::borrow::Cow::into_owned)
}
