//! OpenAI Responses.

use super::seen::Seen;
use super::text_of;
use crate::json::Value;
use crate::usage::Usage;

pub(super) fn event(seen: &mut Seen, event: Value<'_>) {
    let Some(kind) = event.get("type") else { return };
    match &*kind.word() {
        // The pieces are counted, for answers that are cut; the text is taken from
        // whole items, which some upstreams send alone.
        b"response.output_text.delta"
        | b"response.refusal.delta"
        | b"response.function_call_arguments.delta"
        | b"response.custom_tool_call_input.delta"
        | b"response.reasoning_text.delta"
        | b"response.reasoning_summary_text.delta" => {
            seen.piece_bytes += event.get("delta").map_or(0, |delta| delta.str_len());
        }
        b"response.output_item.added"
            if event.at(&["item", "type"]).is_some_and(|kind| kind.is("reasoning")) =>
        {
            seen.hidden();
        }
        b"response.output_item.done" => {
            if let Some(done) = event.get("item") {
                seen.has_items = true;
                item(seen, done);
            }
        }
        b"response.created" | b"response.in_progress" => {
            if let Some(response) = event.get("response") {
                seen.names(response);
            }
        }
        b"response.completed" | b"response.incomplete" | b"response.failed" => {
            if let Some(response) = event.get("response") {
                end(seen, response);
            }
        }
        // Its fields stand in the event itself, or in an object below.
        b"error" => seen.error(event.get("error").unwrap_or(event)),
        _ => {}
    }
}

pub(super) fn whole(seen: &mut Seen, response: Value<'_>) {
    end(seen, response);
}

fn end(seen: &mut Seen, response: Value<'_>) {
    seen.names(response);
    if !seen.has_items {
        for done in response.get("output").into_iter().flat_map(|output| output.items()) {
            item(seen, done);
        }
    }
    if let Some(error) = response.get("error").filter(|error| !error.is_null()) {
        seen.error(error);
    }
    seen.usage(response.get("usage").and_then(Usage::of_openai));
    let status = response.get("status");
    seen.has_ended = status.is_some_and(|status| !status.is("in_progress") && !status.is("queued"));
    seen.stop(response.at(&["incomplete_details", "reason"]).filter(|r| !r.is_null()).or(status));
}

fn item(seen: &mut Seen, item: Value<'_>) {
    let is = |kind: &str| item.get("type").is_some_and(|own| own.is(kind));
    if is("message") {
        for part in item.get("content").into_iter().flat_map(|content| content.items()) {
            seen.text(part.get("text"));
        }
    } else if is("reasoning") {
        seen.hidden();
    } else if is("function_call") || is("custom_tool_call") {
        let arguments = item.get("arguments").or_else(|| item.get("input"));
        seen.call(None, text_of(item.get("call_id")), text_of(item.get("name")));
        seen.generated(arguments);
        if let Some(arguments) = arguments.and_then(|arguments| arguments.str()) {
            seen.last_arguments(&arguments);
        }
    }
}
