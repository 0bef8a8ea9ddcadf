//! Another attempt that a human or a program asks for, with a larger allocation.
//!
//! It begins like one that [`again`](crate::again) makes: a fork after the last turn that did
//! something. The caller may name any bound; of the others, turns that were used up are doubled,
//! and the rest is what is left.

use belljar_domain::{RunId, Sequence};
use belljar_journal::RunView;
use belljar_journal::event::{Body, Budget, Event, ForkedFrom, Lack, Limit, Outcome, Retry};

use crate::again::{enlarged, last_act};

/// The allocation of another attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Larger {
    /// Bounds to replace. `turns` counts those of earlier attempts too.
    pub budget: Budget,
    /// Memory of the next sandbox; none: as before.
    pub memory_bytes: Option<u64>,
}

/// The reason that a run gets no other attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRetry {
    #[error("the run is not over")]
    Unfinished,
    #[error("the run has an answer")]
    Answered,
    #[error("nothing is left of the run's budget: {}", name(*.0))]
    NothingLeft(Limit),
}

/// The first event of another attempt at a finished run.
pub fn retry(run: &RunId, events: &[Event], larger: &Larger) -> Result<ForkedFrom, NoRetry> {
    let view = RunView::of(events);
    let finished = view.finished.as_ref().ok_or(NoRetry::Unfinished)?;
    if finished.outcome == Outcome::Answered {
        return Err(NoRetry::Answered);
    }
    let budget = enlarged(&view, events, &larger.budget).map_err(NoRetry::NothingLeft)?;
    // Without anything that was done, the attempt begins at the question.
    let after = last_act(events).unwrap_or(Sequence(1));
    let used = turns_until(events, after);
    if budget.turns.is_some_and(|turns| turns <= used) {
        return Err(NoRetry::NothingLeft(Limit::Turns));
    }
    let turns = view.limits.contains(&Limit::Turns).then_some(Lack::Turns);
    let memory = larger.memory_bytes.map(|_| Lack::Memory);
    Ok(ForkedFrom {
        parent: run.clone(),
        after,
        model: None,
        prompt: None,
        budget: Some(budget),
        retry: Some(Retry {
            attempt: view.retry.as_ref().map_or(1, |retry| retry.attempt) + 1,
            lacked: turns.into_iter().chain(memory).collect(),
            memory_bytes: larger.memory_bytes,
        }),
    })
}

/// Answers of the model that the attempt begins with.
fn turns_until(events: &[Event], after: Sequence) -> u32 {
    let own = events.iter().take_while(|event| event.seq <= after);
    let turns = own.filter_map(|event| match &event.body {
        Body::LlmResponded(answer) => Some(answer.turn),
        _ => None,
    });
    turns.max().unwrap_or(0)
}

/// The field of a budget that a limit is in.
fn name(limit: Limit) -> &'static str {
    match limit {
        Limit::Turns => "turns",
        Limit::Wall => "wall_ms",
        Limit::Tokens => "tokens",
        Limit::Money => "nano_dollars",
        Limit::Output => "output_bytes",
        Limit::Cpu => "cpu_ms",
    }
}

#[cfg(test)]
mod tests {
    use belljar_domain::EndReason;

    use super::*;
    use crate::invented::Log;

    fn run() -> RunId {
        RunId::from_bits([7; 16])
    }

    #[test]
    fn named_bounds_replace_the_old_ones_and_the_others_keep_what_is_left() {
        let bounded = Budget { tokens: Some(100), nano_dollars: Some(1000), ..Budget::default() };
        let (log, done) = Log::short_of_turns(bounded);
        let named = Budget { nano_dollars: Some(9000), ..Budget::default() };
        let larger = Larger { budget: named, memory_bytes: Some(4 << 30) };
        let forked = retry(&run(), &log.0, &larger).unwrap();
        let budget = forked.budget.unwrap();
        assert_eq!((budget.turns, budget.tokens), (Some(4), Some(70)));
        assert_eq!((forked.after, budget.nano_dollars), (done, Some(9000)));
        let again = forked.retry.unwrap();
        assert_eq!((again.attempt, again.memory_bytes), (2, Some(4 << 30)));
        assert_eq!(again.lacked, [Lack::Turns, Lack::Memory]);
    }

    #[test]
    fn a_bound_that_is_used_up_has_to_be_named() {
        let (log, _) = Log::short_of_turns(Budget { tokens: Some(30), ..Budget::default() });
        let refused = retry(&run(), &log.0, &Larger::default());
        assert_eq!(refused, Err(NoRetry::NothingLeft(Limit::Tokens)));
        let budget = Budget { tokens: Some(31), ..Budget::default() };
        assert!(retry(&run(), &log.0, &Larger { budget, memory_bytes: None }).is_ok());
        let budget = Budget { turns: Some(2), ..budget };
        let refused = retry(&run(), &log.0, &Larger { budget, memory_bytes: None });
        assert_eq!(refused, Err(NoRetry::NothingLeft(Limit::Turns)));
    }

    #[test]
    fn only_a_run_that_ended_without_an_answer_is_tried_again() {
        let mut log = Log::new(Budget::default());
        log.turn(1, EndReason::Done);
        let refused = |log: &Log| retry(&run(), &log.0, &Larger::default()).err();
        assert_eq!(refused(&log), Some(NoRetry::Unfinished));
        let mut cancelled = Log::new(Budget::default());
        cancelled.end(Outcome::Cancelled, None);
        let forked = retry(&run(), &cancelled.0, &Larger::default()).unwrap();
        assert_eq!(forked.after, Sequence(1), "nothing was done: it begins at the question");
        log.end(Outcome::Answered, None);
        assert_eq!(refused(&log), Some(NoRetry::Answered));
    }
}
