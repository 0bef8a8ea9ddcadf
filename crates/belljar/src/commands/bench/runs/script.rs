//! The answers of the model, by turn: calls in the sandbox, calls that need none, and the result.

use serde_json::{Value, json};

use crate::cli::BenchRuns;

/// The shape of every run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Script {
    pub(super) turns: u32,
    /// Turns with a call in the sandbox.
    pub(super) calls: u32,
}

/// Raises a counter in the sandbox, so that a call that is executed twice shows.
const CODE: &str = "count = globals().get('count', 0) + 1\nprint('counted', count)";

/// The counter that a call printed.
pub(super) fn counter(shown: &str) -> Option<u32> {
    shown.lines().find_map(|line| line.trim().strip_prefix("counted ")?.parse().ok())
}

impl Script {
    pub(super) fn of(options: &BenchRuns) -> Self {
        Self { turns: options.turns, calls: options.calls }
    }

    /// The turn whose answer is held back until all runs are alive: after the first call.
    pub(super) fn held_turn(self) -> u32 {
        1
    }

    /// The events of an answer, from `message_start` on.
    pub(super) fn events(self, run: u32, turn: u32) -> Vec<String> {
        let id = format!("{run}_{turn}");
        if turn + 1 >= self.turns {
            return said(&id, &result(run));
        }
        match turn < self.calls {
            true => called(&id, "execute_python", &json!({ "code": CODE })),
            // There is no such file: the model is told so, and goes on.
            false => {
                called(&id, "finish", &json!({ "answer": "not yet", "files": ["missing.csv"] }))
            }
        }
    }
}

/// The events of an answer that is a text.
pub(in crate::commands::bench) fn said(id: &str, text: &str) -> Vec<String> {
    let block = json!({ "type": "text", "text": "" });
    answer(id, &block, &json!({ "type": "text_delta", "text": text }), "end_turn")
}

/// The events of an answer that is a call of a tool.
pub(in crate::commands::bench) fn called(id: &str, tool: &str, input: &Value) -> Vec<String> {
    let call = format!("toolu_{id}");
    let block = json!({ "type": "tool_use", "id": call, "name": tool, "input": {} });
    let delta = json!({ "type": "input_json_delta", "partial_json": input.to_string() });
    answer(id, &block, &delta, "tool_use")
}

fn answer(id: &str, block: &Value, delta: &Value, stop: &str) -> Vec<String> {
    let message = json!({
        "id": format!("msg_{id}"), "type": "message", "role": "assistant",
        "model": super::MODEL, "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": usage(1),
    });
    let end = json!({ "stop_reason": stop, "stop_sequence": null });
    let events = [
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": end, "usage": usage(40) }),
        json!({ "type": "message_stop" }),
    ];
    events.iter().map(event).collect()
}

/// The text that a run ends with.
pub(super) fn result(run: u32) -> String {
    format!("The counter of {} was raised.", marker(run))
}

/// The name of a run in its question.
pub(super) fn marker(run: u32) -> String {
    format!("run number {run};")
}

/// The number of the run that the text names first.
pub(super) fn run_of(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("run number ")?;
    rest.split_once(';')?.0.parse().ok()
}

fn usage(output: u32) -> Value {
    json!({
        "input_tokens": 900, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        "output_tokens": output,
    })
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_calls_the_sandbox_first_and_answers_last() {
        let script = Script { turns: 4, calls: 2 };
        let all: Vec<String> = (0..4).map(|turn| script.events(7, turn).concat()).collect();
        let has = |turn: usize, word: &str| all[turn].contains(word);
        assert!(has(0, "execute_python") && has(1, "execute_python") && has(2, "missing.csv"));
        assert!(has(3, &result(7)) && has(3, "end_turn") && !has(3, "tool_use"));
        // The same turn of two runs is two calls.
        assert_ne!(script.events(7, 0), script.events(8, 0));
    }
}
