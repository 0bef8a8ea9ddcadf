//! OpenAI Chat Completions.

use std::collections::BTreeSet;

use super::{Calls, HeldCall, HoldError, is_done, piece_of, raw_text, read, text_of, write_event};
use crate::json::{Edits, Kind, ObjectEdit, Reader, Value, quote};
use crate::sse::Event;

/// The number of the one call that the older form has.
const OLDER: u64 = u64::MAX;

fn choices(answer: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    answer.get("choices").into_iter().flat_map(|choices| choices.items())
}

fn index(value: Value<'_>) -> u64 {
    value.get("index").and_then(|index| index.u64()).unwrap_or(0)
}

/// The calls in a message or in a piece of one, with their numbers.
fn calls_in<'a>(message: Option<Value<'a>>) -> Vec<(u64, Value<'a>, Value<'a>)> {
    let Some(message) = message else { return Vec::new() };
    let list = message.get("tool_calls").into_iter().flat_map(|calls| calls.items());
    let mut calls: Vec<_> = list
        .enumerate()
        .map(|(nth, call)| {
            let number = call.get("index").and_then(|index| index.u64());
            let function = call.get("function").or_else(|| call.get("custom")).unwrap_or(call);
            (number.unwrap_or(nth as u64), call, function)
        })
        .collect();
    let older = message.get("function_call").filter(|call| call.kind() == Kind::Object);
    calls.extend(older.map(|call| (OLDER, call, call)));
    calls
}

pub(super) fn begins_call(chunk: Value<'_>) -> bool {
    choices(chunk).any(|choice| !calls_in(choice.get("delta")).is_empty())
}

pub(super) fn collect(calls: &mut Calls, chunk: Value<'_>) -> Result<(), HoldError> {
    for choice in choices(chunk) {
        for (number, call, function) in calls_in(choice.get("delta")) {
            let place = (index(choice), number);
            if calls.last(place).is_none() {
                let id = text_of(call.get("id"));
                let (name, input) = (String::new(), String::new());
                calls.push(place, HeldCall { id, name, is_name_sure: true, input })?;
            }
            let name = piece_of(function.get("name"))?.filter(|name| !name.is_empty());
            if let (Some(call), Some(name)) = (calls.last(place), name) {
                add_name(call, &name);
            }
            calls.piece(place, function.get("arguments").or_else(|| function.get("input")))?;
        }
        calls.has_ended |= choice.get("finish_reason").is_some_and(|reason| !reason.is_null());
    }
    Ok(())
}

/// Appends to a name, as most clients do. Others take its first or its last piece.
fn add_name(call: &mut HeldCall, piece: &str) {
    call.is_name_sure = call.name.is_empty();
    // Some upstreams send the whole name with every piece of the call.
    if call.name != piece {
        call.name.push_str(piece);
    }
}

pub(super) fn whole_calls(answer: Value<'_>) -> Vec<HeldCall> {
    let calls = choices(answer).flat_map(|choice| calls_in(choice.get("message")));
    calls
        .map(|(_, call, function)| HeldCall {
            id: text_of(call.get("id")),
            name: text_of(function.get("name")).unwrap_or_default(),
            is_name_sure: true,
            input: text_of(function.get("arguments").or_else(|| function.get("input")))
                .unwrap_or_else(|| raw_text(call)),
        })
        .collect()
}

pub(super) fn deny(
    reader: &mut Reader,
    held: &[Vec<u8>],
    text: &str,
) -> Result<Vec<u8>, HoldError> {
    let (mut heads, mut ends) = (String::new(), Vec::new());
    let mut indexes = BTreeSet::new();
    for block in held {
        if is_done(&Event::read(block)) {
            ends.extend_from_slice(block);
        }
        read(reader, block, |chunk| {
            let Some(chunk) = chunk else { return };
            indexes.extend(choices(chunk).map(index));
            if heads.is_empty() {
                heads = head(chunk);
            }
            // Usage, or an error.
            if choices(chunk).next().is_none() {
                ends.extend_from_slice(block);
            }
        })?;
    }
    let mut out = Vec::new();
    for index in indexes {
        let steps =
            [(format!(r#"{{"content":{}}}"#, quote(text)), "null"), ("{}".to_owned(), "\"stop\"")];
        for (delta, reason) in steps {
            let chunk = format!(
                r#"{{{heads}"choices":[{{"index":{index},"delta":{delta},"logprobs":null,"finish_reason":{reason}}}]}}"#
            );
            write_event(&mut out, None, chunk.as_bytes());
        }
    }
    out.extend_from_slice(&ends);
    Ok(out)
}

/// The members that all chunks of an answer share.
fn head(chunk: Value<'_>) -> String {
    let names = ["id", "object", "created", "model"];
    let members = names.iter().filter_map(|name| {
        let value = chunk.get(name)?;
        Some(format!("{}:{},", quote(name), raw_text(value)))
    });
    members.collect()
}

pub(super) fn deny_whole(answer: Value<'_>, text: &str) -> Edits {
    let mut edits = Edits::default();
    for choice in choices(answer) {
        let Some(message) = choice.get("message") else { continue };
        if calls_in(Some(message)).is_empty() {
            continue;
        }
        let said = text_of(message.get("content")).filter(|said| !said.is_empty());
        let content = said.map_or_else(|| text.to_owned(), |said| format!("{said}\n\n{text}"));
        let mut edit = ObjectEdit::new(message);
        edit.set("content", quote(&content));
        edit.remove("tool_calls");
        edit.remove("function_call");
        edit.finish(&mut edits);
        if let Some(reason) = choice.get("finish_reason") {
            edits.replace(reason.span(), "\"stop\"");
        }
    }
    edits
}
