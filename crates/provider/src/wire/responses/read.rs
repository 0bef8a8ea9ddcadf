//! Answers of Responses.

use std::collections::BTreeMap;

use belljar_llm::json::{Kind, Value};
use belljar_llm::{Dialect, Usage};

use crate::answer::{Answer, Stop};
use crate::conversation::{Block, Input, Opaque, ToolCall};
use crate::failure::{Failure, field, text};
use crate::parameters::AppliedParameters;
use crate::provider::{Delta, OnDelta};
use crate::wire::{Assemble, MOST_PARTS, label};

#[derive(Debug, Default)]
pub(crate) struct Assembly {
    /// Whole items, by their place in the answer. Pieces are only passed on: the
    /// item repeats them, and some servers send nothing else.
    items: BTreeMap<u64, Vec<Block>>,
    usage: Option<Usage>,
    stop: Option<Stop>,
    id: Option<String>,
    model: Option<String>,
    is_refused: bool,
    applied: AppliedParameters,
}

impl Assemble for Assembly {
    fn event(&mut self, event: Value<'_>, on_delta: &mut OnDelta<'_>) -> Result<(), Failure> {
        let delta = || text(event, "delta", "delta");
        match &*text(event, "type", "type")? {
            "response.output_text.delta" | "response.refusal.delta" => {
                on_delta(Delta::Text(&delta()?));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                on_delta(Delta::Reasoning(&delta()?));
            }
            "response.function_call_arguments.delta" => on_delta(Delta::Arguments(&delta()?)),
            "response.output_item.added" => {
                let item = field(event, "item", Kind::Object, "item")?;
                if item.get("type").is_some_and(|kind| kind.is("function_call")) {
                    on_delta(Delta::ToolCall { name: &text(item, "name", "function_call.name")? });
                }
            }
            "response.output_item.done" => {
                let place = event.get("output_index").and_then(|index| index.u64());
                let place = place.unwrap_or(self.items.len() as u64);
                self.item(place, field(event, "item", Kind::Object, "item")?)?;
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.end(field(event, "response", Kind::Object, "response")?)?;
            }
            // Its fields stand in the event itself, or in an object below.
            "error" => return Err(Failure::said(event.get("error").unwrap_or(event))),
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, answer: Value<'_>) -> Result<(), Failure> {
        self.end(answer)
    }

    fn is_over(&self) -> bool {
        self.stop.is_some()
    }

    fn is_complete(&self) -> bool {
        self.stop.is_some()
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn finish(&mut self) -> Result<Answer, Failure> {
        let stop = self.stop.take().ok_or(Failure::Truncated)?;
        let blocks: Vec<_> = std::mem::take(&mut self.items).into_values().flatten().collect();
        let has_calls = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
        let stop = match stop {
            Stop::End if has_calls => Stop::ToolCalls,
            Stop::End if self.is_refused => Stop::Refusal,
            other => other,
        };
        let (model, id) = (self.model.take(), self.id.take());
        let (usage, retries) = (self.usage, Vec::new());
        let applied = std::mem::take(&mut self.applied);
        Ok(Answer { blocks, stop, usage, model, id, retries, applied })
    }
}

impl Assembly {
    fn item(&mut self, place: u64, item: Value<'_>) -> Result<(), Failure> {
        if self.items.len() >= MOST_PARTS {
            return Err(Failure::Parts);
        }
        let blocks = match &*text(item, "type", "item.type")? {
            "message" => self.message(item)?,
            "function_call" => {
                let own = |key, place| text(item, key, place).map(std::borrow::Cow::into_owned);
                vec![Block::ToolCall(ToolCall {
                    id: own("call_id", "function_call.call_id")?,
                    name: own("name", "function_call.name")?,
                    input: Input::read(&text(item, "arguments", "function_call.arguments")?),
                })]
            }
            "reasoning" => thoughts(item)?.into_iter().collect(),
            _ => Vec::new(),
        };
        match self.items.insert(place, blocks) {
            Some(_) => Err(Failure::Shape("output_index")),
            None => Ok(()),
        }
    }

    fn message(&mut self, item: Value<'_>) -> Result<Vec<Block>, Failure> {
        let mut blocks = Vec::new();
        for part in field(item, "content", Kind::Array, "message.content")?.items() {
            let said = match &*text(part, "type", "content.type")? {
                "output_text" => text(part, "text", "output_text.text")?,
                "refusal" => {
                    self.is_refused = true;
                    text(part, "refusal", "refusal.refusal")?
                }
                _ => continue,
            };
            if blocks.len() >= MOST_PARTS {
                return Err(Failure::Parts);
            }
            if !said.is_empty() {
                blocks.push(Block::text(said));
            }
        }
        Ok(blocks)
    }

    fn end(&mut self, response: Value<'_>) -> Result<(), Failure> {
        self.id = label(response.get("id"));
        self.model = label(response.get("model"));
        self.applied = AppliedParameters::echoed(response);
        self.usage = response.get("usage").and_then(Usage::of_openai);
        if let Some(error) = response.get("error").filter(|error| !error.is_null()) {
            return Err(Failure::said(error));
        }
        if self.items.is_empty() {
            let output = field(response, "output", Kind::Array, "output")?;
            for (place, item) in (0..).zip(output.items()) {
                self.item(place, item)?;
            }
        }
        self.stop = Some(match &*text(response, "status", "status")? {
            "completed" => Stop::End,
            "incomplete" => match response.at(&["incomplete_details", "reason"]) {
                Some(reason) if reason.is("max_output_tokens") => Stop::MaxOutput,
                Some(reason) if reason.is("content_filter") => Stop::Refusal,
                reason => Stop::Other(label(reason).unwrap_or_default()),
            },
            // Failed without an error, or not over at all.
            _ => return Err(Failure::Shape("status")),
        });
        Ok(())
    }
}

/// What the model thought, as it is taken back: without the name and the state that
/// it would have if the provider had kept it.
fn thoughts(item: Value<'_>) -> Result<Option<Block>, Failure> {
    if item.get("encrypted_content").and_then(|content| content.str()).is_none() {
        return Ok(None);
    }
    let raw = |value: Value<'_>| {
        String::from_utf8(value.raw().to_vec()).map_err(|_| Failure::Shape("reasoning"))
    };
    let mut members = Vec::new();
    for (key, value) in item.members() {
        if !key.is("id") && !key.is("status") {
            members.push(format!("{}:{}", raw(key)?, raw(value)?));
        }
    }
    let json = format!("{{{}}}", members.join(","));
    Ok(Some(Block::Opaque(Opaque { dialect: Dialect::OpenAiResponses, json })))
}
