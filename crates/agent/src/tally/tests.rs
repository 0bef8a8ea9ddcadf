use belljar_domain::EndReason;
use belljar_journal::event::{
    Budget, CallRef, ErrorCategory, GuardReported, LlmFailed, PromptBuilt,
};
use belljar_objects::Digest;

use super::*;
use crate::again::{More, again, next_attempt};
use crate::invented::Log;

fn run(number: u8) -> RunId {
    RunId::from_bits([number; 16])
}

fn answered(turns: u32) -> Log {
    let mut log = Log::new(Budget::default());
    for turn in 1..=turns {
        log.turn(turn, EndReason::Done);
    }
    log.end(Outcome::Answered, None);
    log
}

#[test]
fn a_question_that_was_tried_again_counts_once() {
    let mut tally = Tally::default();
    tally.add(run(1), &answered(2).0);
    let (mut log, done) = Log::short_of_turns(Budget::default());
    tally.add(run(2), &log.0);
    assert_eq!(tally.figures().success_share, Some(0.5));
    // The second attempt is forked from the first, and begins with its events.
    let more = More { attempts: 2, memory_bytes: None };
    let forked = again(&run(2), &log.0, more).unwrap();
    log.0.truncate(usize::try_from(done.0).unwrap());
    log.add(forked);
    log.turn(3, EndReason::Done);
    log.end(Outcome::Answered, None);
    tally.add(next_attempt(&run(2)), &log.0);
    let figures = tally.figures();
    assert_eq!((figures.runs, figures.success_share), (3, Some(1.0)));
    assert_eq!(figures.attempts_per_success, Some(1.5));
    assert_eq!(figures.outcomes, BTreeMap::from([("answered", 2)]));
    // Calls and money of the first attempt are not counted twice.
    assert_eq!((figures.calls, figures.nano_dollars), (5, 600));
    assert_eq!(figures.turns.unwrap().p95, 2.0);
}

#[test]
fn what_went_wrong_is_counted_by_kind() {
    let mut log = Log::new(Budget::default());
    log.turn(1, EndReason::Done);
    let call = CallRef { turn: 1, id: "c".into() };
    for guard in ["clock", "empty-join", "empty-join"] {
        let (guard, message) = (guard.to_owned(), String::new());
        log.add(GuardReported { call: call.clone(), guard, message });
    }
    let asked = log.ask(2, false);
    let (trouble, message) = (LlmTrouble::Refused, "no".to_owned());
    log.add(LlmFailed { turn: 2, asked, trouble, message, nano_dollars: 0, micros: 0 });
    log.end(Outcome::Failed, Some(ErrorCategory::Model));
    let mut tally = Tally::default();
    tally.add(run(1), &log.0);
    for number in 2..=4 {
        tally.add(run(number), &answered(1).0);
    }
    let figures = tally.figures();
    assert_eq!(figures.success_share, Some(0.75));
    assert_eq!(figures.errors, BTreeMap::from([("model".to_owned(), 1)]));
    let guards = [("clock".to_owned(), 1), ("empty-join".to_owned(), 2)];
    assert_eq!(figures.guards, BTreeMap::from(guards));
    assert_eq!((figures.temporal_error_share, figures.join_error_share), (Some(0.25), Some(0.25)));
    assert_eq!((figures.refusal_share, figures.most_at_once), (Some(0.25), 4));
}

#[test]
fn prompts_that_begin_like_the_one_before_are_measured_by_it() {
    let mut log = Log::new(Budget::default());
    let mut built = |turn, bytes, shared_prefix_bytes| {
        let (sha256, cache_breakpoints) = (Digest::of(b""), vec![]);
        log.add(PromptBuilt { turn, sha256, bytes, cache_breakpoints, shared_prefix_bytes });
    };
    built(1, 1000, 0);
    built(2, 1500, 1000);
    built(3, 2000, 1250);
    let mut tally = Tally::default();
    tally.add(run(1), &log.0);
    let figures = tally.figures();
    assert_eq!(figures.shared_prefix_share, Some(0.9));
    assert_eq!((figures.unfinished, figures.success_share, figures.turns), (1, None, None));
    assert_eq!(Tally::default().figures().most_at_once, 0);
}

#[test]
fn the_middle_and_the_end_are_values_that_occurred() {
    let spread = spread((1..=20).map(f64::from).collect()).unwrap();
    assert_eq!((spread.p50, spread.p95, spread.mean), (10.0, 19.0, 10.5));
    let one = super::spread(vec![3.0]).unwrap();
    assert_eq!((one.p50, one.p95), (3.0, 3.0));
}
