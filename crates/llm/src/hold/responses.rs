//! OpenAI Responses.

use super::{Calls, HeldCall, HoldError, array, raw_text, read, text_of, write_event};
use crate::json::{Edits, ObjectEdit, Reader, Value, quote};
use crate::sse::Event;

/// Calls that the provider makes itself.
const AT_PROVIDER: [&str; 5] = [
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
];
/// The last event of an answer.
const ENDS: [&str; 3] = ["response.completed", "response.incomplete", "response.failed"];
/// Calls of tools that the client defined. Each has a name.
const NAMED: [&str; 2] = ["function_call", "custom_tool_call"];
const ITEM_ID: &str = "msg_belljar_denied";

/// Returns true for a call that the client makes. Kinds that are not known are among them.
fn is_call(item: Value<'_>) -> bool {
    let Some(kind) = text_of(item.get("type")) else { return false };
    kind.ends_with("_call") && !AT_PROVIDER.contains(&kind.as_str())
}

fn kind(event: Value<'_>) -> String {
    text_of(event.get("type")).unwrap_or_default()
}

fn items(response: Option<Value<'_>>) -> impl Iterator<Item = Value<'_>> {
    let output = response.and_then(|response| response.get("output"));
    output.into_iter().flat_map(|output| output.items())
}

pub(super) fn begins_call(event: Value<'_>) -> bool {
    let kind = kind(event);
    match kind.as_str() {
        "response.output_item.added" | "response.output_item.done" => {
            event.get("item").is_some_and(is_call)
        }
        end if ENDS.contains(&end) => items(event.get("response")).any(is_call),
        other => ["response.function_call", "response.custom_tool_call"]
            .iter()
            .any(|prefix| other.starts_with(prefix)),
    }
}

pub(super) fn collect(calls: &mut Calls, event: Value<'_>) -> Result<(), HoldError> {
    let kind = kind(event);
    if kind == "response.output_item.added" {
        calls.begun += usize::from(event.get("item").is_some_and(is_call));
    } else if kind == "response.output_item.done" {
        add(calls, event.get("item"))?;
    } else if ENDS.contains(&kind.as_str()) {
        // Some upstreams send items here alone.
        for item in items(event.get("response")) {
            add(calls, Some(item))?;
        }
        calls.has_ended = true;
    }
    Ok(())
}

fn add(calls: &mut Calls, item: Option<Value<'_>>) -> Result<(), HoldError> {
    let Some(item) = item.filter(|item| is_call(*item)) else { return Ok(()) };
    let call = call(item);
    if calls.list.iter().any(|(_, own)| *own == call) {
        return Ok(());
    }
    let place = (0, calls.list.len() as u64);
    calls.push(place, call)
}

fn call(item: Value<'_>) -> HeldCall {
    let kind = kind(item);
    // Tools that the provider defined have no name of their own: `local_shell_call`.
    let own = match NAMED.contains(&kind.as_str()) {
        true => "",
        false => kind.strip_suffix("_call").unwrap_or(&kind),
    };
    let text = item.get("arguments").or_else(|| item.get("input"));
    let other = || item.get("action").or_else(|| item.get("operation")).unwrap_or(item);
    HeldCall {
        id: text_of(item.get("call_id")).or_else(|| text_of(item.get("id"))),
        name: text_of(item.get("name")).unwrap_or_else(|| own.to_owned()),
        is_name_sure: true,
        input: text_of(text).unwrap_or_else(|| raw_text(other())),
    }
}

pub(super) fn whole_calls(response: Value<'_>) -> Vec<HeldCall> {
    items(Some(response)).filter(|item| is_call(*item)).map(call).collect()
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
                write_message(&mut out, event, text);
            }
            let kind = kind(event);
            if ENDS.contains(&kind.as_str()) {
                let mut edits = Edits::default();
                if let Some(response) = event.get("response") {
                    replace_calls(response, text, &mut edits);
                }
                write_event(&mut out, Some(&kind), &edits.apply(&data));
            } else if kind == "error" {
                out.extend_from_slice(block);
            }
        })?;
    }
    Ok(out)
}

/// Writes the events of a message in the place of the first call.
fn write_message(out: &mut Vec<u8>, first: Value<'_>, text: &str) {
    let number = |name| first.get(name).and_then(|number| number.u64());
    let index = number("output_index").unwrap_or(0);
    let mut sequence = number("sequence_number");
    let begun = format!(
        r#"{{"id":"{ITEM_ID}","type":"message","status":"in_progress","role":"assistant","content":[]}}"#
    );
    let part = |text: &str| {
        format!(r#"{{"type":"output_text","text":{text},"annotations":[],"logprobs":[]}}"#)
    };
    let place = format!(r#""item_id":"{ITEM_ID}","output_index":{index},"content_index":0"#);
    let quoted = quote(text);
    let events = [
        ("response.output_item.added", format!(r#""output_index":{index},"item":{begun}"#)),
        ("response.content_part.added", format!(r#"{place},"part":{}"#, part("\"\""))),
        ("response.output_text.delta", format!(r#"{place},"delta":{quoted},"logprobs":[]"#)),
        ("response.output_text.done", format!(r#"{place},"text":{quoted},"logprobs":[]"#)),
        ("response.content_part.done", format!(r#"{place},"part":{}"#, part(&quoted))),
        (
            "response.output_item.done",
            format!(r#""output_index":{index},"item":{}"#, message(text)),
        ),
    ];
    for (name, fields) in events {
        let counted = sequence.map(|number| format!(r#""sequence_number":{number},"#));
        let data = format!(r#"{{"type":"{name}",{}{fields}}}"#, counted.unwrap_or_default());
        write_event(out, Some(name), data.as_bytes());
        sequence = sequence.map(|number| number + 1);
    }
}

/// The item that stands for the calls.
fn message(text: &str) -> String {
    format!(
        r#"{{"id":"{ITEM_ID}","type":"message","status":"completed","role":"assistant","content":[{{"type":"output_text","text":{},"annotations":[],"logprobs":[]}}]}}"#,
        quote(text)
    )
}

fn replace_calls(response: Value<'_>, text: &str, edits: &mut Edits) {
    let kept = items(Some(response)).filter(|item| !is_call(*item));
    let output = array(kept, &message(text));
    let mut edit = ObjectEdit::new(response);
    edit.set("output", output);
    edit.finish(edits);
}

pub(super) fn deny_whole(response: Value<'_>, text: &str) -> Edits {
    let mut edits = Edits::default();
    replace_calls(response, text, &mut edits);
    edits
}
