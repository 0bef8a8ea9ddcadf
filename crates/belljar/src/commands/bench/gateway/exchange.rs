//! What is asked and what is answered: the size and form of a real turn.
//!
//! The question is what an agent program sends in the middle of its work: a
//! system prompt, a dozen tools with their schemas, and turns with the output of
//! commands in them. The answer is a streamed one, event by event.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// Bytes of a question's body.
pub(super) const BODY: usize = 45_000;

/// The model that is asked for; the settings of the gateway price it.
pub(super) const MODEL: &str = "bench-model";

/// What the upstream says a turn used, and what it costs by the gateway's prices.
pub(super) const INPUT: u64 = 11_000;
pub(super) const OUTPUT: u64 = 400;

/// A body of exactly [`BODY`] bytes.
pub(super) fn body() -> Vec<u8> {
    let bare = document("").to_string().len();
    document(&listing(BODY - bare)).to_string().into_bytes()
}

fn document(last: &str) -> Value {
    let tools: Vec<Value> = (0..12).map(tool).collect();
    let system = "You work in a sandbox. Say what you do, then do it. ".repeat(60);
    json!({
        "model": MODEL,
        "max_tokens": 8192,
        "stream": true,
        "system": [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}],
        "tools": tools,
        "messages": [
            {"role": "user", "content": "Why is \"totals.csv\" empty?\nLook at the job's log."},
            {"role": "assistant", "content": [
                {"type": "text", "text": "I look at the log first."},
                {"type": "tool_use", "id": "toolu_1", "name": "tool_0",
                    "input": {"path": "/data/job.log", "pattern": "^E\\d+\t", "limit": 200}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": last}]},
        ],
    })
}

fn tool(number: u32) -> Value {
    let about = "Runs in the sandbox and answers with what was printed, cut to a length. ";
    json!({
        "name": format!("tool_{number}"),
        "description": about.repeat(8),
        "input_schema": {"type": "object", "required": ["path"], "properties": {
            "path": {"type": "string", "description": "An absolute path inside."},
            "pattern": {"type": "string", "description": "A regular expression, e.g. \"^a\\.b$\"."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 2000},
            "mode": {"type": "string", "enum": ["content", "files", "count"]}}},
    })
}

/// Output of a command that takes `size` bytes within JSON: letters, quotes,
/// tabs and line ends, as logs have them.
fn listing(size: usize) -> String {
    let mut text = String::new();
    let mut quoted = 0;
    for line in 0.. {
        let mut next = String::new();
        let _ = writeln!(next, "{line:06}\tINFO worker[{}] read \"part-{line}\"", line % 7);
        let length = Value::from(next.as_str()).to_string().len() - 2;
        if quoted + length > size {
            break;
        }
        quoted += length;
        text += &next;
    }
    text + &"x".repeat(size - quoted)
}

/// The events of an answer, each as it is written on the wire.
pub(super) fn events(deltas: u32) -> Vec<Vec<u8>> {
    let usage = |output: u64| {
        json!({"input_tokens": INPUT, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0, "output_tokens": output})
    };
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "msg_bench", "type": "message",
            "role": "assistant", "model": MODEL, "content": [], "stop_reason": null,
            "stop_sequence": null, "usage": usage(1)}}),
        json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}}),
    ];
    for number in 0..deltas {
        let text = format!("so the {number}th part of it is empty, ");
        let delta = json!({"type": "text_delta", "text": text});
        events.push(json!({"type": "content_block_delta", "index": 0, "delta": delta}));
    }
    let stop = json!({"stop_reason": "end_turn", "stop_sequence": null});
    events.extend([
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": stop, "usage": usage(OUTPUT)}),
        json!({"type": "message_stop"}),
    ]);
    let text = |event: &Value| {
        let name = event["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {event}\n\n").into_bytes()
    };
    events.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_json_of_the_size_that_is_promised() {
        let body = body();
        assert_eq!(body.len(), BODY);
        let value: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(value["tools"].as_array().map(Vec::len), Some(12));
    }

    #[test]
    fn an_answer_has_its_deltas_and_an_end() {
        let events = events(50);
        assert_eq!(events.len(), 55);
        assert!(events[54].ends_with(b"data: {\"type\":\"message_stop\"}\n\n"));
    }
}
