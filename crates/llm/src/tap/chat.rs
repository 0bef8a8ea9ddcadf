//! OpenAI Chat Completions.

use super::seen::Seen;
use super::{Extra, text_of};
use crate::json::Value;
use crate::usage::Usage;

pub(super) fn event(seen: &mut Seen, chunk: Value<'_>) -> Extra {
    let mut choices = None;
    let mut usage = None;
    for (key, value) in chunk.members() {
        match &*key.word() {
            b"choices" => choices = Some(value),
            b"usage" => usage = Usage::of_openai(value),
            b"error" if !value.is_null() => seen.error(value),
            _ => {}
        }
    }
    seen.names(chunk);
    let mut has_choices = false;
    for choice in choices.into_iter().flat_map(|choices| choices.items()) {
        has_choices = true;
        said(seen, choice, "delta");
    }
    seen.usage(usage);
    if usage.is_some() && choices.is_some() && !has_choices { Extra::Usage } else { Extra::No }
}

pub(super) fn whole(seen: &mut Seen, answer: Value<'_>) {
    seen.names(answer);
    for choice in answer.get("choices").into_iter().flat_map(|choices| choices.items()) {
        said(seen, choice, "message");
    }
    seen.usage(answer.get("usage").and_then(Usage::of_openai));
}

/// A choice with its message, or with the next piece of one.
fn said(seen: &mut Seen, choice: Value<'_>, field: &str) {
    for (key, value) in choice.get(field).into_iter().flat_map(|message| message.members()) {
        match &*key.word() {
            b"content" => seen.text(Some(value)),
            b"refusal" | b"reasoning_content" | b"reasoning" => seen.generated(Some(value)),
            b"tool_calls" => calls(seen, choice, value),
            _ => {}
        }
    }
    let reason = choice.get("finish_reason").filter(|reason| !reason.is_null());
    seen.has_ended |= reason.is_some();
    seen.stop(reason);
}

fn calls(seen: &mut Seen, choice: Value<'_>, calls: Value<'_>) {
    let answer = choice.get("index").and_then(|index| index.u64()).unwrap_or(0);
    for (place, call) in (0..).zip(calls.items()) {
        let index = call.get("index").and_then(|index| index.u64()).unwrap_or(place);
        // Calls are numbered anew in each answer.
        let number = answer.wrapping_shl(32) | (index & 0xffff_ffff);
        let inner = call.get("function").or_else(|| call.get("custom"));
        if !seen.has_call(number) {
            let name = text_of(inner.and_then(|inner| inner.get("name")));
            seen.call(Some(number), text_of(call.get("id")), name);
        }
        let piece = inner.and_then(|inner| inner.get("arguments").or_else(|| inner.get("input")));
        seen.piece(number, piece);
    }
}
