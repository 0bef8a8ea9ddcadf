//! Answers of Chat Completions.

use std::collections::BTreeMap;

use belljar_llm::Usage;
use belljar_llm::json::{Kind, Value};

use crate::answer::{Answer, Stop};
use crate::conversation::{Block, Input, ToolCall};
use crate::failure::{Failure, field};
use crate::parameters::AppliedParameters;
use crate::provider::{Delta, OnDelta};
use crate::wire::{Assemble, MOST_PARTS, label};

#[derive(Debug, Default)]
pub(crate) struct Assembly {
    text: String,
    calls: BTreeMap<u64, Call>,
    finish: Option<String>,
    usage: Option<Usage>,
    id: Option<String>,
    model: Option<String>,
    is_refused: bool,
    is_over: bool,
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Assemble for Assembly {
    fn event(&mut self, event: Value<'_>, on_delta: &mut OnDelta<'_>) -> Result<(), Failure> {
        self.read(event, "delta", on_delta)
    }

    fn whole(&mut self, answer: Value<'_>) -> Result<(), Failure> {
        self.read(answer, "message", &mut |_| {})?;
        self.is_over = true;
        Ok(())
    }

    fn mark(&mut self) {
        self.is_over = true;
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn is_complete(&self) -> bool {
        self.finish.is_some()
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn finish(&mut self) -> Result<Answer, Failure> {
        let finish = self.finish.take().ok_or(Failure::Truncated)?;
        let mut blocks = Vec::new();
        if !self.text.is_empty() {
            blocks.push(Block::text(std::mem::take(&mut self.text)));
        }
        for Call { id, name, arguments } in std::mem::take(&mut self.calls).into_values() {
            blocks.push(Block::ToolCall(ToolCall { id, name, input: Input::read(&arguments) }));
        }
        let has_calls = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
        let stop = match finish.as_str() {
            // Some servers stop with calls, and some call without any.
            "stop" | "tool_calls" | "function_call" if has_calls => Stop::ToolCalls,
            "stop" | "tool_calls" if self.is_refused => Stop::Refusal,
            "stop" | "tool_calls" => Stop::End,
            "length" => Stop::MaxOutput,
            "content_filter" => Stop::Refusal,
            _ => Stop::Other(crate::failure::shortened(&finish, 200)),
        };
        let (model, id) = (self.model.take(), self.id.take());
        let (usage, retries, applied) = (self.usage, Vec::new(), AppliedParameters::default());
        Ok(Answer { blocks, stop, usage, model, id, retries, applied })
    }
}

impl Assembly {
    fn read(
        &mut self,
        chunk: Value<'_>,
        key: &'static str,
        on_delta: &mut OnDelta<'_>,
    ) -> Result<(), Failure> {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(Failure::said(error));
        }
        if self.id.is_none() {
            self.id = label(chunk.get("id"));
            self.model = label(chunk.get("model"));
        }
        self.usage = chunk.get("usage").and_then(Usage::of_openai).or(self.usage);
        for choice in field(chunk, "choices", Kind::Array, "choices")?.items() {
            // Only one answer was asked for.
            if choice.get("index").and_then(|index| index.u64()).unwrap_or(0) != 0 {
                continue;
            }
            self.said(field(choice, key, Kind::Object, key)?, on_delta)?;
            if let Some(reason) = choice.get("finish_reason").filter(|reason| !reason.is_null()) {
                let reason = reason.str().ok_or(Failure::Shape("finish_reason"))?;
                self.finish = Some(reason.into_owned());
            }
        }
        Ok(())
    }

    fn said(&mut self, message: Value<'_>, on_delta: &mut OnDelta<'_>) -> Result<(), Failure> {
        for (key, value) in message.members().filter(|(_, value)| !value.is_null()) {
            let text = || value.str().ok_or(Failure::Shape("content"));
            match &*key.word() {
                b"content" | b"refusal" => {
                    let more = text()?;
                    if !more.is_empty() {
                        self.is_refused |= key.is("refusal");
                        on_delta(Delta::Text(&more));
                        self.text.push_str(&more);
                    }
                }
                b"reasoning_content" | b"reasoning" => {
                    // Not in the standard, so it may be anything.
                    if let Some(more) = value.str() {
                        on_delta(Delta::Reasoning(&more));
                    }
                }
                b"tool_calls" => {
                    for (place, call) in (0..).zip(value.items()) {
                        self.call(place, call, on_delta)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A call, or the next piece of one.
    fn call(
        &mut self,
        place: u64,
        piece: Value<'_>,
        on_delta: &mut OnDelta<'_>,
    ) -> Result<(), Failure> {
        let place = piece.get("index").and_then(|index| index.u64()).unwrap_or(place);
        if self.calls.len() >= MOST_PARTS && !self.calls.contains_key(&place) {
            return Err(Failure::Parts);
        }
        let call = self.calls.entry(place).or_default();
        let text = |value: Option<Value<'_>>| match value {
            None => Ok(None),
            Some(value) if value.is_null() => Ok(None),
            Some(value) => match value.str() {
                Some(text) => Ok(Some(text.into_owned())),
                None => Err(Failure::Shape("tool_calls")),
            },
        };
        if let Some(id) = text(piece.get("id"))?.filter(|_| call.id.is_empty()) {
            call.id = id;
        }
        let Some(function) = piece.get("function") else { return Ok(()) };
        if let Some(name) = text(function.get("name"))?.filter(|_| call.name.is_empty()) {
            on_delta(Delta::ToolCall { name: &name });
            call.name = name;
        }
        if let Some(more) = text(function.get("arguments"))? {
            on_delta(Delta::Arguments(&more));
            call.arguments.push_str(&more);
        }
        Ok(())
    }
}
