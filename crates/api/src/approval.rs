//! Approvals: requests of code that wait until a human has decided.

use belljar_model::approval as model;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{DateTime, Text};

/// A request of code that the gateway holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    pub id: String,
    pub sandbox: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// Name of the gateway operation.
    pub operation: String,
    pub action: ApprovalAction,
    pub repository: String,
    /// One line for each change, as the code asks for it.
    pub changes: Vec<String>,
    pub asked_at: DateTime,
    /// From then on, the request is refused.
    pub expires_at: DateTime,
}

/// The action that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAction {
    Push,
    MergeRequest,
}

/// The requests that wait, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalList {
    pub items: Vec<Approval>,
}

/// A decision about a request.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecideApproval {
    pub decision: ApprovalDecision,
    /// A sentence for the code whose request is denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Text<1, 500>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    Approve,
    Deny,
}

impl From<model::ApprovalAction> for ApprovalAction {
    fn from(action: model::ApprovalAction) -> Self {
        match action {
            model::ApprovalAction::Push => Self::Push,
            model::ApprovalAction::MergeRequest => Self::MergeRequest,
        }
    }
}

impl ApprovalAction {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::MergeRequest => "merge request",
        }
    }
}
