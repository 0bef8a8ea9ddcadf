//! What to do next, decided from the log alone.
//!
//! Whoever works on a run asks this after every event, and whoever takes over asks
//! the same: there is no other way to resume. So each gap that a crash can leave
//! has its answer here, and is met in every run, not only after a crash:
//!
//! ```text
//!   llm_requested │ llm_responded      Collect: somebody has the answer, or it is lost
//!   llm_responded │ tool_intended      Intend
//!   tool_intended │ tool_started       Start: nothing was done yet
//!   tool_started  │ tool_finished      Collect from the sandbox, by the exec id
//!   cancelled     │ finished           Close
//! ```
//!
//! `tool_started` is written before the sandbox is asked, and a sandbox does what
//! it is asked under one exec id once. So a call is done exactly once, whoever asks.

use belljar_domain::{ExecId, SandboxId, Sequence};

use super::{Asked, Call, CallState, Pending, Progress, RunView};
use crate::event::Request;
use crate::journal::State;

/// So many deaths at one point, and the run is given up.
pub const CRASHES: u32 = 3;

#[derive(Debug, Clone, PartialEq)]
pub enum Next<'a> {
    /// A newer version wrote this: let go of the run.
    Leave(Sequence),
    /// It is over, or has not begun.
    Nothing,
    /// Write down that it is finished.
    Close(Ending),
    /// Do what somebody asked for, and write that down.
    Obey(&'a Pending),
    /// Let go of the run until somebody wants it to go on.
    Rest,
    /// The model was asked. Fetch its answer by the request's number; if nobody has
    /// it, write down that it is lost.
    CollectAnswer(&'a Asked),
    /// A call may have been done. Ask the sandbox what became of it; if it never
    /// heard of it and is the same one, ask it to do it, under the same exec id.
    CollectCall {
        call: &'a Call,
        exec: &'a ExecId,
        sandbox: &'a SandboxId,
    },
    Start(&'a Call),
    Intend(&'a Call),
    /// Build the prompt of this turn and ask the model, for the first time or again.
    Ask {
        turn: u32,
        attempt: u32,
    },
    /// The model called nothing: what it said is the result, or it has to be told
    /// to go on.
    Answered,
}

/// Why a run is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Cancelled,
    /// It killed everybody who worked on it.
    RuntimeCrash,
}

impl RunView {
    /// The one thing to do now.
    pub fn next(&self) -> Next<'_> {
        if let Some(seq) = self.unknown {
            return Next::Leave(seq);
        }
        match self.progress {
            Progress::Nothing | Progress::In(State::Finished) => return Next::Nothing,
            Progress::In(_) => {}
        }
        if self.is_cancelled {
            return Next::Close(Ending::Cancelled);
        }
        if self.crashes >= CRASHES {
            return Next::Close(Ending::RuntimeCrash);
        }
        if let Some(pending) = self.due() {
            return Next::Obey(pending);
        }
        if self.progress == Progress::In(State::Paused) {
            return Next::Rest;
        }
        if let Some(asked) = &self.asked {
            return Next::CollectAnswer(asked);
        }
        self.unfinished().map_or_else(|| self.turn(), step)
    }

    /// The request that comes first: a wish to end before all others, and of those
    /// that wait for the run to go on, none while it is paused.
    fn due(&self) -> Option<&Pending> {
        let is_cancel = |pending: &&Pending| pending.asked.request == Request::Cancel;
        let is_paused = self.progress == Progress::In(State::Paused);
        let is_due = |pending: &&Pending| match pending.asked.request {
            // A message belongs between turns: not between a call and its result.
            Request::Tell { .. } => {
                !is_paused && self.asked.is_none() && self.unfinished().is_none()
            }
            // Nothing of a paused run executes, so the call that executes now ends first.
            Request::Pause => !self.calls.iter().any(Call::is_started),
            Request::Resume
            | Request::Cancel
            | Request::Budget { .. }
            | Request::Step
            | Request::Breakpoints { .. }
            | Request::Answer { .. }
            | Request::Decide { .. } => true,
        };
        self.pending.iter().find(is_cancel).or_else(|| self.pending.iter().find(is_due))
    }

    /// The first call that has no result.
    pub fn unfinished(&self) -> Option<&Call> {
        self.calls.iter().find(|call| call.state != CallState::Finished)
    }

    fn turn(&self) -> Next<'_> {
        if self.is_answered {
            return Next::Answered;
        }
        Next::Ask { turn: self.turns + 1, attempt: self.attempts + 1 }
    }
}

fn step(call: &Call) -> Next<'_> {
    match &call.state {
        CallState::Wanted => Next::Intend(call),
        CallState::Intended => Next::Start(call),
        CallState::Started { exec, sandbox, .. } => Next::CollectCall { call, exec, sandbox },
        // `unfinished` shows none of these.
        CallState::Finished => Next::Nothing,
    }
}
