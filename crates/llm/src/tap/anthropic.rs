//! Anthropic Messages.

use super::seen::Seen;
use super::text_of;
use crate::json::Value;

pub(super) fn event(seen: &mut Seen, event: Value<'_>) {
    let Some(kind) = event.get("type") else { return };
    match &*kind.word() {
        b"content_block_delta" => delta(seen, event),
        b"message_start" => {
            if let Some(message) = event.get("message") {
                seen.names(message);
                usage(seen, message.get("usage"));
            }
        }
        b"content_block_start" => start(seen, event),
        b"message_delta" => {
            usage(seen, event.get("usage"));
            let reason = event.at(&["delta", "stop_reason"]).filter(|reason| !reason.is_null());
            // Where the reason is, the numbers are final; `message_stop` adds nothing.
            seen.has_ended |= reason.is_some();
            seen.stop(reason);
        }
        b"error" => {
            if let Some(error) = event.get("error") {
                seen.error(error);
            }
        }
        _ => {}
    }
}

fn number(event: Value<'_>) -> u64 {
    event.get("index").and_then(|index| index.u64()).unwrap_or(0)
}

fn start(seen: &mut Seen, event: Value<'_>) {
    let Some(block) = event.get("content_block") else { return };
    let is = |kind: &str| block.get("type").is_some_and(|own| own.is(kind));
    if is("tool_use") {
        let number = number(event);
        seen.call(Some(number), text_of(block.get("id")), text_of(block.get("name")));
    } else if is("text") {
        seen.text(block.get("text"));
    } else if is("redacted_thinking") {
        seen.generated(block.get("data"));
        seen.hidden();
    }
}

fn delta(seen: &mut Seen, event: Value<'_>) {
    let Some(delta) = event.get("delta") else { return };
    let Some(kind) = delta.get("type") else { return };
    match &*kind.word() {
        b"text_delta" => seen.text(delta.get("text")),
        b"input_json_delta" => seen.piece(number(event), delta.get("partial_json")),
        b"thinking_delta" => seen.generated(delta.get("thinking")),
        // What is signed may have been shortened, or not shown at all.
        b"signature_delta" => seen.hidden(),
        _ => {}
    }
}

fn usage(seen: &mut Seen, usage: Option<Value<'_>>) {
    if let Some(usage) = usage {
        seen.counts.merge(usage);
        seen.usage(seen.counts.usage());
    }
}

pub(super) fn whole(seen: &mut Seen, message: Value<'_>) {
    seen.names(message);
    for block in message.get("content").into_iter().flat_map(|content| content.items()) {
        let is = |kind: &str| block.get("type").is_some_and(|own| own.is(kind));
        if is("text") {
            seen.text(block.get("text"));
        } else if is("thinking") {
            seen.generated(block.get("thinking"));
        } else if is("tool_use") {
            seen.call(None, text_of(block.get("id")), text_of(block.get("name")));
            if let Some(input) = block.get("input") {
                seen.last_arguments(&String::from_utf8_lossy(input.raw()));
            }
        }
    }
    let reason = message.get("stop_reason").filter(|reason| !reason.is_null());
    usage(seen, message.get("usage"));
    seen.has_ended = reason.is_some();
    seen.stop(reason);
}
