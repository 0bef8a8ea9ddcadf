//! Anthropic Messages.

use super::{Calls, HeldCall, HoldError, array, raw_text, read, text_of, write_event};
use crate::json::{Edits, ObjectEdit, Reader, Value, quote};
use crate::sse::Event;

/// Calls that the provider makes itself.
const AT_PROVIDER: [&str; 2] = ["server_tool_use", "mcp_tool_use"];

/// Returns true for a call that the client makes. Kinds that are not known are among them.
fn is_call(block: Value<'_>) -> bool {
    let Some(kind) = text_of(block.get("type")) else { return false };
    kind.ends_with("tool_use") && !AT_PROVIDER.contains(&kind.as_str())
}

fn index(event: Value<'_>) -> u64 {
    event.get("index").and_then(|index| index.u64()).unwrap_or(0)
}

fn is(event: Value<'_>, kind: &str) -> bool {
    event.get("type").is_some_and(|own| own.is(kind))
}

pub(super) fn begins_call(event: Value<'_>) -> bool {
    is(event, "content_block_start") && event.get("content_block").is_some_and(is_call)
}

pub(super) fn collect(calls: &mut Calls, event: Value<'_>) -> Result<(), HoldError> {
    if begins_call(event) {
        if let Some(block) = event.get("content_block") {
            let mut call = call(block);
            // Its pieces follow.
            if call.input == "{}" {
                call.input.clear();
            }
            calls.push((0, index(event)), call)?;
        }
    } else if is(event, "content_block_delta") {
        calls.piece((0, index(event)), event.at(&["delta", "partial_json"]))?;
    } else if is(event, "message_stop") {
        calls.has_ended = true;
    }
    Ok(())
}

fn call(block: Value<'_>) -> HeldCall {
    HeldCall {
        id: text_of(block.get("id")),
        name: text_of(block.get("name")).unwrap_or_default(),
        is_name_sure: true,
        input: block.get("input").map(raw_text).unwrap_or_default(),
    }
}

pub(super) fn whole_calls(message: Value<'_>) -> Vec<HeldCall> {
    let blocks = message.get("content").into_iter().flat_map(|content| content.items());
    blocks.filter(|block| is_call(*block)).map(call).collect()
}

pub(super) fn deny(
    reader: &mut Reader,
    held: &[Vec<u8>],
    text: &str,
) -> Result<Vec<u8>, HoldError> {
    let mut out = Vec::new();
    for (nth, block) in held.iter().enumerate() {
        let data = Event::read(block).data;
        read(reader, block, |event| {
            let Some(event) = event else { return };
            if nth == 0 {
                write_text(&mut out, index(event), text);
            }
            if is(event, "message_delta") {
                let mut edits = Edits::default();
                end_turn(event.get("delta"), &mut edits);
                write_event(&mut out, Some("message_delta"), &edits.apply(&data));
            } else if ["message_stop", "ping", "error"].iter().any(|kind| is(event, kind)) {
                out.extend_from_slice(block);
            }
        })?;
    }
    Ok(out)
}

/// Writes a block of text.
fn write_text(out: &mut Vec<u8>, index: u64, text: &str) {
    let text = quote(text);
    let start = format!(
        r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"text","text":""}}}}"#
    );
    let delta = format!(
        r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"text_delta","text":{text}}}}}"#
    );
    let stop = format!(r#"{{"type":"content_block_stop","index":{index}}}"#);
    write_event(out, Some("content_block_start"), start.as_bytes());
    write_event(out, Some("content_block_delta"), delta.as_bytes());
    write_event(out, Some("content_block_stop"), stop.as_bytes());
}

fn end_turn(object: Option<Value<'_>>, edits: &mut Edits) {
    if let Some(object) = object {
        let mut edit = ObjectEdit::new(object);
        edit.set("stop_reason", "\"end_turn\"");
        edit.finish(edits);
    }
}

pub(super) fn deny_whole(message: Value<'_>, text: &str) -> Edits {
    let mut edits = Edits::default();
    let kept = message.get("content").into_iter().flat_map(|content| content.items());
    let block = format!(r#"{{"type":"text","text":{}}}"#, quote(text));
    let content = array(kept.filter(|block| !is_call(*block)), &block);
    let mut edit = ObjectEdit::new(message);
    edit.set("content", content);
    edit.set("stop_reason", "\"end_turn\"");
    edit.finish(&mut edits);
    edits
}
