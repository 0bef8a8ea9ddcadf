use belljar_domain::RunId;
use serde_json::json;
use time::OffsetDateTime;

use super::*;
use crate::event::{
    BudgetChanged, Cancelled, ForkedFrom, InjectedMessage, LeaseTaken, LlmFailed, LlmRequested,
    LlmResponded, LlmTrouble, Outcome, Paused, Resumed, Tokens, ToolFinished, ToolIntended,
    ToolStarted, Unknown, Used, Wish,
};
use belljar_domain::{ChosenLimits, EndReason, Tier};
use belljar_objects::Digest;

/// A transcript that grows by bodies.
#[derive(Default)]
struct Tale {
    view: RunView,
    events: Vec<Event>,
}

impl Tale {
    fn new() -> Self {
        let mut tale = Self::default();
        let prompt = Prompt { name: "p".into(), version: "1".into(), sha256: Digest::of(b"p") };
        tale.add(RunCreated {
            question: "why?".into(),
            datasets: vec![],
            model: "m".into(),
            prompt,
            budget: Budget { turns: Some(30), ..Budget::default() },
            now: OffsetDateTime::UNIX_EPOCH,
            wish: None,
        });
        tale.lease(None);
        tale
    }

    fn add(&mut self, body: impl Into<Body>) -> Sequence {
        let seq = self.view.head.next();
        let event = Event {
            seq,
            at: OffsetDateTime::UNIX_EPOCH,
            lease: None,
            key: None,
            body: body.into(),
        };
        self.view.apply(&event);
        self.events.push(event);
        seq
    }

    fn lease(&mut self, took_over: Option<&str>) -> Sequence {
        let generation = self.view.generation.next();
        let took_over = took_over.map(str::to_owned);
        self.add(LeaseTaken { generation, owner: format!("w{generation}"), took_over })
    }

    fn want(&mut self, request: Request) -> Sequence {
        self.add(ControlRequested { request, by: "ann".into() })
    }

    fn ask(&mut self, turn: u32, attempt: u32) -> Sequence {
        self.add(LlmRequested {
            turn,
            attempt,
            model: "m".into(),
            prompt: Digest::of(b""),
            reservation: None,
            last: false,
        })
    }

    fn answer(&mut self, turn: u32, asked: Sequence, calls: &[&str]) {
        let blocks = calls
            .iter()
            .map(|id| Block::ToolUse { id: (*id).into(), name: "shell".into(), input: json!({}) })
            .collect();
        self.add(LlmResponded {
            turn,
            asked,
            blocks,
            stop: "end".into(),
            tokens: Tokens { input: 10, output: 1, ..Tokens::default() },
            nano_dollars: 100,
            assumed: false,
            upstream_request: None,
            raw: None,
            first_token_micros: None,
            micros: 7,
        });
    }

    fn call(&mut self, turn: u32, id: &str, until: &str) {
        let call = CallRef { turn, id: id.into() };
        let (name, arguments) = ("shell".into(), Digest::of(b"{}"));
        self.add(ToolIntended { call: call.clone(), name, arguments });
        if until == "intended" {
            return;
        }
        let exec = call.exec(&run(), 1);
        let sandbox = SandboxId::from_random([1; 16]);
        let generation = self.view.generation;
        self.add(ToolStarted {
            call: call.clone(),
            exec: exec.clone(),
            attempt: 1,
            sandbox,
            generation,
            timeout_ms: None,
            cpu_ms: None,
        });
        if until == "started" {
            return;
        }
        self.add(ToolFinished {
            call,
            exec: Some(exec),
            reason: EndReason::Done,
            exit_code: Some(0),
            shown: String::new(),
            cut: None,
            outputs: vec![],
            fault: None,
            used: Used { cpu_micros: 5, output_bytes: 3, ..Used::default() },
        });
    }
}

fn run() -> RunId {
    RunId::from_bits([9; 16])
}

fn is_about(next: &Next<'_>, id: &str) -> bool {
    match next {
        Next::Intend(call) | Next::Start(call) | Next::CollectCall { call, .. } => {
            call.call.id == id
        }
        _ => false,
    }
}

#[test]
fn every_gap_has_one_thing_to_do() {
    let mut tale = Tale::new();
    assert_eq!(tale.view.next(), Next::Ask { turn: 1, attempt: 1 });
    let asked = tale.ask(1, 1);
    assert!(matches!(tale.view.next(), Next::CollectAnswer(it) if it.seq == asked));
    tale.answer(1, asked, &["a", "b"]);
    assert!(matches!(tale.view.next(), Next::Intend(_)) && is_about(&tale.view.next(), "a"));
    tale.call(1, "a", "intended");
    assert!(matches!(tale.view.next(), Next::Start(_)) && is_about(&tale.view.next(), "a"));
    tale.call(1, "a", "started");
    assert!(
        matches!(tale.view.next(), Next::CollectCall { .. }) && is_about(&tale.view.next(), "a")
    );
    tale.call(1, "a", "finished");
    assert!(matches!(tale.view.next(), Next::Intend(_)) && is_about(&tale.view.next(), "b"));
    tale.call(1, "b", "finished");
    assert_eq!(tale.view.next(), Next::Ask { turn: 2, attempt: 1 });
    let asked = tale.ask(2, 1);
    tale.answer(2, asked, &[]);
    assert_eq!(tale.view.next(), Next::Answered);
    assert_eq!((tale.view.turns, tale.view.spent.nano_dollars), (2, 200));
    assert_eq!((tale.view.spent.calls, tale.view.spent.cpu_micros), (2, 10));
}

#[test]
fn an_answer_that_is_lost_is_asked_for_again_and_was_paid_for() {
    let mut tale = Tale::new();
    let asked = tale.ask(1, 1);
    tale.lease(Some("w1"));
    let trouble = LlmTrouble::Lost;
    let message = String::new();
    tale.add(LlmFailed { turn: 1, asked, trouble, message, nano_dollars: 40, micros: 0 });
    assert_eq!(tale.view.next(), Next::Ask { turn: 1, attempt: 2 });
    let asked = tale.ask(1, 2);
    tale.answer(1, asked, &[]);
    assert_eq!((tale.view.turns, tale.view.spent.nano_dollars), (1, 140));
}

#[test]
fn three_deaths_at_one_point_are_the_end() {
    let mut tale = Tale::new();
    for death in 1..=CRASHES {
        // To ask again is no progress: the same answer may kill the next one.
        let asked = tale.ask(1, death);
        tale.want(Request::Tell { text: "hurry".into() });
        assert!(!matches!(tale.view.next(), Next::Close(_)), "after {death}");
        tale.lease(Some("somebody"));
        let (trouble, message) = (LlmTrouble::Lost, String::new());
        tale.add(LlmFailed { turn: 1, asked, trouble, message, nano_dollars: 0, micros: 0 });
    }
    assert_eq!(tale.view.next(), Next::Close(Ending::RuntimeCrash));
}

#[test]
fn deaths_at_different_points_and_leases_given_back_are_forgiven() {
    let mut tale = Tale::new();
    for turn in 1..10 {
        let asked = tale.ask(turn, 1);
        tale.lease(Some("somebody"));
        tale.answer(turn, asked, &["a"]);
        tale.call(turn, "a", "finished");
    }
    for _ in 0..10 {
        tale.lease(None);
    }
    assert_eq!(tale.view.next(), Next::Ask { turn: 10, attempt: 1 });
}

#[test]
fn of_wishes_to_pause_and_to_go_on_the_last_one_counts() {
    let mut tale = Tale::new();
    tale.want(Request::Pause);
    tale.want(Request::Resume);
    assert!(tale.view.pending.is_empty());
    let pause = tale.want(Request::Pause);
    assert!(matches!(tale.view.next(), Next::Obey(it) if it.seq == pause));
    tale.add(Paused { answers: Some(pause), at: None });
    assert_eq!(tale.view.next(), Next::Rest);
    tale.want(Request::Pause);
    assert_eq!(tale.view.next(), Next::Rest);
    let resume = tale.want(Request::Resume);
    assert!(matches!(tale.view.next(), Next::Obey(it) if it.seq == resume));
    tale.add(Resumed { answers: resume, until: None, reply: None, decision: None });
    assert_eq!(tale.view.next(), Next::Ask { turn: 1, attempt: 1 });
}

#[test]
fn a_paused_run_that_is_to_go_on_and_then_not_is_paused_again() {
    for wish in [Request::Resume, Request::Step] {
        let mut tale = Tale::new();
        let pause = tale.want(Request::Pause);
        tale.add(Paused { answers: Some(pause), at: None });
        // A worker is wanted from here on, and has to say that none is.
        tale.want(wish);
        let again = tale.want(Request::Pause);
        assert!(matches!(tale.view.next(), Next::Obey(it) if it.seq == again));
        tale.add(Paused { answers: Some(again), at: None });
        assert_eq!(tale.view.next(), Next::Rest);
    }
}

#[test]
fn pause_waits_for_the_call_that_executes() {
    let mut tale = Tale::new();
    let asked = tale.ask(1, 1);
    tale.answer(1, asked, &["a", "b"]);
    tale.call(1, "a", "started");
    let pause = tale.want(Request::Pause);
    assert!(is_about(&tale.view.next(), "a"));
    tale.call(1, "a", "finished");
    assert!(matches!(tale.view.next(), Next::Obey(it) if it.seq == pause));
    tale.add(Paused { answers: Some(pause), at: None });
    assert_eq!(tale.view.next(), Next::Rest);
}

#[test]
fn a_wish_to_end_comes_before_all_others_also_while_paused() {
    let mut tale = Tale::new();
    let pause = tale.want(Request::Pause);
    tale.add(Paused { answers: Some(pause), at: None });
    tale.want(Request::Tell { text: "go left".into() });
    let cancel = tale.want(Request::Cancel);
    assert!(matches!(tale.view.next(), Next::Obey(it) if it.seq == cancel));
    tale.add(Cancelled { answers: cancel });
    assert_eq!(tale.view.next(), Next::Close(Ending::Cancelled));
    let (outcome, error) = (Outcome::Cancelled, None);
    tale.add(Finished { outcome, error, message: None, result: None });
    assert_eq!((tale.view.next(), tale.view.state()), (Next::Nothing, Some(State::Finished)));
    assert!(tale.view.pending.is_empty());
}

#[test]
fn what_is_told_waits_for_the_results_of_calls_and_makes_the_run_go_on() {
    let mut tale = Tale::new();
    let asked = tale.ask(1, 1);
    tale.answer(1, asked, &["a"]);
    let tell = tale.want(Request::Tell { text: "by week".into() });
    assert!(is_about(&tale.view.next(), "a"));
    tale.call(1, "a", "finished");
    assert!(matches!(tale.view.next(), Next::Obey(it) if it.seq == tell));
    let asked = tale.ask(2, 1);
    tale.answer(2, asked, &[]);
    let (kind, answers) = (Injected::Operator, Some(tell));
    tale.add(InjectedMessage { kind, turn: 3, text: "by week".into(), answers });
    assert_eq!(tale.view.next(), Next::Ask { turn: 3, attempt: 1 });
    assert!(tale.view.injected.contains(&Injected::Operator));
}

#[test]
fn a_budget_changes_in_parts() {
    let mut tale = Tale::new();
    let patch = Budget { tokens: Some(5), ..Budget::default() };
    let change = crate::event::BudgetPatch(patch);
    let answers = tale.want(Request::Budget { change });
    let budget = change.onto(&tale.view.budget);
    tale.add(BudgetChanged { answers, budget });
    assert_eq!((tale.view.budget.turns, tale.view.budget.tokens), (Some(30), Some(5)));
    assert!(tale.view.pending.is_empty());
}

#[test]
fn a_fork_keeps_what_was_said_and_nothing_that_was_going_on() {
    let mut tale = Tale::new();
    let asked = tale.ask(1, 1);
    tale.answer(1, asked, &["a", "b"]);
    tale.call(1, "a", "finished");
    tale.call(1, "b", "started");
    tale.want(Request::Cancel);
    let after = tale.view.head;
    let (model, prompt, budget) = (Some("other".into()), None, None);
    tale.add(ForkedFrom { parent: run(), after, model, prompt, budget, retry: None });
    let view = &tale.view;
    assert_eq!((view.state(), view.generation), (Some(State::Waiting), Generation(0)));
    assert_eq!((view.model.as_str(), view.budget.turns), ("other", Some(30)));
    assert!(view.pending.is_empty() && view.sandbox.is_none());
    assert_eq!((view.spent, view.inherited.nano_dollars), (Spent::default(), 100));
    assert!(matches!(view.next(), Next::Intend(_)) && is_about(&view.next(), "b"));
}

#[test]
fn a_run_and_its_forks_keep_the_environment_that_was_chosen() {
    let mut tale = Tale::new();
    assert!(tale.view.environment.is_default(), "an older version wrote down none");
    let limits = ChosenLimits { memory_bytes: Some(1 << 30), pids: Some(64), ..ChosenLimits::NONE };
    let chosen = Environment { tier: Some(Tier::GVISOR), limits };
    let mut created = tale.view.created.clone().unwrap();
    let network = NetworkAccess { operations: vec!["search".into()], ..NetworkAccess::default() };
    created.wish = Some(Wish {
        template: "t".into(),
        environment: chosen,
        network: Box::new(network.clone()),
        brief: Box::default(),
        operation: None,
        request: None,
        questions: false,
        traceparent: None,
    });
    tale.add(created);
    assert_eq!(tale.view.environment, chosen);
    let fork = |tale: &Tale, memory_bytes| ForkedFrom {
        parent: run(),
        after: tale.view.head,
        model: None,
        prompt: None,
        budget: None,
        retry: Some(Retry { attempt: 2, lacked: vec![], memory_bytes }),
    };
    tale.add(fork(&tale, Some(2 << 30)));
    let larger = ChosenLimits { memory_bytes: Some(2 << 30), ..limits };
    assert_eq!(tale.view.environment, Environment { limits: larger, ..chosen });
    assert_eq!(tale.view.network, network);
    // An attempt after that one has no less.
    tale.add(fork(&tale, None));
    assert_eq!(tale.view.environment.limits, larger);
}

#[test]
fn what_a_newer_version_wrote_is_left_to_it() {
    let mut tale = Tale::new();
    let (kind, content) = ("dreamt".to_owned(), json!({"kind": "dreamt", "v": 2}));
    let seq = tale.add(Body::Unknown(Unknown { kind, version: 2, content }));
    tale.ask(1, 1);
    assert_eq!(tale.view.next(), Next::Leave(seq));
}

#[test]
fn a_turn_can_be_forked_once_its_calls_are_done() {
    let mut tale = Tale::new();
    let mut events = Vec::new();
    for turn in 1..=2 {
        let asked = tale.ask(turn, 1);
        tale.answer(turn, asked, &["a", "b"]);
        tale.call(turn, "a", "finished");
        tale.call(turn, "b", "finished");
        let after = tale.view.head;
        tale.add(SnapshotTaken { snapshot: format!("s{turn}"), after });
        events.push((turn, tale.view.head, format!("s{turn}")));
        tale.want(Request::Tell { text: "hm".into() });
    }
    let asked = tale.ask(3, 1);
    tale.answer(3, asked, &["a"]);
    let points = fork_points(&tale.events);
    let points = points.into_iter().map(|point| {
        let snapshot = point.snapshot.map(|taken| taken.snapshot).unwrap_or_default();
        (point.turn, point.after, snapshot)
    });
    assert_eq!(points.collect::<Vec<_>>(), events);
}
