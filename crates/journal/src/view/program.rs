//! The calls of a run whose agent is a published program.
//!
//! The program runs as one call, which follows from the run's beginning, and as another one from
//! each message that has it go on. So it is begun once, like every call. What its model says and
//! calls inside of it is written down, and is nothing that a worker has to do.

use serde_json::json;

use super::{Call, CallState, RunView};
use crate::event::{CallRef, Injected, RunCreated};

/// Ids of calls that a program runs in begin with this.
pub const PROGRAM_CALL: &str = "belljar:program";

impl RunView {
    /// Returns true if a published program does the run's work.
    pub fn is_program(&self) -> bool {
        self.created.as_ref().is_some_and(|created| created.agent().is_program())
    }

    /// Begins with the program, if the run's agent is one.
    pub(super) fn begin_program(&mut self, created: &RunCreated) {
        if created.agent().is_program() {
            let call = program_call(1, 1, created, &created.question);
            self.calls = vec![call];
        }
    }

    /// Has the program go on with a message, if the run's agent is one.
    pub(super) fn continue_program(&mut self, kind: Injected, text: &str) {
        let Some(created) = self.created.as_ref().filter(|it| it.agent().is_program()) else {
            return;
        };
        if matches!(kind, Injected::Restored | Injected::Operator) {
            let call = program_call(self.calls.len() + 1, self.turns + 1, created, text);
            self.calls.push(call);
        }
    }
}

fn program_call(number: usize, turn: u32, created: &RunCreated, message: &str) -> Call {
    let call = CallRef { turn, id: format!("{PROGRAM_CALL}:{number}") };
    let name = created.agent().as_str().to_owned();
    Call { call, name, input: json!({ "message": message }), state: CallState::Wanted }
}

#[cfg(test)]
mod tests {
    use belljar_domain::Sequence;
    use serde_json::{Value, json};

    use super::*;
    use crate::event::Event;
    use crate::view::Next;

    fn event(seq: u64, body: Value) -> Event {
        let mut whole = json!({ "seq": seq, "at": "2026-01-02T03:04:05Z", "v": 1 });
        whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    fn created() -> Event {
        event(
            1,
            json!({
                "kind": "run_created", "v": 5, "question": "fix it", "model": "m", "budget": {},
                "now": "2026-01-02T03:04:05Z",
                "prompt": { "name": "p", "version": "1", "sha256": "0".repeat(64) },
                "wish": { "template": "claude-code", "brief": { "agent": "claude-code" } },
            }),
        )
    }

    fn finished(seq: u64, call: &Call) -> Event {
        event(
            seq,
            json!({
                "kind": "tool_finished", "call": call.call, "reason": "lost", "shown": "",
                "used": { "wall_micros": 0, "cpu_micros": 0, "written_bytes": 0, "output_bytes": 0 },
            }),
        )
    }

    #[test]
    fn a_program_is_one_call_whatever_its_model_calls() {
        let mut view = RunView::of(&[created()]);
        assert_eq!(created().body.version(), 5);
        let Next::Intend(call) = view.next() else { panic!("{:?}", view.next()) };
        let call = call.clone();
        assert_eq!(
            (call.name.as_str(), call.input["message"].as_str()),
            ("claude-code", Some("fix it"))
        );
        view.apply(&event(
            2,
            json!({ "kind": "tool_intended", "call": call.call, "name": call.name,
            "arguments": "0".repeat(64) }),
        ));
        assert!(matches!(view.next(), Next::Start(_)));
        view.apply(&event(
            3,
            json!({
                "kind": "llm_responded", "turn": 1, "asked": 2, "stop": "", "nano_dollars": 5,
                "blocks": [{ "type": "tool_use", "id": "t", "name": "Bash", "input": {} }],
                "tokens": { "input": 1, "cache_read": 0, "cache_write": 0, "output": 1 },
                "micros": 0,
            }),
        ));
        assert_eq!((view.turns, view.calls.len(), view.is_answered), (1, 1, false));
        assert!(matches!(view.next(), Next::Start(_)), "the model's call is none of ours");
        view.apply(&finished(4, &call));
        assert!(matches!(view.next(), Next::Ask { turn: 2, .. }));
    }

    #[test]
    fn a_message_has_it_go_on_in_another_call() {
        let mut view = RunView::of(&[created()]);
        let first = view.calls[0].clone();
        view.apply(&finished(2, &first));
        let message =
            json!({ "kind": "injected_message", "why": "restored", "turn": 1, "text": "go on" });
        view.apply(&event(3, message));
        let Next::Intend(call) = view.next() else { panic!("{:?}", view.next()) };
        assert_ne!(call.call, first.call);
        assert_eq!(call.input["message"], "go on");
        // A warning is said to the program that runs.
        let warning =
            json!({ "kind": "injected_message", "why": "turns_left_3", "turn": 1, "text": "3" });
        view.apply(&event(4, warning));
        assert_eq!((view.calls.len(), view.head), (2, Sequence(4)));
    }
}
