//! The time of turns outside of model and code, from the events of a run.
//!
//! ```text
//!   llm_responded ─────── a turn ───────► llm_requested
//!        └─► message ─► sandbox ─► code ─►┘      less the wall time of the code
//! ```
//!
//! No request follows the last program of a pipeline: its turn ends with its message.

use std::time::Duration;

use belljar_journal::event::{Body, Event};
use belljar_pipeline::Message;
use serde::Serialize;
use time::OffsetDateTime;

/// The part of a run that a turn belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// The first call of `react`: it makes the sandbox.
    FirstCall,
    LaterCall,
    /// The Planner's message, handed to the Coder.
    Plan,
    /// The Coder's program, executed in a sandbox of its own.
    Code,
    /// The Debugger's program, likewise.
    Diagnosis,
}

impl Stage {
    pub(super) const ALL: [Self; 5] =
        [Self::FirstCall, Self::LaterCall, Self::Plan, Self::Code, Self::Diagnosis];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::FirstCall => "first call, new sandbox",
            Self::LaterCall => "later call",
            Self::Plan => "plan",
            Self::Code => "program",
            Self::Diagnosis => "repaired program",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) stage: Stage,
    pub(super) outside: Duration,
    /// The part until it had a new sandbox.
    pub(super) sandbox: Option<Duration>,
}

/// Turns with a message or a call, in order.
pub(super) fn turns(events: &[Event]) -> Vec<Turn> {
    let mut found = Vec::new();
    let mut open: Option<OpenTurn> = None;
    for event in events {
        match &event.body {
            Body::LlmResponded(_) => open = Some(OpenTurn::at(event.at)),
            Body::LlmRequested(_) => {
                found.extend(open.take().and_then(|turn| turn.close(event.at)));
            }
            body => {
                if let Some(turn) = &mut open {
                    turn.hear(body, event.at);
                }
            }
        }
    }
    found.extend(open.and_then(|turn| turn.close(turn.executed?)));
    found
}

/// A turn whose next request has not come.
#[derive(Debug, Clone, Copy)]
struct OpenTurn {
    begin: OffsetDateTime,
    stage: Option<Stage>,
    /// The moment from which a sandbox was wanted.
    wanted: OffsetDateTime,
    sandbox: Option<Duration>,
    code: Duration,
    /// The moment of the Executor's message.
    executed: Option<OffsetDateTime>,
}

impl OpenTurn {
    fn at(begin: OffsetDateTime) -> Self {
        let (stage, sandbox, executed) = (None, None, None);
        Self { begin, stage, wanted: begin, sandbox, code: Duration::ZERO, executed }
    }

    fn hear(&mut self, body: &Body, at: OffsetDateTime) {
        match body {
            Body::StageMessage(sent) => {
                let stage = match &sent.message {
                    Message::Plan(_) => Stage::Plan,
                    Message::Code(_) => Stage::Code,
                    Message::Diagnosis(_) => Stage::Diagnosis,
                    Message::Execution(_) => {
                        self.executed = Some(at);
                        return;
                    }
                    Message::Question(_) => return,
                };
                (self.stage, self.wanted) = (Some(stage), at);
            }
            Body::SandboxAttached(_) => {
                self.stage.get_or_insert(Stage::FirstCall);
                self.sandbox = Some(passed(self.wanted, at));
            }
            Body::ToolFinished(finished) if finished.exec.is_some() => {
                self.stage.get_or_insert(Stage::LaterCall);
                self.code += Duration::from_micros(finished.used.wall_micros);
            }
            _ => {}
        }
    }

    fn close(self, at: OffsetDateTime) -> Option<Turn> {
        let outside = passed(self.begin, at).saturating_sub(self.code);
        Some(Turn { stage: self.stage?, outside, sandbox: self.sandbox })
    }
}

fn passed(from: OffsetDateTime, to: OffsetDateTime) -> Duration {
    Duration::try_from(to - from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use belljar_domain::{EndReason, RunId, SandboxId, Sequence};
    use belljar_journal::event::{
        CallRef, LlmRequested, LlmResponded, SandboxAttached, StageMessage, Tokens, ToolFinished,
        Used,
    };
    use belljar_objects::Digest;
    use serde_json::json;

    use super::*;

    /// Events, each at a number of milliseconds.
    fn at(bodies: Vec<(i64, Body)>) -> Vec<Event> {
        let event = |(place, (ms, body)): (usize, (i64, Body))| Event {
            seq: Sequence(place as u64 + 1),
            at: OffsetDateTime::UNIX_EPOCH + time::Duration::milliseconds(ms),
            lease: None,
            key: None,
            body,
        };
        bodies.into_iter().enumerate().map(event).collect()
    }

    fn asked(turn: u32) -> Body {
        LlmRequested {
            turn,
            attempt: 1,
            model: "m".to_owned(),
            prompt: Digest::of(b""),
            reservation: None,
            last: false,
        }
        .into()
    }

    fn answered(turn: u32) -> Body {
        LlmResponded {
            turn,
            asked: Sequence(1),
            blocks: Vec::new(),
            stop: "tool_use".to_owned(),
            tokens: Tokens::default(),
            nano_dollars: 0,
            assumed: false,
            upstream_request: None,
            raw: None,
            first_token_micros: None,
            micros: 0,
        }
        .into()
    }

    fn attached() -> Body {
        SandboxAttached {
            sandbox: SandboxId::from_random([7; 16]),
            number: 1,
            template: "t".to_owned(),
            restored: None,
            data: None,
            environment: None,
        }
        .into()
    }

    /// A call whose code took so many milliseconds.
    fn ran(turn: u32, ms: u64) -> Body {
        let call = CallRef { turn, id: format!("c{turn}") };
        ToolFinished {
            exec: Some(call.exec(&RunId::from_bits([1; 16]), 1)),
            call,
            reason: EndReason::Done,
            exit_code: Some(0),
            shown: String::new(),
            cut: None,
            outputs: Vec::new(),
            fault: None,
            used: Used { wall_micros: ms * 1000, ..Used::default() },
        }
        .into()
    }

    fn sent(turn: u32, message: serde_json::Value) -> Body {
        let message = serde_json::from_value(message).unwrap();
        StageMessage { turn, round: 1, attempt: 1, message }.into()
    }

    fn turn(stage: Stage, outside: u64, sandbox: Option<u64>) -> Turn {
        let millis = Duration::from_millis;
        Turn { stage, outside: millis(outside), sandbox: sandbox.map(millis) }
    }

    #[test]
    fn the_time_of_code_and_of_the_model_is_left_out() {
        let events = at(vec![
            (0, asked(1)),
            (500, answered(1)),
            (507, attached()),
            (540, ran(1, 30)),
            (542, asked(2)),
            (900, answered(2)),
            (950, ran(2, 45)),
            (953, asked(3)),
            (999, answered(3)),
        ]);
        // The last answer has no turn after it.
        let expected = [turn(Stage::FirstCall, 12, Some(7)), turn(Stage::LaterCall, 8, None)];
        assert_eq!(turns(&events), expected);
    }

    #[test]
    fn each_stage_of_a_pipeline_has_its_turn_and_the_last_ends_with_its_message() {
        let plan = json!({ "type": "plan", "language": "python", "task": "t", "output": "text" });
        let artifact = json!({ "filename": "main.py", "code": "1", "run_command": "r" });
        let mut code = artifact.clone();
        code["type"] = json!("code");
        let execution = json!({
            "type": "execution", "success": false, "output": "", "sandbox": "template",
            "fingerprint": "f",
        });
        let diagnosis = json!({
            "type": "diagnosis", "category": "name", "cause": "c", "artifact": artifact,
        });
        let events = at(vec![
            (0, asked(1)),
            (100, answered(1)),
            (101, sent(1, plan)),
            (103, asked(2)),
            (200, answered(2)),
            (201, sent(2, code)),
            (209, attached()),
            (240, ran(2, 30)),
            (241, sent(2, execution.clone())),
            (243, asked(3)),
            (300, answered(3)),
            (302, sent(3, diagnosis)),
            (311, attached()),
            (331, ran(3, 20)),
            (332, sent(3, execution)),
        ]);
        let expected = [
            turn(Stage::Plan, 3, None),
            turn(Stage::Code, 13, Some(8)),
            turn(Stage::Diagnosis, 12, Some(9)),
        ];
        assert_eq!(turns(&events), expected);
    }
}
