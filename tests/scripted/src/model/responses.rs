//! OpenAI's Responses.

use bytes::Bytes;
use serde_json::{Value, json};

use super::ask::Ask;
use super::reply::{Made, Reply};
use super::sse::{halves, named};
use super::thoughts;
use crate::script::{Stop, Usage};

pub(crate) fn unary(ask: &Ask, reply: &Reply) -> Value {
    let mut output = Vec::new();
    if let Some(text) = &reply.thoughts {
        output.push(reasoning(ask, text));
    }
    if !reply.pieces.is_empty() {
        output.push(message(ask, "completed", &[text_part(&reply.text())]));
    }
    output.extend(reply.calls.iter().map(|call| function(call, "completed", &call.arguments())));
    let mut whole = response(ask, "completed", &output, reply.usage);
    if let Some(stop) = reply.stop {
        let reason = match stop {
            Stop::Refusal => "content_filter",
            Stop::Length => "max_output_tokens",
        };
        whole["status"] = "incomplete".into();
        whole["incomplete_details"] = json!({ "reason": reason });
    }
    whole
}

pub(crate) fn events(ask: &Ask, reply: &Reply) -> Vec<Bytes> {
    let mut stream = Stream::default();
    let begun = response(ask, "in_progress", &[], None);
    stream.push("response.created", json!({ "response": begun }));
    stream.push("response.in_progress", json!({ "response": begun }));
    let mut index = 0;
    if let Some(text) = &reply.thoughts {
        let item = reasoning(ask, text);
        stream.push("response.output_item.added", json!({ "output_index": index, "item": item }));
        stream.push("response.output_item.done", json!({ "output_index": index, "item": item }));
        index += 1;
    }
    if !reply.pieces.is_empty() {
        stream.text(ask, reply, index);
        index += 1;
    }
    for call in &reply.calls {
        stream.call(call, index);
        index += 1;
    }
    let end = if reply.stop.is_some() { "response.incomplete" } else { "response.completed" };
    stream.push(end, json!({ "response": unary(ask, reply) }));
    stream.events
}

#[derive(Default)]
struct Stream {
    events: Vec<Bytes>,
}

impl Stream {
    fn push(&mut self, kind: &str, mut data: Value) {
        data["type"] = kind.into();
        data["sequence_number"] = self.events.len().into();
        self.events.push(named(kind, &data));
    }

    fn text(&mut self, ask: &Ask, reply: &Reply, index: usize) {
        let item = message(ask, "in_progress", &[]);
        let id = item["id"].clone();
        let at = |mut data: Value| {
            data["item_id"] = id.clone();
            data["output_index"] = index.into();
            data["content_index"] = 0.into();
            data
        };
        self.push("response.output_item.added", json!({ "output_index": index, "item": item }));
        self.push("response.content_part.added", at(json!({ "part": text_part("") })));
        for piece in &reply.pieces {
            self.push("response.output_text.delta", at(json!({ "delta": piece, "logprobs": [] })));
        }
        let text = reply.text();
        self.push("response.output_text.done", at(json!({ "text": text, "logprobs": [] })));
        self.push("response.content_part.done", at(json!({ "part": text_part(&text) })));
        let item = message(ask, "completed", &[text_part(&text)]);
        self.push("response.output_item.done", json!({ "output_index": index, "item": item }));
    }

    fn call(&mut self, call: &Made, index: usize) {
        let item = function(call, "in_progress", "");
        let id = item["id"].clone();
        self.push("response.output_item.added", json!({ "output_index": index, "item": item }));
        let arguments = call.arguments();
        let (first, second) = halves(&arguments);
        for delta in [first, second] {
            let delta = json!({ "item_id": id, "output_index": index, "delta": delta });
            self.push("response.function_call_arguments.delta", delta);
        }
        let done = json!({ "item_id": id, "output_index": index, "arguments": arguments });
        self.push("response.function_call_arguments.done", done);
        let item = function(call, "completed", &arguments);
        self.push("response.output_item.done", json!({ "output_index": index, "item": item }));
    }
}

fn response(ask: &Ask, status: &str, output: &[Value], usage: Option<Usage>) -> Value {
    json!({
        "id": format!("resp_{}", ask.id),
        "object": "response",
        "created_at": 1_790_000_000,
        "status": status,
        "error": null,
        "incomplete_details": null,
        "model": ask.model,
        "output": output,
        "parallel_tool_calls": true,
        "store": false,
        "usage": usage.map(counts),
    })
}

/// What the model thought: shown to nobody, and taken back.
fn reasoning(ask: &Ask, text: &str) -> Value {
    json!({ "id": format!("rs_{}", ask.id), "type": "reasoning", "summary": [],
        "encrypted_content": thoughts::seal(text) })
}

fn message(ask: &Ask, status: &str, content: &[Value]) -> Value {
    json!({ "id": format!("msg_{}", ask.id), "type": "message", "role": "assistant",
        "status": status, "content": content })
}

fn text_part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

fn function(call: &Made, status: &str, arguments: &str) -> Value {
    let mut item = json!({ "id": format!("fc_{}", call.id), "type": "function_call",
        "status": status, "call_id": call.id, "name": call.name, "arguments": arguments });
    if let Some(namespace) = &call.namespace {
        item["namespace"] = namespace.clone().into();
    }
    item
}

/// Cached tokens count as input here, unlike with Messages.
fn counts(usage: Usage) -> Value {
    let input = usage.input + usage.cached + usage.written;
    json!({
        "input_tokens": input,
        "input_tokens_details": { "cached_tokens": usage.cached },
        "output_tokens": usage.output,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": input + usage.output,
    })
}
