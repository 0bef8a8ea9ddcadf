//! What people and programs outside want, and what became of it.
//!
//! A request is an event that anybody may add, without a lease. Whoever has the
//! lease sees it, acts, and says so with an event that names the request.

use belljar_domain::Sequence;
use belljar_domain::approval::{ApprovalResult, ToolCall};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::event::{Budget, CallRef};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlRequested {
    #[serde(flatten)]
    pub request: Request,
    /// Who asks, for the record.
    pub by: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    Pause,
    Resume,
    Cancel,
    /// Said to the model at the next turn.
    Tell {
        text: String,
    },
    Budget {
        change: BudgetPatch,
    },
    /// Goes on for one turn, then pauses again.
    Step,
    /// Holds from this event on: no worker has to act on it.
    Breakpoints {
        breakpoints: Breakpoints,
    },
    /// A human's answer to the question that the run waits for.
    Answer {
        text: String,
    },
    /// The decision about the tool call that the run waits with.
    Decide {
        decision: CallDecision,
    },
}

/// The decision about a tool call that waited for an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallDecision {
    pub call: CallRef,
    pub verdict: Verdict,
    /// A sentence of the human for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Approved,
    Denied,
    /// No human decided in time.
    Expired,
}

impl Verdict {
    pub fn result(self) -> ApprovalResult {
        match self {
            Self::Approved => ApprovalResult::Approved,
            Self::Denied => ApprovalResult::Denied,
            Self::Expired => ApprovalResult::Expired,
        }
    }
}

impl Request {
    /// The format that brought this request.
    pub(super) fn version(&self) -> u32 {
        match self {
            Self::Pause | Self::Resume | Self::Cancel | Self::Tell { .. } | Self::Budget { .. } => {
                1
            }
            Self::Step | Self::Breakpoints { .. } | Self::Answer { .. } => 3,
            Self::Decide { .. } => 5,
        }
    }

    /// Returns true if it decides whether the run goes on: of those, only the last one counts.
    pub(crate) fn is_about_pause(&self) -> bool {
        matches!(self, Self::Pause | Self::Resume | Self::Step)
    }
}

/// Points before which a run pauses by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Breakpoints {
    /// Before each request to the model.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub turns: bool,
    /// Before each tool call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub calls: bool,
}

/// The point before which a run paused by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "point", rename_all = "snake_case")]
pub enum PausePoint {
    Turn {
        turn: u32,
    },
    Call {
        call: CallRef,
    },
    /// The model asked a human, and the run waits for the answer.
    Question {
        call: CallRef,
        text: String,
    },
    /// The run's policy names the tool of a call, and the call waits for a human.
    Approval {
        call: CallRef,
        tool: ToolCall,
        /// From then on, the call is denied.
        #[serde(with = "time::serde::rfc3339")]
        until: OffsetDateTime,
    },
}

/// What of a budget changes; what is none stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BudgetPatch(pub Budget);

impl BudgetPatch {
    pub fn onto(&self, budget: &Budget) -> Budget {
        Budget {
            turns: self.0.turns.or(budget.turns),
            wall_ms: self.0.wall_ms.or(budget.wall_ms),
            tokens: self.0.tokens.or(budget.tokens),
            nano_dollars: self.0.nano_dollars.or(budget.nano_dollars),
            output_bytes: self.0.output_bytes.or(budget.output_bytes),
            cpu_ms: self.0.cpu_ms.or(budget.cpu_ms),
        }
    }
}

/// Nothing happens until somebody wants it to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// The request; none: the run stops by itself, such as for an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Sequence>,
    /// The breakpoint or the question that it stops at; none: a request did it. An event has an
    /// `at` already, which is its time.
    #[serde(default, rename = "hold", skip_serializing_if = "Option::is_none")]
    pub at: Option<PausePoint>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    pub answers: Sequence,
    /// The last turn before the run pauses again; none: it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u32>,
    /// A human's answer to the open question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    /// The decision about the call that waited for an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<CallDecision>,
}

/// It is being ended; [`Finished`](crate::event::Finished) follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancelled {
    pub answers: Sequence,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetChanged {
    pub answers: Sequence,
    /// As it is from now on.
    pub budget: Budget,
}

/// Who puts words into the conversation, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Injected {
    #[serde(rename = "turns_left_3")]
    TurnsLeft3,
    #[serde(rename = "turns_left_1")]
    TurnsLeft1,
    /// The last turn: no tools.
    Final,
    Operator,
    Guard,
    /// The sandbox was restored to an earlier state.
    Restored,
    /// The last answer could not be used.
    Repair,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InjectedMessage {
    #[serde(rename = "why")]
    pub kind: Injected,
    /// Said before this turn's request.
    pub turn: u32,
    pub text: String,
    /// The request that wanted it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Sequence>,
}
