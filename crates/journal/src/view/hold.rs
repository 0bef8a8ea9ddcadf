//! Points at which a run waits by itself: at breakpoints, after a step, and for a human's answer.

use super::RunView;
use crate::event::{Breakpoints, CallRef, PausePoint, Resumed};

/// A question that waits for a human.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HumanQuestion {
    pub call: CallRef,
    pub text: String,
}

/// A human's answer that the model has not been told yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HumanReply {
    pub call: CallRef,
    pub text: String,
}

impl RunView {
    /// Returns true if the run pauses before it asks the model for this turn.
    pub fn breaks_before_turn(&self, turn: u32) -> bool {
        let is_stepped = self.until.is_some_and(|until| turn > until);
        let is_passed = self.passed == Some(PausePoint::Turn { turn });
        (self.breakpoints.turns || is_stepped) && !is_passed
    }

    /// Returns true if the run pauses before this call.
    pub fn breaks_before_call(&self, call: &CallRef) -> bool {
        let is_passed = self.passed == Some(PausePoint::Call { call: call.clone() });
        self.breakpoints.calls && !is_passed
    }

    /// The last turn of a step that begins now: the turn whose calls are unfinished, or else the
    /// next one.
    pub fn step_end(&self) -> u32 {
        if self.unfinished().is_some() { self.turns } else { self.turns + 1 }
    }

    pub(super) fn hold(&mut self, at: Option<&PausePoint>) {
        if let Some(PausePoint::Question { call, text }) = at {
            self.question = Some(HumanQuestion { call: call.clone(), text: text.clone() });
            return;
        }
        self.until = None;
        if let Some(point) = at {
            self.passed = Some(point.clone());
        }
    }

    pub(super) fn go_on(&mut self, resumed: &Resumed) {
        self.until = resumed.until;
        if let (Some(question), Some(text)) = (&self.question, &resumed.reply) {
            self.reply = Some(HumanReply { call: question.call.clone(), text: text.clone() });
            self.question = None;
        }
    }

    pub(super) fn close_question(&mut self, call: &CallRef) {
        self.question.take_if(|question| question.call == *call);
        self.reply.take_if(|reply| reply.call == *call);
    }

    /// Forgets all of it: a fork waits for nothing.
    pub(super) fn clear_holds(&mut self) {
        self.breakpoints = Breakpoints::default();
        self.passed = None;
        self.until = None;
        self.question = None;
        self.reply = None;
    }
}
