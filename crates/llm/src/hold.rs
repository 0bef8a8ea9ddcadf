//! Holds the tool calls of an answer until a decision about them.
//!
//! ```text
//!   upstream ──chunk──► Hold ──what comes before the first call──► client
//!                        │
//!                        ├─ finish ─► the calls, with their whole input
//!                        ├─ release ► all that was held, byte for byte
//!                        └─ deny ───► a text in place of the calls, and the end of the turn
//! ```
//!
//! From the first event of a tool call on, nothing passes until the answer has ended: a client
//! executes a call as soon as it has its last event. A denied answer keeps its usage. All of its
//! calls are left out, because a client answers all calls of a turn or none.
//!
//! An event that cannot be read ends the answer: a client might read a call in it. So does a call that
//! begins and is never there as a whole.

mod anthropic;
mod chat;
mod responses;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::dialect::Dialect;
use crate::json::{Reader, Value};
use crate::refusal::{self, Kind};
use crate::sse::{Event, Splitter};
use crate::tap::Form;

/// Bytes of one answer that are held at most.
pub const MAX_HELD_BYTES: usize = 8 << 20;
/// Tool calls of one answer at most. Each piece of a call is looked for among them.
pub const MAX_HELD_CALLS: usize = 128;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A tool call that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldCall {
    pub id: Option<String>,
    /// Empty: the answer does not say it.
    pub name: String,
    /// False: the name came in several pieces, which clients put together in different ways.
    pub is_name_sure: bool,
    /// As the model wrote it: mostly JSON.
    pub input: String,
}

/// The reason that an answer with tool calls cannot be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HoldError {
    #[error("the tool calls of the answer have more than {MAX_HELD_BYTES} bytes")]
    TooLarge,
    #[error("the answer has more than {MAX_HELD_CALLS} tool calls")]
    TooMany,
    #[error("the gateway has no room for the tool calls of the answer; try again later")]
    NoRoom,
    #[error("the answer cannot be read, so its tool calls cannot be shown for approval")]
    Unreadable,
    #[error("the answer broke off in its tool calls")]
    Cut,
}

/// Reads an answer and holds its tool calls.
#[derive(Debug)]
pub struct Hold {
    dialect: Dialect,
    reader: Reader,
    input: Input,
}

#[derive(Debug)]
enum Input {
    Stream { splitter: Splitter, held: Vec<Vec<u8>>, bytes: usize },
    Whole(Vec<u8>),
}

/// The calls of the held events so far.
#[derive(Debug, Default)]
struct Calls {
    /// With the place that later events name.
    list: Vec<(Place, HeldCall)>,
    /// Calls whose begin was told apart from the call.
    begun: usize,
    has_ended: bool,
}

/// The choice of a chat, and the number of a call.
type Place = (u64, u64);

impl Hold {
    pub fn new(dialect: Dialect, form: Form) -> Self {
        let input = match form {
            Form::Stream => {
                Input::Stream { splitter: Splitter::default(), held: Vec::new(), bytes: 0 }
            }
            Form::Whole => Input::Whole(Vec::new()),
        };
        Self { dialect, reader: Reader::new(), input }
    }

    /// Takes a piece of the answer, and returns the bytes that may pass now.
    pub fn push(&mut self, chunk: &[u8]) -> Result<Vec<u8>, HoldError> {
        let Self { dialect, reader, input } = self;
        match input {
            Input::Whole(body) => {
                if body.len().saturating_add(chunk.len()) > MAX_HELD_BYTES {
                    return Err(HoldError::TooLarge);
                }
                body.extend_from_slice(chunk);
                Ok(Vec::new())
            }
            Input::Stream { splitter, held, bytes } => {
                let mut passing = Vec::new();
                let mut error = None;
                let let_go = splitter.push(chunk, |block| {
                    let result = take(*dialect, reader, held, block, &mut passing);
                    *bytes += if held.is_empty() { 0 } else { block.len() };
                    error = error.or(result.err());
                });
                let is_too_large =
                    !held.is_empty() && *bytes + splitter.rest().len() > MAX_HELD_BYTES;
                if let_go.is_some() || splitter.is_blind() || is_too_large {
                    return Err(HoldError::TooLarge);
                }
                error.map_or(Ok(passing), Err)
            }
        }
    }

    /// Returns true while bytes are held that a client waits for.
    pub fn is_holding(&self) -> bool {
        match &self.input {
            Input::Stream { held, .. } => !held.is_empty(),
            Input::Whole(_) => true,
        }
    }

    /// The bytes of the answer that are in memory.
    pub fn bytes(&self) -> usize {
        match &self.input {
            Input::Stream { splitter, bytes, .. } => bytes.saturating_add(splitter.rest().len()),
            Input::Whole(body) => body.len(),
        }
    }

    /// The answer is over. Returns the bytes that may still pass, and the calls that are held; if
    /// there are none, [`Hold::release`] has the rest.
    pub fn finish(&mut self) -> Result<(Vec<u8>, Vec<HeldCall>), HoldError> {
        let Self { dialect, reader, input } = self;
        let (passing, calls) = match input {
            Input::Whole(body) => (Vec::new(), whole_calls(*dialect, reader, body)?),
            Input::Stream { splitter, held, .. } => {
                let mut passing = Vec::new();
                // Some clients count a last event without its empty line.
                let rest = splitter.rest();
                if !rest.is_empty() {
                    take(*dialect, reader, held, rest, &mut passing)?;
                }
                (passing, stream_calls(*dialect, reader, held)?)
            }
        };
        Ok((passing, calls))
    }

    /// Everything that is held, as it came.
    pub fn release(self) -> Vec<u8> {
        match self.input {
            Input::Stream { held, .. } => held.concat(),
            Input::Whole(body) => body,
        }
    }

    /// The answer with `text` in place of its calls, as the end of its turn.
    pub fn deny(self, text: &str) -> Result<Vec<u8>, HoldError> {
        let Self { dialect, mut reader, input } = self;
        match input {
            Input::Stream { held, .. } => match dialect {
                Dialect::AnthropicMessages => anthropic::deny(&mut reader, &held, text),
                Dialect::OpenAiResponses => responses::deny(&mut reader, &held, text),
                Dialect::OpenAiChat => chat::deny(&mut reader, &held, text),
            },
            Input::Whole(body) => {
                let value = reader.read(&body).map_err(|_| HoldError::Unreadable)?;
                let edits = match dialect {
                    Dialect::AnthropicMessages => anthropic::deny_whole(value, text),
                    Dialect::OpenAiResponses => responses::deny_whole(value, text),
                    Dialect::OpenAiChat => chat::deny_whole(value, text),
                };
                Ok(edits.apply(&body))
            }
        }
    }

    /// The end of an answer that cannot be passed on: its own error, or one that says why.
    pub fn broken(self, why: HoldError) -> Vec<u8> {
        let Self { dialect, mut reader, input } = self;
        match input {
            Input::Whole(_) => {
                refusal::answer(dialect, Kind::BadAnswer, &why.to_string(), "req_belljar")
                    .body
                    .into_bytes()
            }
            Input::Stream { held, .. } => {
                let own = held.iter().filter(|block| {
                    read(&mut reader, block, |event| {
                        event.is_some_and(|event| {
                            event
                                .get("type")
                                .is_some_and(|kind| kind.is("error") || kind.is("response.failed"))
                        })
                    })
                    .unwrap_or(false)
                });
                let own = own.cloned().collect::<Vec<_>>().concat();
                if own.is_empty() {
                    return refusal::last_event(dialect, Kind::BadAnswer, &why.to_string(), None)
                        .into_bytes();
                }
                own
            }
        }
    }
}

/// Bytes that keep a client from giving up while an answer is held. They may follow a whole event,
/// or stand before a whole answer.
pub fn keep_alive(dialect: Dialect, form: Form) -> &'static [u8] {
    match (form, dialect) {
        // White space before a value is part of JSON.
        (Form::Whole, _) => b" ",
        (Form::Stream, Dialect::AnthropicMessages) => {
            b"event: ping\ndata: {\"type\": \"ping\"}\n\n"
        }
        // A comment does not count for clients that measure the time between events.
        (Form::Stream, Dialect::OpenAiResponses) => {
            b"event: keepalive\ndata: {\"type\":\"keepalive\"}\n\n"
        }
        (Form::Stream, Dialect::OpenAiChat) => b": keep-alive\n\n",
    }
}

/// Lets an event pass, or holds it.
fn take(
    dialect: Dialect,
    reader: &mut Reader,
    held: &mut Vec<Vec<u8>>,
    block: &[u8],
    passing: &mut Vec<u8>,
) -> Result<(), HoldError> {
    let begins = held.is_empty()
        && read(reader, block, |event| {
            event.is_some_and(|event| match dialect {
                Dialect::AnthropicMessages => anthropic::begins_call(event),
                Dialect::OpenAiResponses => responses::begins_call(event),
                Dialect::OpenAiChat => chat::begins_call(event),
            })
        })?;
    if begins || !held.is_empty() {
        held.push(block.to_vec());
    } else {
        passing.extend_from_slice(block);
    }
    Ok(())
}

/// Reads an event; `None`: it has no value, as at the end of a chat.
fn read<T>(
    reader: &mut Reader,
    block: &[u8],
    each: impl FnOnce(Option<Value<'_>>) -> T,
) -> Result<T, HoldError> {
    let event = Event::read(block.strip_prefix(BYTE_ORDER_MARK).unwrap_or(block));
    if event.data.is_empty() || is_done(&event) {
        return Ok(each(None));
    }
    let value = reader.read(&event.data).map_err(|_| HoldError::Unreadable)?;
    Ok(each(Some(value)))
}

/// Returns true for the event that ends a chat.
fn is_done(event: &Event<'_>) -> bool {
    *event.data == *b"[DONE]"
}

fn stream_calls(
    dialect: Dialect,
    reader: &mut Reader,
    held: &[Vec<u8>],
) -> Result<Vec<HeldCall>, HoldError> {
    let mut calls = Calls::default();
    for block in held {
        calls.has_ended |= is_done(&Event::read(block));
        read(reader, block, |event| match (event, dialect) {
            (None, _) => Ok(()),
            (Some(event), Dialect::AnthropicMessages) => anthropic::collect(&mut calls, event),
            (Some(event), Dialect::OpenAiResponses) => responses::collect(&mut calls, event),
            (Some(event), Dialect::OpenAiChat) => chat::collect(&mut calls, event),
        })??;
    }
    if held.is_empty() {
        return Ok(Vec::new());
    }
    if !calls.has_ended {
        return Err(HoldError::Cut);
    }
    // A client may make a call of pieces that we have no whole of.
    if calls.list.len() < calls.begun.max(1) {
        return Err(HoldError::Unreadable);
    }
    Ok(calls.list.into_iter().map(|(_, call)| call).collect())
}

fn whole_calls(
    dialect: Dialect,
    reader: &mut Reader,
    body: &[u8],
) -> Result<Vec<HeldCall>, HoldError> {
    let value = reader.read(body).map_err(|_| HoldError::Unreadable)?;
    let calls = match dialect {
        Dialect::AnthropicMessages => anthropic::whole_calls(value),
        Dialect::OpenAiResponses => responses::whole_calls(value),
        Dialect::OpenAiChat => chat::whole_calls(value),
    };
    if calls.len() > MAX_HELD_CALLS { Err(HoldError::TooMany) } else { Ok(calls) }
}

impl Calls {
    fn push(&mut self, place: Place, call: HeldCall) -> Result<(), HoldError> {
        if self.list.len() >= MAX_HELD_CALLS {
            return Err(HoldError::TooMany);
        }
        self.list.push((place, call));
        Ok(())
    }

    /// The last call at this place.
    fn last(&mut self, place: Place) -> Option<&mut HeldCall> {
        self.list.iter_mut().rev().find(|(own, _)| *own == place).map(|(_, call)| call)
    }

    /// Appends to the input of the last call at this place.
    fn piece(&mut self, place: Place, text: Option<Value<'_>>) -> Result<(), HoldError> {
        if let (Some(call), Some(text)) = (self.last(place), piece_of(text)?) {
            call.input.push_str(&text);
        }
        Ok(())
    }
}

/// A piece of a text. Other values than texts are an error: a client might put them together.
fn piece_of(value: Option<Value<'_>>) -> Result<Option<Cow<'_, str>>, HoldError> {
    let value = value.filter(|value| !value.is_null());
    value.map(|value| value.str().ok_or(HoldError::Unreadable)).transpose()
}

fn text_of(value: Option<Value<'_>>) -> Option<String> {
    value.and_then(|value| value.str()).map(Cow::into_owned)
}

fn raw_text(value: Value<'_>) -> String {
    String::from_utf8_lossy(value.raw()).into_owned()
}

/// A JSON array of values that stand somewhere, and one more.
fn array<'a>(items: impl Iterator<Item = Value<'a>>, last: &str) -> Vec<u8> {
    let mut array = vec![b'['];
    for item in items {
        array.extend_from_slice(item.raw());
        array.push(b',');
    }
    array.extend_from_slice(last.as_bytes());
    array.push(b']');
    array
}

/// Writes an event. Line ends in JSON are white space between its values.
fn write_event(out: &mut Vec<u8>, name: Option<&str>, data: &[u8]) {
    if let Some(name) = name {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"data: ");
    out.extend(data.iter().map(|&byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
    out.extend_from_slice(b"\n\n");
}
