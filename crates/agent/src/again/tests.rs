//! Requirements: A3

use belljar_journal::event::{Injected, InjectedMessage, LimitHit, LlmFailed};

use super::*;
use crate::decide::{Step, decide};
use crate::invented::{Log, moment};

const MORE: More = More { attempts: 2, memory_bytes: Some(4 << 30) };

fn run() -> RunId {
    RunId::from_bits([7; 16])
}

#[test]
fn a_run_that_was_short_of_turns_goes_on_with_twice_as_many() {
    let (mut log, done) = Log::short_of_turns(Budget::default());
    let forked = again(&run(), &log.0, MORE).unwrap();
    let retry = Retry { attempt: 2, lacked: vec![Lack::Turns], memory_bytes: None };
    assert_eq!((forked.after, forked.budget.unwrap().turns), (done, Some(4)));
    assert_eq!(forked.retry.as_ref(), Some(&retry));
    // From there on, without what was said at its end.
    log.0.truncate(usize::try_from(done.0).unwrap());
    log.add(forked);
    let story = Story::of(&log.0);
    assert_eq!(decide(&story, moment(60)), Step::Anew);
    let (kind, text) = (Injected::Restored, String::new());
    log.add(InjectedMessage { kind, turn: 3, text, answers: None });
    let story = Story::of(&log.0);
    // Three were never left of the first budget; of this one, two are.
    assert_eq!(decide(&story, moment(60)), Step::Warn { left: 2 });
    // There were two attempts, and that is enough.
    log.turn(3, EndReason::Done);
    log.turn(4, EndReason::Done);
    log.exhaust(Limit::Turns, 5);
    assert_eq!(again(&run(), &log.0, MORE), None);
    let third = again(&run(), &log.0, More { attempts: 3, ..MORE }).unwrap();
    assert_eq!((third.budget.unwrap().turns, third.retry.unwrap().attempt), (Some(8), 3));
}

#[test]
fn the_next_attempt_has_what_is_left_of_what_was_bounded() {
    let bounded = Budget {
        tokens: Some(100),
        nano_dollars: Some(1000),
        output_bytes: Some(1000),
        cpu_ms: Some(10_000),
        wall_ms: Some(60_000),
        turns: None,
    };
    let (log, _) = Log::short_of_turns(bounded);
    let budget = again(&run(), &log.0, MORE).unwrap().budget.unwrap();
    let passed = (log.0.len() as u64 - 1) * 1000;
    assert_eq!(
        budget,
        Budget {
            tokens: Some(70),
            nano_dollars: Some(700),
            output_bytes: Some(900),
            cpu_ms: Some(8000),
            wall_ms: Some(60_000 - passed),
            turns: Some(4),
        }
    );
    for nothing_left in [
        Budget { tokens: Some(30), ..bounded },
        Budget { nano_dollars: Some(250), ..bounded },
        Budget { wall_ms: Some(passed), ..bounded },
    ] {
        let (log, _) = Log::short_of_turns(nothing_left);
        assert_eq!(again(&run(), &log.0, MORE), None, "{nothing_left:?}");
    }
}

#[test]
fn a_run_whose_code_was_short_of_memory_gets_more_of_it() {
    let mut log = Log::new(Budget::default());
    let starved = log.turn(1, EndReason::Oom);
    log.answer(2, false, None);
    log.end(Outcome::Failed, Some(ErrorCategory::NoResult));
    let forked = again(&run(), &log.0, MORE).unwrap();
    let (attempt, lacked) = (2, vec![Lack::Memory]);
    assert_eq!(forked.retry, Some(Retry { attempt, lacked, memory_bytes: Some(4 << 30) }));
    assert_eq!(forked.after, starved);
    // Where there is no more, there is no other attempt.
    assert_eq!(again(&run(), &log.0, More { memory_bytes: None, ..MORE }), None);
}

#[test]
fn what_would_end_the_same_is_not_tried_again() {
    let ended = |outcome, error, trouble: Option<LlmTrouble>| {
        let mut log = Log::new(Budget { turns: Some(1), ..Budget::default() });
        log.turn(1, EndReason::Oom);
        log.add(LimitHit { limit: Limit::Turns, turn: 2, used: 1, allowed: 1 });
        if let Some(trouble) = trouble {
            let asked = log.ask(2, true);
            let (message, turn) = ("no".to_owned(), 2);
            log.add(LlmFailed { turn, asked, trouble, message, nano_dollars: 0, micros: 0 });
        }
        log.end(outcome, error);
        again(&run(), &log.0, MORE)
    };
    assert!(ended(Outcome::Exhausted, None, None).is_some());
    assert_eq!(ended(Outcome::Answered, None, None), None);
    assert_eq!(ended(Outcome::Cancelled, None, None), None);
    assert_eq!(ended(Outcome::Exhausted, None, Some(LlmTrouble::OutOfBudget)), None);
    for error in [ErrorCategory::Model, ErrorCategory::Sandbox, ErrorCategory::RuntimeCrash] {
        assert_eq!(ended(Outcome::Failed, Some(error), None), None);
    }
    // A run that goes on has not ended.
    let mut log = Log::new(Budget { turns: Some(1), ..Budget::default() });
    log.turn(1, EndReason::Oom);
    assert_eq!(again(&run(), &log.0, MORE), None);
}
