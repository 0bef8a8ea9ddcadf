//! Approvals: requests that the gateway holds until a human has decided.
//!
//! ```text
//!   code ──request──► gateway ──asks──► node ◄──lists, decides── a human, over the API
//!                        │                │
//!                        └◄───decision────┘   without one in time: refused
//! ```

use serde::{Deserialize, Serialize};

use crate::network::Subject;

/// A request that waits for a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// The code that asks.
    pub subject: Subject,
    /// The operation of the gateway.
    pub operation: String,
    pub action: ApprovalAction,
    pub repository: String,
    /// A line for each change, as code asks for it.
    pub changes: Vec<String>,
    /// Time until it is refused.
    pub seconds: u64,
}

/// The action that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAction {
    Push,
    MergeRequest,
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalAnswer {
    pub is_approved: bool,
    /// A sentence for the code that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
