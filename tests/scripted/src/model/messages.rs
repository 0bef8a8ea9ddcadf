//! Anthropic's Messages, both API versions.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Map, Value, json};

use super::ask::Ask;
use super::reply::Reply;
use super::sse::{halves, named};
use super::thoughts;
use crate::script::{Stop, Usage};

/// The version since which sampling parameters are refused.
const STRICT: &str = "2026-10-21";

/// What the version in the headers says about this body.
pub(crate) fn check_version(headers: &HeaderMap, body: &Value) -> Result<(), String> {
    let version = headers.get("anthropic-version").and_then(|value| value.to_str().ok());
    match version {
        Some("2023-06-01") => Ok(()),
        Some(STRICT) => {
            match ["temperature", "top_p", "top_k"].into_iter().find(|key| body.get(key).is_some())
            {
                Some(key) => Err(format!("{key}: not supported in this version")),
                None => Ok(()),
            }
        }
        Some(other) => Err(format!("anthropic-version: `{other}` is not a version")),
        None => Err("anthropic-version: header is required".to_owned()),
    }
}

pub(crate) fn unary(ask: &Ask, reply: &Reply) -> Value {
    let mut content = Vec::new();
    if let Some(text) = &reply.thoughts {
        let signature = thoughts::signature(text);
        content.push(json!({ "type": "thinking", "thinking": text, "signature": signature }));
    }
    if !reply.pieces.is_empty() {
        content.push(json!({ "type": "text", "text": reply.text() }));
    }
    for call in &reply.calls {
        content.push(json!({ "type": "tool_use", "id": call.id, "name": call.name,
            "input": call.input }));
    }
    let mut message = skeleton(ask);
    message.insert("content".to_owned(), content.into());
    message.insert("stop_reason".to_owned(), stop_reason(reply).into());
    if let Some(usage) = reply.usage {
        message.insert("usage".to_owned(), counts(usage, usage.output));
    }
    message.into()
}

pub(crate) fn events(ask: &Ask, reply: &Reply) -> Vec<Bytes> {
    let mut message = skeleton(ask);
    if let Some(usage) = reply.usage {
        message.insert("usage".to_owned(), counts(usage, 1));
    }
    let mut events = vec![event(json!({ "type": "message_start", "message": message }))];
    events.push(event(json!({ "type": "ping" })));
    let mut index = 0;
    if let Some(text) = &reply.thoughts {
        let block = json!({ "type": "thinking", "thinking": "", "signature": "" });
        let (first, second) = halves(text);
        let deltas = [
            json!({ "type": "thinking_delta", "thinking": first }),
            json!({ "type": "thinking_delta", "thinking": second }),
            json!({ "type": "signature_delta", "signature": thoughts::signature(text) }),
        ];
        push_block(&mut events, index, &block, deltas);
        index += 1;
    }
    if !reply.pieces.is_empty() {
        let block = json!({ "type": "text", "text": "" });
        let deltas = reply.pieces.iter().map(|text| json!({ "type": "text_delta", "text": text }));
        push_block(&mut events, index, &block, deltas);
        index += 1;
    }
    for call in &reply.calls {
        let block = json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} });
        let input = call.arguments();
        let (first, second) = halves(&input);
        let deltas = ["", first, second]
            .map(|part| json!({ "type": "input_json_delta", "partial_json": part }));
        push_block(&mut events, index, &block, deltas);
        index += 1;
    }
    let delta = json!({ "stop_reason": stop_reason(reply), "stop_sequence": null });
    let mut last = json!({ "type": "message_delta", "delta": delta });
    if let Some(usage) = reply.usage {
        last["usage"] = counts(usage, usage.output);
    }
    events.push(event(last));
    events.push(event(json!({ "type": "message_stop" })));
    events
}

fn push_block(
    events: &mut Vec<Bytes>,
    index: usize,
    block: &Value,
    deltas: impl IntoIterator<Item = Value>,
) {
    let start = json!({ "type": "content_block_start", "index": index, "content_block": block });
    events.push(event(start));
    for delta in deltas {
        let delta = json!({ "type": "content_block_delta", "index": index, "delta": delta });
        events.push(event(delta));
    }
    events.push(event(json!({ "type": "content_block_stop", "index": index })));
}

fn event(data: Value) -> Bytes {
    named(data["type"].as_str().unwrap_or_default(), &data)
}

fn skeleton(ask: &Ask) -> Map<String, Value> {
    let mut message = Map::new();
    message.insert("id".to_owned(), format!("msg_{}", ask.id).into());
    message.insert("type".to_owned(), "message".into());
    message.insert("role".to_owned(), "assistant".into());
    message.insert("model".to_owned(), ask.model.clone().into());
    message.insert("content".to_owned(), json!([]));
    message.insert("stop_reason".to_owned(), Value::Null);
    message.insert("stop_sequence".to_owned(), Value::Null);
    message
}

fn stop_reason(reply: &Reply) -> &'static str {
    match reply.stop {
        Some(Stop::Refusal) => "refusal",
        Some(Stop::Length) => "max_tokens",
        None if reply.calls.is_empty() => "end_turn",
        None => "tool_use",
    }
}

fn counts(usage: Usage, output: u64) -> Value {
    let written = json!({ "ephemeral_5m_input_tokens": usage.written,
        "ephemeral_1h_input_tokens": 0 });
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.written,
        "cache_read_input_tokens": usage.cached,
        "cache_creation": written,
        "output_tokens": output,
        "service_tier": "standard",
    })
}
