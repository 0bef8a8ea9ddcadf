//! Logs of runs that nobody played, for tests.

use belljar_domain::{EndReason, Sequence};
use belljar_journal::event::{
    Block, Body, Budget, CallRef, ErrorCategory, Event, Finished, Injected, InjectedMessage, Limit,
    LimitHit, LlmRequested, LlmResponded, Outcome, RunCreated, Tokens, ToolFault, ToolFinished,
    ToolIntended, Used,
};
use belljar_objects::Digest;
use serde_json::json;
use time::OffsetDateTime;

use crate::prompt::Texts;

pub(crate) fn moment(seconds: u64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_800_000_000 + i64::try_from(seconds).unwrap()).unwrap()
}

pub(crate) fn created(budget: Budget) -> RunCreated {
    RunCreated {
        question: "?".into(),
        datasets: vec![],
        model: "m".into(),
        prompt: Texts::newest().prompt(),
        budget,
        now: moment(0),
        wish: None,
    }
}

pub(crate) fn requested(turn: u32, last: bool) -> LlmRequested {
    let (model, prompt) = ("m".to_owned(), Digest::of(b""));
    LlmRequested { turn, attempt: 1, model, prompt, reservation: None, last }
}

pub(crate) fn responded(turn: u32, asked: Sequence, blocks: Vec<Block>) -> LlmResponded {
    LlmResponded {
        turn,
        asked,
        blocks,
        stop: String::new(),
        tokens: Tokens { output: 10, ..Tokens::default() },
        nano_dollars: 100,
        assumed: false,
        upstream_request: None,
        raw: None,
        first_token_micros: None,
        micros: 0,
    }
}

/// A call of the shell, as it was meant and as it ended.
pub(crate) fn called(
    turn: u32,
    reason: EndReason,
    fault: Option<ToolFault>,
) -> (ToolIntended, ToolFinished) {
    let call = CallRef { turn, id: "c".into() };
    let (name, arguments) = ("shell".to_owned(), Digest::of(b""));
    let finished = ToolFinished {
        call: call.clone(),
        exec: None,
        reason,
        exit_code: None,
        shown: String::new(),
        cut: None,
        outputs: vec![],
        fault,
        used: Used { cpu_micros: 1_000_000, output_bytes: 50, ..Used::default() },
    };
    (ToolIntended { call, name, arguments }, finished)
}

/// A run that calls something in each turn; every event takes a second.
pub(crate) struct Log(pub(crate) Vec<Event>);

impl Log {
    pub(crate) fn new(budget: Budget) -> Self {
        let mut log = Self(Vec::new());
        log.add(created(budget));
        log
    }

    pub(crate) fn add(&mut self, body: impl Into<Body>) -> Sequence {
        let seq = Sequence(self.0.len() as u64 + 1);
        self.0.push(Event { seq, at: moment(seq.0), lease: None, key: None, body: body.into() });
        seq
    }

    pub(crate) fn ask(&mut self, turn: u32, last: bool) -> Sequence {
        self.add(requested(turn, last))
    }

    pub(crate) fn turn(&mut self, turn: u32, reason: EndReason) -> Sequence {
        let (intended, finished) = called(turn, reason, None);
        self.answer(turn, false, Some(&finished.call));
        self.add(intended);
        self.add(finished)
    }

    pub(crate) fn answer(&mut self, turn: u32, last: bool, call: Option<&CallRef>) {
        let asked = self.ask(turn, last);
        let called = call.map(|call| Block::ToolUse {
            id: call.id.clone(),
            name: "shell".into(),
            input: json!({ "command": "true" }),
        });
        self.add(responded(turn, asked, called.into_iter().collect()));
    }

    /// As a run ends that has used something up.
    pub(crate) fn exhaust(&mut self, limit: Limit, turn: u32) {
        self.add(LimitHit { limit, turn, used: 2, allowed: 2 });
        let kind = Injected::Final;
        self.add(InjectedMessage { kind, turn, text: String::new(), answers: None });
        self.answer(turn, true, None);
        self.end(Outcome::Exhausted, None);
    }

    pub(crate) fn end(&mut self, outcome: Outcome, error: Option<ErrorCategory>) {
        self.add(Finished { outcome, error, message: None, result: None });
    }

    /// Two turns, which was all.
    pub(crate) fn short_of_turns(budget: Budget) -> (Self, Sequence) {
        let mut log = Self::new(Budget { turns: Some(2), ..budget });
        log.turn(1, EndReason::Done);
        let done = log.turn(2, EndReason::Done);
        log.exhaust(Limit::Turns, 3);
        (log, done)
    }
}
