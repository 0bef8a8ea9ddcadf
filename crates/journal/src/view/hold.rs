//! Points at which a run waits by itself: at breakpoints, after a step, and for a human's answer or
//! approval.

use std::time::Duration;

use belljar_domain::approval::ToolCall;
use time::OffsetDateTime;

use super::RunView;
use crate::event::{Breakpoints, CallRef, PausePoint, Request, Resumed};

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

/// A tool call that waits for an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallApproval {
    pub call: CallRef,
    pub tool: ToolCall,
    pub asked_at: OffsetDateTime,
    /// From then on, the call is denied.
    pub until: OffsetDateTime,
    /// Since when the run waits; none: it went on without a decision.
    since: Option<OffsetDateTime>,
}

impl RunView {
    /// The tool call that waits for a human. None: there is no such call, or a decision came that
    /// the worker has not acted on.
    pub fn undecided(&self) -> Option<&CallApproval> {
        let is_decision = |request: &Request| matches!(request, Request::Decide { .. });
        let is_decided = self.pending.iter().any(|pending| is_decision(&pending.asked.request));
        self.approval.as_ref().filter(|_| !is_decided && self.finished.is_none())
    }

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

    pub(super) fn hold(&mut self, at: Option<&PausePoint>, now: OffsetDateTime) {
        if let Some(PausePoint::Approval { call, tool, until }) = at {
            let before = self.approval.take_if(|approval| approval.call == *call);
            self.approval = Some(CallApproval {
                call: call.clone(),
                tool: tool.clone(),
                asked_at: before.map_or(now, |before| before.asked_at),
                until: *until,
                since: Some(now),
            });
            return;
        }
        if let Some(PausePoint::Question { call, text }) = at {
            self.question = Some(HumanQuestion { call: call.clone(), text: text.clone() });
            return;
        }
        self.until = None;
        if let Some(point) = at {
            self.passed = Some(point.clone());
        }
    }

    pub(super) fn go_on(&mut self, resumed: &Resumed, now: OffsetDateTime) {
        self.until = resumed.until;
        if let Some(since) = self.approval.as_mut().and_then(|approval| approval.since.take()) {
            self.waited += Duration::try_from(now - since).unwrap_or_default();
        }
        if let Some(decision) = &resumed.decision {
            let decided = self.approval.take_if(|approval| approval.call == decision.call);
            if decided.is_some() {
                self.decision = Some(decision.clone());
            }
        }
        if let (Some(question), Some(text)) = (&self.question, &resumed.reply) {
            self.reply = Some(HumanReply { call: question.call.clone(), text: text.clone() });
            self.question = None;
        }
    }

    pub(super) fn close_question(&mut self, call: &CallRef) {
        self.question.take_if(|question| question.call == *call);
        self.reply.take_if(|reply| reply.call == *call);
        self.approval.take_if(|approval| approval.call == *call);
        self.decision.take_if(|decision| decision.call == *call);
    }

    /// Forgets all of it: a fork waits for nothing.
    pub(super) fn clear_holds(&mut self) {
        self.breakpoints = Breakpoints::default();
        self.passed = None;
        self.until = None;
        self.question = None;
        self.reply = None;
        self.approval = None;
        self.decision = None;
    }
}
