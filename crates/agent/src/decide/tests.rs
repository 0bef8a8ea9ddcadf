use belljar_domain::EndReason;
use belljar_journal::Event;
use belljar_journal::event::{
    Block, Body, Breakpoints, Brief, Budget, BudgetChanged, ControlRequested, Environment,
    Finished, Guards, InjectedMessage, LlmFailed, Paused, Request, Resumed, SandboxAttached,
    ToolFault, Wish,
};
use serde_json::json;

use super::*;
use crate::invented::{called, created, moment, requested, responded};
use crate::output::NO_INTERPRETER;

/// A log that is written by what is decided.
struct Log {
    story: Story,
    now: u64,
}

impl Log {
    fn new(budget: Budget) -> Self {
        let mut log = Self { story: Story::default(), now: 0 };
        log.add(created(budget));
        log
    }

    fn turns(turns: u32) -> Self {
        Self::new(Budget { turns: Some(turns), ..Budget::default() })
    }

    fn add(&mut self, body: impl Into<Body>) -> Sequence {
        let seq = self.story.view.head.next();
        let body = body.into();
        self.story.apply(&Event { seq, at: moment(self.now), lease: None, key: None, body });
        seq
    }

    fn step(&self) -> Step<'_> {
        decide(&self.story, moment(self.now))
    }

    /// One turn with one call of this tool.
    fn turn(&mut self, last: bool, tool: Option<&str>, text: &str) {
        self.turn_with(last, tool, text, None);
    }

    /// The same, and this is wrong with the call.
    fn turn_with(&mut self, last: bool, tool: Option<&str>, text: &str, fault: Option<ToolFault>) {
        let turn = self.story.view.turns + 1;
        let asked = self.add(requested(turn, last));
        let mut blocks = vec![Block::Text { text: text.into() }];
        if let Some(name) = tool {
            let input = json!({ "answer": "42" });
            blocks.push(Block::ToolUse { id: "c".into(), name: name.into(), input });
        }
        self.add(responded(turn, asked, blocks));
        if tool.is_some() && !last {
            self.call(turn, fault);
        }
    }

    fn call(&mut self, turn: u32, fault: Option<ToolFault>) {
        let (intended, finished) = called(turn, EndReason::Done, fault);
        self.add(intended);
        self.add(finished);
    }

    fn inject(&mut self, kind: Injected) {
        let turn = self.story.view.turns + 1;
        self.add(InjectedMessage { kind, turn, text: String::new(), answers: None });
    }
}

/// Plays a model that never comes to an end, and answers what it was told, turn by turn.
fn played(turns: u32) -> Vec<String> {
    played_in(Log::turns(turns))
}

fn played_in(mut log: Log) -> Vec<String> {
    let mut heard = Vec::new();
    loop {
        let step = log.step();
        match step {
            Step::Ask { turn, last, .. } => {
                heard.push(format!("ask {turn}{}", if last { " without tools" } else { "" }));
                log.turn(last, Some("shell"), "hm");
            }
            Step::Warn { left } => {
                heard.push(format!("warn {left}"));
                log.inject(if left == 1 { Injected::TurnsLeft1 } else { Injected::TurnsLeft3 });
            }
            Step::Limit(hit) => {
                heard.push(format!("limit {} of {}", hit.used, hit.allowed));
                log.add(hit);
            }
            Step::Last { .. } => log.inject(Injected::Final),
            Step::Close(closing) => {
                heard.push(format!("{:?}", closing.outcome));
                assert_eq!(closing.result.as_deref(), Some("hm"));
                return heard;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn warnings_come_once_each_and_a_last_turn_has_no_tools() {
    assert_eq!(
        played(5),
        [
            "ask 1",
            "ask 2",
            "warn 3",
            "ask 3",
            "ask 4",
            "warn 1",
            "ask 5",
            "limit 5 of 5",
            "ask 6 without tools",
            "Exhausted"
        ]
    );
    assert_eq!(played(1), ["warn 1", "ask 1", "limit 1 of 1", "ask 2 without tools", "Exhausted"]);
}

#[test]
fn a_run_without_the_guard_of_turns_is_not_warned() {
    let guards = Guards { turns: false, ..Guards::default() };
    let wish = Wish {
        template: "t".into(),
        environment: Environment::default(),
        network: Box::default(),
        brief: Box::new(Brief { guards, ..Brief::default() }),
        operation: None,
        request: None,
        questions: false,
        traceparent: None,
    };
    let mut log = Log { story: Story::default(), now: 0 };
    let budget = Budget { turns: Some(1), ..Budget::default() };
    log.add(RunCreated { wish: Some(wish), ..created(budget) });
    assert_eq!(played_in(log), ["ask 1", "limit 1 of 1", "ask 2 without tools", "Exhausted"]);
}

#[test]
fn a_budget_of_any_kind_ends_the_work() {
    let bounded = [
        Budget { tokens: Some(10), ..Budget::default() },
        Budget { nano_dollars: Some(100), ..Budget::default() },
        Budget { output_bytes: Some(50), ..Budget::default() },
        Budget { cpu_ms: Some(1000), ..Budget::default() },
        Budget { wall_ms: Some(5000), ..Budget::default() },
    ];
    for budget in bounded {
        let mut log = Log::new(budget);
        assert!(matches!(log.step(), Step::Ask { turn: 1, last: false, .. }), "{budget:?}");
        log.turn(false, Some("shell"), "hm");
        log.now = 5;
        let Step::Limit(hit) = log.step() else { panic!("{budget:?}: {:?}", log.step()) };
        log.add(hit);
        assert!(matches!(log.step(), Step::Last { .. }), "{budget:?}");
        log.inject(Injected::Final);
        assert!(matches!(log.step(), Step::Ask { turn: 2, last: true, .. }), "{budget:?}");
        // Somebody may give more, and then the work goes on.
        log.story.view.budget = Budget::default();
        assert!(matches!(log.step(), Step::Ask { turn: 2, last: false, .. }), "{budget:?}");
    }
}

#[test]
fn money_that_is_kept_for_the_last_answer_is_not_spent_on_another_turn() {
    let mut log = Log::new(Budget { nano_dollars: Some(1000), ..Budget::default() });
    log.turn(false, Some("shell"), "hm");
    assert!(matches!(log.step(), Step::Ask { turn: 2, last: false, .. }));
    log.add(LimitHit { limit: Limit::Money, turn: 2, used: 100, allowed: 1000 });
    let Step::Last { why } = log.step() else { panic!("{:?}", log.step()) };
    assert!(why.contains("is for this answer"), "{why}");
    log.inject(Injected::Final);
    assert!(matches!(log.step(), Step::Ask { turn: 2, last: true, .. }));
    let budget = Budget { nano_dollars: Some(9000), ..Budget::default() };
    log.add(BudgetChanged { answers: Sequence(1), budget });
    assert!(matches!(log.step(), Step::Ask { turn: 2, last: false, .. }));
}

#[test]
fn what_the_model_hands_in_or_says_is_the_result() {
    let result = |log: &Log| match log.step() {
        Step::Close(closing) => (closing.outcome, closing.result),
        other => panic!("{other:?}"),
    };
    let mut log = Log::turns(9);
    log.turn(false, Some("finish"), "done");
    assert_eq!(result(&log), (Outcome::Answered, Some("42".into())));
    let mut log = Log::turns(9);
    log.turn(false, None, "It is 42.");
    assert_eq!(result(&log), (Outcome::Answered, Some("It is 42.".into())));
    // A call that was not offered is not made.
    let mut log = Log::turns(9);
    log.turn(true, Some("shell"), "So far: 41.");
    assert_eq!(result(&log), (Outcome::Exhausted, Some("So far: 41.".into())));
}

#[test]
fn what_was_not_said_to_its_end_is_no_answer() {
    let ended = |stop: &str, words: &str, last: bool| {
        let mut log = Log::turns(9);
        log.turn(last, None, words);
        log.story.stop = stop.to_owned();
        match log.step() {
            Step::Close(closing) => (closing.outcome, closing.error, closing.result),
            other => panic!("{other:?}"),
        }
    };
    let half = Some("It is 4".to_owned());
    for last in [false, true] {
        assert_eq!(
            ended("refusal", "I will not.", last),
            (Outcome::Failed, Some(ErrorCategory::Model), None)
        );
        assert_eq!(ended("max_output", "It is 4", last), (Outcome::Exhausted, None, half.clone()));
        assert_eq!(ended("context_full", "", last), (Outcome::Exhausted, None, None));
        assert_eq!(
            ended("no_answer", "It is 4", last),
            (Outcome::Failed, Some(ErrorCategory::NoResult), half.clone())
        );
    }
    assert_eq!(ended("end", "It is 4", false), (Outcome::Answered, None, half));
}

#[test]
fn a_template_that_cannot_run_python_is_not_tried_a_third_time() {
    fn python(log: &mut Log, why: Option<&str>) {
        let fault = why.map(|why| ToolFault {
            category: NO_INTERPRETER.into(),
            message: format!("ContextNotStarted: {why}"),
        });
        log.turn_with(false, Some("execute_python"), "hm", fault);
    }
    let mut log = Log::turns(9);
    log.add(SandboxAttached {
        sandbox: SandboxId::from_random([1; 16]),
        number: 1,
        template: "host".into(),
        restored: None,
        data: None,
        environment: None,
    });
    let missing = Some("this interpreter cannot be a context: IPython cannot be imported");
    for why in [missing, None, missing] {
        python(&mut log, why);
        assert!(matches!(log.step(), Step::Ask { .. }), "{:?}", log.step());
    }
    log.turn(false, Some("shell"), "I look elsewhere.");
    python(&mut log, missing);
    let Step::Close(closing) = log.step() else { panic!("{:?}", log.step()) };
    assert_eq!((closing.outcome, closing.error), (Outcome::Failed, Some(ErrorCategory::Sandbox)));
    let message = "template `host` has no IPython; choose one that has, such as `python-data`";
    assert_eq!(closing.message.as_deref(), Some(message));
}

#[test]
fn a_model_that_says_nothing_is_told_so_twice() {
    let mut log = Log::turns(9);
    for _ in 0..REPAIRS {
        log.turn(false, None, " ");
        assert_eq!(log.step(), Step::Repair);
        log.inject(Injected::Repair);
        assert!(matches!(log.step(), Step::Ask { .. }));
    }
    log.turn(false, None, "");
    let Step::Close(closing) = log.step() else { panic!() };
    assert_eq!(closing.error, Some(ErrorCategory::NoResult));
}

#[test]
fn a_request_that_was_lost_is_made_again_and_one_that_was_refused_is_not() {
    let mut log = Log::turns(9);
    let turn = 1;
    let asked = log.add(requested(turn, false));
    assert!(matches!(log.step(), Step::Lost(_)));
    let failed = |trouble| LlmFailed {
        turn,
        asked,
        trouble,
        message: "no".into(),
        nano_dollars: 0,
        micros: 0,
    };
    log.add(failed(LlmTrouble::Lost));
    assert!(matches!(log.step(), Step::Ask { turn: 1, attempt: 2, .. }));
    log.add(failed(LlmTrouble::Refused));
    let Step::Close(closing) = log.step() else { panic!() };
    assert_eq!((closing.outcome, closing.error), (Outcome::Failed, Some(ErrorCategory::Model)));
    log.add(Finished { outcome: Outcome::Failed, error: None, message: None, result: None });
    assert_eq!(log.step(), Step::Over);
}

fn control(log: &mut Log, request: Request) -> Sequence {
    log.add(ControlRequested { request, by: "tester".into() })
}

/// Does what a worker does with a step that only writes the log.
fn hold(log: &mut Log) -> PausePoint {
    let Step::Hold(point) = log.step() else { panic!("{:?}", log.step()) };
    log.add(Paused { answers: None, at: Some(point.clone()) });
    assert_eq!(log.step(), Step::Rest);
    point
}

fn resume(log: &mut Log, request: Request) {
    let answers = control(log, request.clone());
    let until = (request == Request::Step).then(|| log.story.view.step_end());
    log.add(Resumed { answers, until, reply: None, decision: None });
}

#[test]
fn a_step_is_one_turn() {
    let mut log = Log::new(Budget::default());
    let answers = control(&mut log, Request::Pause);
    log.add(Paused { answers: Some(answers), at: None });
    for turn in 1..=2 {
        resume(&mut log, Request::Step);
        assert_eq!(log.step(), Step::Ask { turn, attempt: 1, last: false });
        log.turn(false, Some("shell"), "hm");
        assert_eq!(hold(&mut log), PausePoint::Turn { turn: turn + 1 });
    }
    // Resumed, it does not pause again.
    resume(&mut log, Request::Resume);
    log.turn(false, Some("shell"), "hm");
    assert_eq!(log.step(), Step::Ask { turn: 4, attempt: 1, last: false });
}

#[test]
fn breakpoints_hold_before_each_turn_and_call_until_they_are_removed() {
    let mut log = Log::new(Budget::default());
    let set = |turns, calls| Request::Breakpoints { breakpoints: Breakpoints { turns, calls } };
    control(&mut log, set(true, true));
    assert_eq!(hold(&mut log), PausePoint::Turn { turn: 1 });
    resume(&mut log, Request::Resume);
    let asked = log.add(requested(1, false));
    let use_of =
        |id: &str| Block::ToolUse { id: id.into(), name: "shell".into(), input: json!({}) };
    log.add(responded(1, asked, vec![use_of("c")]));
    assert!(matches!(hold(&mut log), PausePoint::Call { call } if call.id == "c"));
    resume(&mut log, Request::Resume);
    assert!(matches!(log.step(), Step::Intend(_)));
    log.call(1, None);
    control(&mut log, set(false, false));
    assert_eq!(log.step(), Step::Ask { turn: 2, attempt: 1, last: false });
}

#[test]
fn a_finished_answer_is_not_held_back_by_a_breakpoint() {
    let mut log = Log::new(Budget::default());
    log.turn(false, None, "It is 42.");
    let breakpoints = Breakpoints { turns: true, calls: true };
    control(&mut log, Request::Breakpoints { breakpoints });
    assert!(matches!(log.step(), Step::Close(closing) if closing.outcome == Outcome::Answered));
}
