//! Requirements: O4

use belljar_domain::{EndReason, Generation, RunId, SandboxId};
use belljar_journal::event::{
    Budget, ForkedFrom, GuardReported, Lack, LeaseTaken, LlmFailed, ParameterDeviated, Retry,
    SandboxAttached, ToolFault,
};

use super::*;
use crate::invented::{Log, called};

fn all(events: &[Event]) -> Vec<Signal> {
    let (mut view, mut signals) = (RunView::default(), Signals::default());
    let mut told = Vec::new();
    for event in events {
        told.extend(signals.hear(&view, event));
        view.apply(event);
    }
    told
}

fn claim(log: &mut Log, generation: u64) {
    let (generation, owner) = (Generation(generation), "w".to_owned());
    log.add(LeaseTaken { generation, owner, took_over: None });
}

/// A shell command that exits with 1, if it has a fault, and with 0 if not.
fn shell(log: &mut Log, turn: u32, fault: Option<&str>) {
    let fault =
        fault.map(|category| ToolFault { category: category.into(), message: String::new() });
    let reason = if fault.is_some() { EndReason::Exit } else { EndReason::Done };
    let (intended, mut finished) = called(turn, reason, fault);
    finished.exit_code = Some(i32::from(reason == EndReason::Exit));
    log.answer(turn, false, Some(&finished.call));
    log.add(intended);
    log.add(finished);
}

fn attempts(signals: &[Signal], step: &str) -> Vec<(String, Option<i32>)> {
    let attempts = signals.iter().filter_map(|signal| match signal {
        Signal::Attempted(attempt) if attempt.step == step => {
            Some((attempt.to_string(), attempt.exit))
        }
        _ => None,
    });
    attempts.collect()
}

/// O4: metrics and statistics are made of the same facts as the transcript.
#[test]
fn signals_sum_up_to_what_the_events_say() {
    let mut log = Log::new(Budget { turns: Some(9), ..Budget::default() });
    claim(&mut log, 1);
    shell(&mut log, 1, None);
    shell(&mut log, 2, Some("exit"));
    let asked = log.ask(3, false);
    let (trouble, message) = (LlmTrouble::Overloaded, String::new());
    log.add(LlmFailed { turn: 3, asked, trouble, message, nano_dollars: 7, micros: 0 });
    log.end(Outcome::Failed, Some(ErrorCategory::Model));
    let (mut tokens, mut money, mut turns, mut calls, mut faults) = (0, 0, 0, 0, 0);
    for signal in all(&log.0) {
        match signal {
            Signal::Answered { tokens: used, nano_dollars, .. } => {
                turns += 1;
                tokens += used.total();
                money += nano_dollars;
            }
            Signal::NotAnswered { nano_dollars, .. } => money += nano_dollars,
            Signal::Called { fault } => {
                calls += 1;
                faults += u32::from(fault.is_some());
            }
            _ => {}
        }
    }
    let view = RunView::of(&log.0);
    assert_eq!((tokens, money), (view.spent.tokens.total(), view.spent.nano_dollars));
    assert_eq!((turns, calls, faults), (view.turns, view.spent.calls, 1));
    assert_eq!((tokens, money), (20, 207));
}

#[test]
fn a_run_waits_until_its_first_worker_claims_it() {
    let mut log = Log::new(Budget::default());
    claim(&mut log, 1);
    claim(&mut log, 2);
    log.end(Outcome::Cancelled, None);
    // Every event of such a log takes a second.
    let seconds = Duration::from_secs;
    let (start, queued) = (RunStart::Question, seconds(1));
    let ended =
        Signal::Ended { outcome: Outcome::Cancelled, error: None, attempt: 1, time: seconds(3) };
    assert_eq!(all(&log.0), [Signal::Started { start, queued }, ended]);
}

#[test]
fn another_attempt_at_a_question_is_counted_as_its_own_run() {
    let (mut log, done) = Log::short_of_turns(Budget::default());
    let retry = Retry { attempt: 2, lacked: vec![Lack::Turns], memory_bytes: None };
    log.add(ForkedFrom {
        parent: RunId::from_bits([1; 16]),
        after: done,
        model: None,
        prompt: None,
        budget: None,
        retry: Some(retry),
    });
    let before = all(&log.0).len();
    claim(&mut log, 1);
    log.end(Outcome::Answered, None);
    let told = all(&log.0).split_off(before);
    let queued = Duration::from_secs(1);
    assert_eq!(told[0], Signal::Started { start: RunStart::Retry, queued });
    let Signal::Ended { outcome: Outcome::Answered, attempt: 2, time, .. } = told[1] else {
        panic!("{told:?}");
    };
    assert_eq!(time, Duration::from_secs(2));
}

/// O6: the attempt, and how many there can be.
#[test]
fn calls_of_a_tool_that_fail_in_a_row_are_attempts_at_one_step() {
    let mut log = Log::new(Budget { turns: Some(5), ..Budget::default() });
    shell(&mut log, 1, Some("exit"));
    shell(&mut log, 2, Some("made up by a model"));
    shell(&mut log, 3, None);
    shell(&mut log, 4, None);
    let told = all(&log.0);
    let shells = attempts(&told, "shell");
    let shells: Vec<_> = shells.iter().map(|(attempt, exit)| (attempt.as_str(), *exit)).collect();
    assert_eq!(shells, [("1/5", Some(1)), ("2/5", Some(1)), ("3/5", Some(0)), ("1/2", Some(0))]);
    assert_eq!(attempts(&told, "model").len(), 4);
    let faults = told.iter().filter_map(|signal| match signal {
        Signal::Called { fault } => Some(*fault),
        _ => None,
    });
    assert_eq!(faults.collect::<Vec<_>>(), [Some("exit"), Some(OTHER), None, None]);
}

#[test]
fn a_request_whose_worker_died_is_made_again_and_not_for_ever() {
    let mut log = Log::new(Budget::default());
    for attempt in 1..=2 {
        let mut requested = crate::invented::requested(1, false);
        requested.attempt = attempt;
        let asked = log.add(requested);
        if attempt == 1 {
            let (trouble, message) = (LlmTrouble::Lost, String::new());
            log.add(LlmFailed { turn: 1, asked, trouble, message, nano_dollars: 0, micros: 0 });
        } else {
            log.add(crate::invented::responded(1, asked, vec![]));
        }
    }
    let told = all(&log.0);
    let attempts: Vec<_> =
        attempts(&told, "model").into_iter().map(|(attempt, _)| attempt).collect();
    assert_eq!(attempts, ["1/3", "2/3"]);
}

#[test]
fn a_sandbox_is_used_until_the_run_has_another_one_or_ends() {
    let mut log = Log::new(Budget::default());
    for number in 1..=2 {
        log.add(SandboxAttached {
            sandbox: SandboxId::from_random([7; 16]),
            number,
            template: "t".into(),
            restored: None,
            data: None,
            environment: None,
        });
        claim(&mut log, number.into());
    }
    log.end(Outcome::Answered, None);
    let used = all(&log.0).into_iter().filter_map(|signal| match signal {
        Signal::SandboxUsed(time) => Some(time.as_secs()),
        _ => None,
    });
    assert_eq!(used.collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn guards_are_about_dates_or_joins_and_their_words_are_ours() {
    let mut log = Log::new(Budget::default());
    for guard in ["clock", "fan-out", "whatever code says"] {
        let call = belljar_journal::event::CallRef { turn: 1, id: "c".into() };
        log.add(GuardReported { call, guard: guard.into(), message: String::new() });
    }
    let told = all(&log.0);
    let guarded = |kind, guard| Signal::Guarded { kind, guard };
    let join = GuardKind::Join;
    let want =
        [guarded(GuardKind::Temporal, "clock"), guarded(join, "fan-out"), guarded(join, OTHER)];
    assert_eq!(told, want);
}

/// O4: a parameter that was not in force is counted, by words of ours.
#[test]
fn deviations_are_about_parameters_that_there_are() {
    let mut log = Log::new(Budget::default());
    for parameter in ["temperature", "whatever a newer version writes"] {
        log.add(ParameterDeviated {
            turn: 1,
            parameter: parameter.into(),
            asked: "0.2".into(),
            applied: None,
            cause: DeviationCause::Provider,
        });
    }
    let cause = DeviationCause::Provider;
    let want = ["temperature", OTHER].map(|parameter| Signal::Deviated { parameter, cause });
    assert_eq!(all(&log.0), want);
}
