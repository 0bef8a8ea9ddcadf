//! OpenAI's Chat Completions.

use bytes::Bytes;
use serde_json::{Value, json};

use super::ask::Ask;
use super::reply::Reply;
use super::sse::{halves, unnamed};
use crate::script::{Stop, Usage};

pub(crate) fn unary(ask: &Ask, reply: &Reply) -> Value {
    let mut message = json!({ "role": "assistant", "content": null, "refusal": null });
    if let Some(text) = &reply.thoughts {
        message["reasoning_content"] = text.clone().into();
    }
    if !reply.pieces.is_empty() {
        message["content"] = reply.text().into();
    }
    if !reply.calls.is_empty() {
        let calls = reply.calls.iter().map(|call| {
            let function = json!({ "name": call.name, "arguments": call.arguments() });
            json!({ "id": call.id, "type": "function", "function": function })
        });
        message["tool_calls"] = calls.collect();
    }
    let choice = json!({ "index": 0, "message": message, "logprobs": null,
        "finish_reason": finish(reply) });
    let mut answer = chunk(ask, "chat.completion", &[choice]);
    if let Some(usage) = reply.usage {
        answer["usage"] = counts(usage);
    }
    answer
}

pub(crate) fn events(ask: &Ask, reply: &Reply) -> Vec<Bytes> {
    let usage = reply.usage.filter(|_| ask.include_usage);
    let event = |delta: Value, finish: Option<&str>| {
        let choice =
            json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish });
        let mut data = chunk(ask, "chat.completion.chunk", &[choice]);
        // With usage asked for, every chunk before the last says that it has none.
        if usage.is_some() {
            data["usage"] = Value::Null;
        }
        unnamed(&data)
    };
    let mut events = vec![event(json!({ "role": "assistant", "content": "" }), None)];
    if let Some(text) = &reply.thoughts {
        events.push(event(json!({ "reasoning_content": text }), None));
    }
    events.extend(reply.pieces.iter().map(|piece| event(json!({ "content": piece }), None)));
    for (index, call) in reply.calls.iter().enumerate() {
        let function = json!({ "name": call.name, "arguments": "" });
        let begin =
            json!({ "index": index, "id": call.id, "type": "function", "function": function });
        events.push(event(json!({ "tool_calls": [begin] }), None));
        let arguments = call.arguments();
        let (first, second) = halves(&arguments);
        for part in [first, second] {
            let more = json!({ "index": index, "function": { "arguments": part } });
            events.push(event(json!({ "tool_calls": [more] }), None));
        }
    }
    events.push(event(json!({}), Some(finish(reply))));
    if let Some(usage) = usage {
        let mut data = chunk(ask, "chat.completion.chunk", &[]);
        data["usage"] = counts(usage);
        events.push(unnamed(&data));
    }
    events.push(Bytes::from_static(b"data: [DONE]\n\n"));
    events
}

fn chunk(ask: &Ask, object: &str, choices: &[Value]) -> Value {
    json!({ "id": format!("chatcmpl-{}", ask.id), "object": object, "created": 1_790_000_000,
        "model": ask.model, "choices": choices })
}

fn finish(reply: &Reply) -> &'static str {
    match reply.stop {
        Some(Stop::Refusal) => "content_filter",
        Some(Stop::Length) => "length",
        None if reply.calls.is_empty() => "stop",
        None => "tool_calls",
    }
}

/// Cached tokens count as input here, unlike with Messages.
fn counts(usage: Usage) -> Value {
    let prompt = usage.input + usage.cached + usage.written;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": { "cached_tokens": usage.cached },
        "completion_tokens_details": { "reasoning_tokens": 0 },
    })
}
