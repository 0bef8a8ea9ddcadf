//! What a worker does next, decided from the log and the clock alone.
//!
//! [`RunView::next`] knows the gaps that a crash can leave. Here is what a loop of
//! model and tools adds: budgets, warnings, and that there always is a result.
//!
//! ```text
//!   between two turns:  finish was called ────────────► close: answered
//!                       the last answer was asked for ► close: exhausted
//!                       the model cannot be asked ────► close: failed
//!                       Python cannot be run twice ───► close: failed
//!                       it refuses, or has no answer ─► close: failed
//!                       it was cut off ───────────────► close: exhausted
//!                       it spoke without a call ──────► close: answered
//!                       a budget is used up ──────────► say so, ask without tools
//!                       it was forked ────────────────► say that the sandbox is new
//!                       3 turns or 1 are left ────────► warn, once each
//!                       otherwise ────────────────────► ask
//! ```

use belljar_domain::{ExecId, SandboxId, Sequence};
use belljar_journal::event::{
    ErrorCategory, Injected, Limit, LimitHit, LlmTrouble, Outcome, PausePoint, RunCreated,
};
use belljar_journal::{Asked, Call, Ending, Next, Pending};
use belljar_pipeline::Message;
use time::OffsetDateTime;

use crate::answer::{CONTEXT_FULL, MAX_OUTPUT, NO_ANSWER, REFUSAL};
use crate::budget::{Clause, turns_left};
use crate::pipeline;
use crate::program;
use crate::story::Story;

/// A model that says nothing is told so this often.
const REPAIRS: u32 = 2;
/// After so many failures in a row, nothing is started any more to run Python in.
const UNSTARTED: usize = 2;

#[derive(Debug, Clone, PartialEq)]
pub enum Step<'a> {
    /// A newer version wrote this.
    Leave(Sequence),
    Over,
    Rest,
    Obey(&'a Pending),
    /// Nobody has the answer to this request.
    Lost(&'a Asked),
    /// Write down that a budget is used up.
    Limit(LimitHit),
    Warn {
        left: u32,
    },
    /// Tell the model that it has to answer without tools, and why.
    Last {
        why: String,
    },
    Repair,
    /// Tell the model that what its parent did in a sandbox is gone.
    Anew,
    Ask {
        turn: u32,
        attempt: u32,
        last: bool,
    },
    /// Pause at a breakpoint, or at the end of a step.
    Hold(PausePoint),
    Intend(&'a Call),
    Start(&'a Call),
    Collect {
        call: &'a Call,
        exec: &'a ExecId,
        sandbox: &'a SandboxId,
    },
    /// Have the program of the run go on with its work.
    Continue,
    /// Write a message of a pipeline down.
    Send(Box<Message>),
    Close(Closing),
}

/// How a run is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closing {
    pub outcome: Outcome,
    pub error: Option<ErrorCategory>,
    pub message: Option<String>,
    /// None: whatever there is, is the result.
    pub result: Option<String>,
}

/// The one thing to do now.
pub fn decide(story: &Story, now: OffsetDateTime) -> Step<'_> {
    match story.view.next() {
        Next::Leave(seq) => Step::Leave(seq),
        Next::Nothing => Step::Over,
        Next::Rest => Step::Rest,
        Next::Obey(pending) => Step::Obey(pending),
        Next::CollectAnswer(asked) => Step::Lost(asked),
        Next::Close(Ending::Cancelled) => Step::Close(Closing::of(Outcome::Cancelled)),
        Next::Close(Ending::RuntimeCrash) => Step::Close(Closing::failed(
            ErrorCategory::RuntimeCrash,
            "whoever worked on this run died at the same point three times",
        )),
        // Calls that were not offered are not made.
        _ if story.is_last_answered => {
            Step::Close(broken_off(story).unwrap_or_else(|| exhausted(story, now)))
        }
        Next::Intend(call) if story.view.breaks_before_call(&call.call) => {
            Step::Hold(PausePoint::Call { call: call.call.clone() })
        }
        Next::Intend(call) => Step::Intend(call),
        Next::Start(call) => Step::Start(call),
        Next::CollectCall { call, exec, sandbox } => Step::Collect { call, exec, sandbox },
        Next::Answered => held(story, between(story, now, story.view.turns + 1, 1)),
        Next::Ask { turn, attempt } => held(story, between(story, now, turn, attempt)),
    }
}

/// Pauses instead of asking the model, where a breakpoint or the end of a step is.
fn held<'a>(story: &Story, step: Step<'a>) -> Step<'a> {
    match step {
        Step::Ask { turn, .. } if story.view.breaks_before_turn(turn) => {
            Step::Hold(PausePoint::Turn { turn })
        }
        step => step,
    }
}

fn between(story: &Story, now: OffsetDateTime, turn: u32, attempt: u32) -> Step<'_> {
    let view = &story.view;
    if let Some(pipeline) = &story.pipeline {
        return pipeline::between(story, pipeline, now, turn, attempt);
    }
    if let Some(run) = &story.program {
        return program::between(story, run, now, turn);
    }
    if let Some(answer) = &story.answer {
        return Step::Close(Closing {
            result: Some(answer.clone()),
            ..Closing::of(Outcome::Answered)
        });
    }
    if let Some((trouble, message)) = &story.trouble {
        return Step::Close(in_trouble(*trouble, message));
    }
    if let [.., why] = &story.unstarted[..]
        && story.unstarted.len() >= UNSTARTED
    {
        return Step::Close(without_interpreter(&story.template, why));
    }
    if view.is_answered
        && let Some(closing) = broken_off(story)
    {
        return Step::Close(closing);
    }
    if view.is_answered && !story.words.is_empty() {
        let result = Some(story.words.clone());
        return Step::Close(Closing { result, ..Closing::of(Outcome::Answered) });
    }
    let used_up = used_up(story, now);
    if let Some(first) = used_up.first() {
        if let Some(new) = used_up.iter().find(|clause| !view.limits.contains(&clause.limit)) {
            return Step::Limit(new.hit(turn));
        }
        if !view.injected.contains(&Injected::Final) {
            return Step::Last { why: first.end() };
        }
        return Step::Ask { turn, attempt, last: true };
    }
    if view.is_answered {
        if story.repairs < REPAIRS {
            return Step::Repair;
        }
        let why = "the model gave no usable answer, time and again";
        return Step::Close(Closing::failed(ErrorCategory::NoResult, why));
    }
    let is_bereft = view.inherited.calls > 0 && view.sandboxes == 0;
    if is_bereft && !view.injected.contains(&Injected::Restored) {
        return Step::Anew;
    }
    let warned =
        |created: &RunCreated| created.wish.as_ref().is_none_or(|it| it.brief.guards.turns);
    let is_warned = view.created.as_ref().is_none_or(warned);
    match turns_left(view).filter(|_| is_warned) {
        Some(1) if !view.injected.contains(&Injected::TurnsLeft1) => Step::Warn { left: 1 },
        Some(left @ 2..=3) if !view.injected.contains(&Injected::TurnsLeft3) => Step::Warn { left },
        _ => Step::Ask { turn, attempt, last: false },
    }
}

pub(crate) fn used_up(story: &Story, now: OffsetDateTime) -> Vec<Clause> {
    let mut clauses = Clause::all(&story.view, story.began.unwrap_or(now), now);
    let is_short = |clause: &Clause| clause.limit == Limit::Money && story.is_short;
    clauses.retain(|clause| clause.is_used_up() || is_short(clause));
    clauses
}

fn exhausted(story: &Story, now: OffsetDateTime) -> Closing {
    let result = (!story.words.is_empty()).then(|| story.words.clone());
    let message = used_up(story, now).first().map(Clause::reason);
    Closing { result, message, ..Closing::of(Outcome::Exhausted) }
}

/// What the model did not want to say, or could not say to its end, is no answer.
fn broken_off(story: &Story) -> Option<Closing> {
    let cut = |why: &str| {
        let result = (!story.words.is_empty()).then(|| story.words.clone());
        Closing { result, message: Some(why.to_owned()), ..Closing::of(Outcome::Exhausted) }
    };
    match story.stop.as_str() {
        REFUSAL => Some(Closing::failed(ErrorCategory::Model, "the model refuses to answer")),
        NO_ANSWER => {
            let result = (!story.words.is_empty()).then(|| story.words.clone());
            let why = "no answer was found; the result says why";
            Some(Closing { result, ..Closing::failed(ErrorCategory::NoResult, why) })
        }
        MAX_OUTPUT if !story.words.is_empty() => {
            Some(cut("the answer is longer than one may be, and was cut off"))
        }
        CONTEXT_FULL => Some(cut("the conversation is longer than the model can read")),
        _ => None,
    }
}

/// Another sandbox of the same template would be no better.
fn without_interpreter(template: &str, why: &str) -> Closing {
    let lacks = match why.contains("IPython cannot be imported") {
        true => "has no IPython".to_owned(),
        false => format!("cannot run Python ({why})"),
    };
    let message =
        format!("template `{template}` {lacks}; choose one that has, such as `python-data`");
    Closing::failed(ErrorCategory::Sandbox, &message)
}

pub(crate) fn in_trouble(trouble: LlmTrouble, message: &str) -> Closing {
    if trouble == LlmTrouble::OutOfBudget {
        let message = Some(message.to_owned());
        return Closing { message, ..Closing::of(Outcome::Exhausted) };
    }
    Closing::failed(ErrorCategory::Model, message)
}

impl Closing {
    pub fn of(outcome: Outcome) -> Self {
        Self { outcome, error: None, message: None, result: None }
    }

    pub fn failed(error: ErrorCategory, message: &str) -> Self {
        let message = Some(message.to_owned());
        Self { error: Some(error), message, ..Self::of(Outcome::Failed) }
    }
}

#[cfg(test)]
mod tests;
