//! Requirements: O1

use belljar_domain::EndReason;
use belljar_journal::event::{Budget, ErrorCategory, ForkedFrom, LlmTrouble, Outcome, ToolFault};

use super::*;
use crate::invented::{Log, called};

fn address() -> Address {
    Address { tenant: "t".into(), run: RunId::from_bits([3; 16]) }
}

fn all(events: &[Event]) -> Vec<RunSpan> {
    let (mut view, mut spans) = (RunView::default(), Spans::default());
    let mut told = Vec::new();
    for event in events {
        told.extend(spans.hear(&address(), "openai-chat", &view, event));
        view.apply(event);
    }
    told
}

fn shell(log: &mut Log, turn: u32, fault: Option<&str>) {
    let fault =
        fault.map(|category| ToolFault { category: category.into(), message: String::new() });
    let (intended, finished) = called(turn, EndReason::Exit, fault);
    log.answer(turn, false, Some(&finished.call));
    log.add(intended);
    log.add(finished);
}

/// O1: run, turns, requests and calls make one tree.
#[test]
fn spans_of_a_run_are_one_tree() {
    let mut log = Log::new(Budget::default());
    shell(&mut log, 1, None);
    shell(&mut log, 2, Some("exit"));
    let asked = log.ask(3, false);
    let (trouble, message) = (LlmTrouble::Overloaded, String::new());
    log.add(LlmFailed { turn: 3, asked, trouble, message, nano_dollars: 0, micros: 0 });
    log.end(Outcome::Failed, Some(ErrorCategory::Model));
    let spans = all(&log.0);
    let names: Vec<_> = spans
        .iter()
        .map(|span| match &span.what {
            SpanKind::Run { .. } => "run",
            SpanKind::Turn { .. } => "turn",
            SpanKind::Request { provider, .. } => provider,
            SpanKind::Call { tool, .. } => tool,
        })
        .collect();
    let turn = ["openai", "shell", "turn"];
    assert_eq!(names, [&turn[..], &turn, &["openai", "turn", "run"]].concat());
    let root = spans.last().unwrap();
    assert_eq!((root.parent, root.error), (None, Some("model")));
    for span in &spans {
        assert_eq!(span.ids.trace, root.ids.trace);
        assert!(span.begin >= root.begin && span.begin <= span.end && span.end <= root.end);
        let parent = span.parent.map(|parent| {
            let found: Vec<_> = spans.iter().filter(|other| other.ids == parent).collect();
            assert_eq!(found.len(), 1, "{span:?}");
            &found[0].what
        });
        match (&span.what, parent) {
            (SpanKind::Run { .. }, None) | (SpanKind::Turn { .. }, Some(SpanKind::Run { .. })) => {}
            (
                SpanKind::Request { turn, .. } | SpanKind::Call { turn, .. },
                Some(SpanKind::Turn { turn: parent }),
            ) => assert_eq!(turn, parent),
            other => panic!("{other:?}"),
        }
    }
    let mut ids: Vec<_> = spans.iter().map(|span| span.ids.span).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), spans.len());
    let faults: Vec<_> = spans.iter().filter_map(|span| span.error).collect();
    assert_eq!(faults, ["exit", "overloaded", "model"]);
}

/// O1: a worker that takes over names the same spans.
#[test]
fn ids_follow_from_the_run() {
    let run = RunId::from_bits([1; 16]);
    let (one, other) = (RunTrace::of(&run, None), RunTrace::of(&RunId::from_bits([2; 16]), None));
    assert_eq!(one, RunTrace::of(&run, None));
    assert_ne!(one.run().trace, other.run().trace);
    let call = |id: &str| CallRef { turn: 2, id: id.to_owned() };
    assert_eq!(one.call(&call("a")), RunTrace::of(&run, None).call(&call("a")));
    assert_ne!(one.call(&call("a")).span, one.call(&call("b")).span);
    assert_ne!(one.turn(1).span, one.turn(2).span);
    assert_eq!(one.turn(1).to_string().len(), 55);
}

#[test]
fn a_client_that_keeps_no_trace_gets_none() {
    let run = RunId::from_bits([1; 16]);
    let made_by = |flags: &str| format!("00-{:032x}-{:016x}-{flags}", 1, 2);
    assert!(RunTrace::of(&run, Some(&made_by("01"))).run().is_sampled);
    assert!(!RunTrace::of(&run, Some(&made_by("00"))).turn(1).is_sampled);
    assert!(RunTrace::of(&run, None).run().is_sampled);
}

#[test]
fn a_fork_has_no_spans_of_its_parent() {
    let (mut log, done) = Log::short_of_turns(Budget::default());
    let parent = RunId::from_bits([1; 16]);
    let forked = ForkedFrom {
        parent: parent.clone(),
        after: done,
        model: None,
        prompt: None,
        budget: None,
        retry: None,
    };
    log.add(forked);
    let before = all(&log.0).len();
    log.end(Outcome::Answered, None);
    let told = all(&log.0).split_off(before);
    let [run] = &told[..] else { panic!("{told:?}") };
    let SpanKind::Run { parent_run, .. } = &run.what else { panic!("{run:?}") };
    assert_eq!(parent_run.as_ref(), Some(&parent));
}
