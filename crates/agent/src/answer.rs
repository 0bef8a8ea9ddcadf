//! A model's answer on its way into a journal and out of it, without a byte changed.

use belljar_journal::event::Block as Kept;
use belljar_provider::{Block, Input, Opaque, Stop, ToolCall};
use serde_json::Value;

pub(crate) fn kept(block: &Block) -> Option<Kept> {
    Some(match block {
        Block::Text { text } => Kept::Text { text: text.clone() },
        Block::ToolCall(call) => Kept::ToolUse {
            id: call.id.clone(),
            name: call.name.clone(),
            input: arguments(&call.input),
        },
        Block::Opaque(opaque) => Kept::Opaque { content: serde_json::to_value(opaque).ok()? },
        // No model says this.
        Block::ToolResult(_) => return None,
    })
}

pub(crate) fn said(block: &Kept) -> Option<Block> {
    Some(match block {
        Kept::Text { text } => Block::text(text.clone()),
        Kept::ToolUse { id, name, input } => {
            Block::ToolCall(ToolCall { id: id.clone(), name: name.clone(), input: written(input) })
        }
        Kept::Opaque { content } => {
            Block::Opaque(serde_json::from_value::<Opaque>(content.clone()).ok()?)
        }
        Kept::Thinking { .. } => return None,
    })
}

/// Arguments as JSON if writing that again gives what the model wrote, and otherwise
/// as the text that it wrote: providers find in their caches only what is the same.
fn arguments(input: &Input) -> Value {
    let text = input.text();
    let value = match input {
        Input::Object(text) => serde_json::from_str::<Value>(text).ok(),
        Input::Invalid { .. } => None,
    };
    let is_same = |value: &Value| serde_json::to_string(value).is_ok_and(|again| again == text);
    value.filter(is_same).unwrap_or_else(|| text.into())
}

/// What the model wrote.
pub(crate) fn written(input: &Value) -> Input {
    match input {
        Value::String(text) => Input::read(text),
        other => Input::read(&other.to_string()),
    }
}

/// Why an answer ends that is none.
pub(crate) const MAX_OUTPUT: &str = "max_output";
pub(crate) const REFUSAL: &str = "refusal";
pub(crate) const NO_ANSWER: &str = "no_answer";
pub(crate) const CONTEXT_FULL: &str = "context_full";

pub(crate) fn stop(stop: &Stop) -> String {
    match stop {
        Stop::End => "end",
        Stop::ToolCalls => "tool_calls",
        Stop::MaxOutput => MAX_OUTPUT,
        Stop::Refusal => REFUSAL,
        Stop::NoAnswer => NO_ANSWER,
        Stop::ContextFull => CONTEXT_FULL,
        Stop::Other(word) => word,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use belljar_llm::Dialect;

    use super::*;

    #[test]
    fn what_a_model_said_is_the_same_after_the_journal() {
        let call = |text: &str| {
            let (id, name) = ("c".to_owned(), "shell".to_owned());
            Block::ToolCall(ToolCall { id, name, input: Input::read(text) })
        };
        let blocks = [
            Block::text("hm"),
            call(r#"{"b":1,"a":"x"}"#),
            call("{ \"b\": 1.0 }"),
            call(r#"{"a":1e2}"#),
            call("{broken"),
            call(""),
            Block::Opaque(Opaque { dialect: Dialect::OpenAiChat, json: "{ }".into() }),
        ];
        for block in blocks {
            let kept = kept(&block).unwrap();
            let text = serde_json::to_string(&kept).unwrap();
            assert_eq!(said(&serde_json::from_str(&text).unwrap()), Some(block));
        }
    }
}
