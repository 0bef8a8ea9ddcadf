//! Another attempt at a question for which there was not enough.
//!
//! The run that was not enough stays as it is. Another one is forked from it, at the
//! end of its last turn that did something: what was paid for is not paid for again,
//! and the model goes on from what it has learned. Turns and memory grow by
//! themselves. Money, tokens, time, output and computing were bounded by whoever asks:
//! the next attempt has what is left of them, and there is none if nothing is.

use belljar_domain::{EndReason, RunId, Sequence};
use belljar_journal::event::{
    Body, Budget, BudgetPatch, CallRef, ErrorCategory, Event, Finished, ForkedFrom, Lack, Limit,
    LlmTrouble, Outcome, Retry,
};
use belljar_journal::{
    Address, CreateError, First, Journal, NewRun, PROGRAM_CALL, ReadError, RunView, fork_points,
    read_all,
};
use belljar_objects::Digest;
use time::OffsetDateTime;

use crate::budget::Clause;
use crate::story::Story;

/// What further attempts may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct More {
    /// Attempts at one question, the first one included.
    pub attempts: u32,
    /// Of the next sandbox; none: it cannot have more than the last one.
    pub memory_bytes: Option<u64>,
}

/// Why it is not known whether there is another attempt.
#[derive(Debug, thiserror::Error)]
pub enum AgainError {
    #[error("cannot read the run that was not enough")]
    Read(#[from] ReadError),
    #[error("cannot make a run for another attempt")]
    Create(#[from] CreateError),
}

/// Makes the run of the next attempt, if there is one. Asked again, it is the same run.
pub async fn try_again(
    journal: &dyn Journal,
    run: &Address,
    more: More,
) -> Result<Option<Address>, AgainError> {
    let events = read_all(journal, run).await?;
    let Some(forked) = again(&run.run, &events, more) else { return Ok(None) };
    let address = Address { tenant: run.tenant.clone(), run: next_attempt(&run.run) };
    let new = NewRun { address, first: First::Forked(forked), most_unfinished: None };
    journal.create(&new).await?;
    Ok(Some(new.address))
}

/// How another attempt begins, if it is worth one.
pub fn again(run: &RunId, events: &[Event], more: More) -> Option<ForkedFrom> {
    let view = RunView::of(events);
    let attempt = view.retry.as_ref().map_or(1, |retry| retry.attempt);
    if attempt >= more.attempts || !is_unfinished(view.finished.as_ref()?) {
        return None;
    }
    let memory_bytes = more.memory_bytes.filter(|_| was_starved(events));
    let turns = view.limits.contains(&Limit::Turns).then_some(Lack::Turns);
    let lacked: Vec<Lack> = turns.into_iter().chain(memory_bytes.map(|_| Lack::Memory)).collect();
    if lacked.is_empty() || is_penniless(events) {
        return None;
    }
    let budget = enlarged(&view, events, &Budget::default()).ok()?;
    let after = last_act(events)?;
    Some(ForkedFrom {
        parent: run.clone(),
        after,
        model: None,
        prompt: None,
        budget: Some(budget),
        retry: Some(Retry { attempt: attempt + 1, lacked, memory_bytes }),
    })
}

/// Whether a run ended for want of something, and not because somebody wanted it to,
/// or because something is broken that would be broken again.
fn is_unfinished(finished: &Finished) -> bool {
    match finished.outcome {
        Outcome::Exhausted => true,
        Outcome::Failed => finished.error == Some(ErrorCategory::NoResult),
        Outcome::Answered | Outcome::Cancelled => false,
    }
}

/// Whether code of this attempt was ended because it needed more memory than there was.
fn was_starved(events: &[Event]) -> bool {
    let is_starved = |event: &Event| match &event.body {
        Body::ToolFinished(call) => {
            call.reason == EndReason::Oom
                || call.fault.as_ref().is_some_and(|fault| fault.category == "memory")
        }
        _ => false,
    };
    let own = events.rsplit(|event| matches!(event.body, Body::ForkedFrom(_))).next();
    own.unwrap_or_default().iter().any(is_starved)
}

/// Whether nobody pays for the model any more.
fn is_penniless(events: &[Event]) -> bool {
    let refused =
        |body: &Body| matches!(body, Body::LlmFailed(it) if it.trouble == LlmTrouble::OutOfBudget);
    events.iter().any(|event| refused(&event.body))
}

/// Twice the turns if they were used up, and what is left of everything else.
/// A bound in `named` is taken as it is.
pub(crate) fn enlarged(view: &RunView, events: &[Event], named: &Budget) -> Result<Budget, Limit> {
    let end = events.last().map_or(OffsetDateTime::UNIX_EPOCH, |event| event.at);
    let began = Story::of(events).began.unwrap_or(end);
    let mut budget = BudgetPatch(*named).onto(&view.budget);
    for clause in Clause::all(view, began, end) {
        if is_named(named, clause.limit) {
            continue;
        }
        let left = clause.allowed.saturating_sub(clause.used);
        match clause.limit {
            Limit::Turns if clause.is_used_up() => {
                budget.turns = budget.turns.map(|turns| turns.saturating_mul(2));
            }
            Limit::Turns => {}
            limit if left == 0 => return Err(limit),
            Limit::Wall => budget.wall_ms = Some(left),
            Limit::Tokens => budget.tokens = Some(left),
            Limit::Money => budget.nano_dollars = Some(left),
            Limit::Output => budget.output_bytes = Some(left),
            Limit::Cpu => budget.cpu_ms = Some(left),
        }
    }
    Ok(budget)
}

fn is_named(budget: &Budget, limit: Limit) -> bool {
    match limit {
        Limit::Turns => budget.turns.is_some(),
        Limit::Wall => budget.wall_ms.is_some(),
        Limit::Tokens => budget.tokens.is_some(),
        Limit::Money => budget.nano_dollars.is_some(),
        Limit::Output => budget.output_bytes.is_some(),
        Limit::Cpu => budget.cpu_ms.is_some(),
    }
}

/// The last event after which a next attempt can go on; none: nothing was done.
pub(crate) fn last_act(events: &[Event]) -> Option<Sequence> {
    let acts = fork_points(events).into_iter().rev().find(|point| acted(events, point.turn));
    acts.map(|point| point.after)
}

/// Returns true if a turn made a call and is over. A program's end is the end of its last turn.
fn acted(events: &[Event], turn: u32) -> bool {
    events
        .iter()
        .any(|event| matches!(&event.body, Body::ToolFinished(it) if is_of(&it.call, turn)))
}

fn is_of(call: &CallRef, turn: u32) -> bool {
    call.turn == turn || call.id.starts_with(PROGRAM_CALL)
}

/// The id of the attempt after a run, which follows from it: so there is only one.
pub fn next_attempt(run: &RunId) -> RunId {
    let mut bits = [0; 16];
    let digest = Digest::of(format!("{run}\nagain").as_bytes());
    bits.copy_from_slice(&digest.as_bytes()[..16]);
    RunId::from_bits(bits)
}

#[cfg(test)]
mod tests;
