//! Approvals: requests of code and tool calls that wait until a human has decided.

use belljar_domain::approval as model;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{DateTime, Number, OutOfBounds, Text};

/// Time until a tool call without a decision is denied.
pub type ApprovalSeconds = Number<1, { model::MAX_APPROVAL_SECONDS }>;

/// A request of code that the gateway holds, or a tool call of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    pub id: String,
    /// Empty for a run that has no sandbox yet.
    pub sandbox: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// Name of the gateway operation. Empty for the tool calls of a run that the server works on.
    pub operation: String,
    pub action: ApprovalAction,
    /// Empty for tool calls.
    pub repository: String,
    /// One line for each change, as the code asks for it.
    pub changes: Vec<String>,
    pub asked_at: DateTime,
    /// From then on, the request is refused.
    pub expires_at: DateTime,
    /// The tool call that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ApprovalToolCall>,
}

/// The action that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAction {
    Push,
    MergeRequest,
    ToolCall,
}

/// A tool call that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalToolCall {
    pub tool: String,
    /// The id that the model gave it. The run's events have the whole input under it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// As the model wrote it; the first 16 KiB of a longer input, or less where many wait.
    pub input: String,
    /// Size of the whole input.
    pub bytes: u64,
    /// SHA-256 of the whole input, in hexadecimal digits.
    pub sha256: String,
}

/// The tool calls that wait: `never`, `always`, or calls of the named tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalPolicy {
    Never,
    Always,
    /// Calls of these tools wait.
    Tools(#[schemars(length(max = 64))] Vec<ToolName>),
}

/// Name of a tool, as the model calls it.
pub type ToolName = Text<1, { model::MAX_TOOL_NAME }>;

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
            model::ApprovalAction::ToolCall => Self::ToolCall,
        }
    }
}

impl From<model::ToolCall> for ApprovalToolCall {
    fn from(call: model::ToolCall) -> Self {
        let model::ToolCall { tool, call, input, bytes, sha256 } = call;
        Self { tool, call, input, bytes, sha256 }
    }
}

impl TryFrom<ApprovalPolicy> for model::ApprovalPolicy {
    type Error = model::InvalidApprovalPolicy;

    fn try_from(policy: ApprovalPolicy) -> Result<Self, Self::Error> {
        match policy {
            ApprovalPolicy::Never => Ok(Self::Never),
            ApprovalPolicy::Always => Ok(Self::Always),
            ApprovalPolicy::Tools(tools) if tools.len() > model::MAX_APPROVED_TOOLS => {
                Err(model::InvalidApprovalPolicy)
            }
            ApprovalPolicy::Tools(tools) => {
                Ok(Self::Tools(tools.into_iter().map(String::from).collect()))
            }
        }
    }
}

impl TryFrom<model::ApprovalPolicy> for ApprovalPolicy {
    type Error = OutOfBounds;

    fn try_from(policy: model::ApprovalPolicy) -> Result<Self, OutOfBounds> {
        Ok(match policy {
            model::ApprovalPolicy::Never => Self::Never,
            model::ApprovalPolicy::Always => Self::Always,
            model::ApprovalPolicy::Tools(tools) => {
                let tools: Result<_, _> = tools.into_iter().map(ToolName::try_from).collect();
                Self::Tools(tools?)
            }
        })
    }
}

/// The tool calls that wait, as a request says it; none: no call waits.
pub fn tool_approvals(
    policy: Option<ApprovalPolicy>,
    seconds: Option<ApprovalSeconds>,
) -> Result<Option<model::ToolApprovals>, model::InvalidApprovalPolicy> {
    let Some(policy) = policy else { return Ok(None) };
    let seconds = seconds.map_or(model::APPROVAL_SECONDS, ApprovalSeconds::get);
    let approvals = model::ToolApprovals { policy: policy.try_into()?, seconds };
    Ok((!approvals.is_never()).then_some(approvals))
}

impl ApprovalAction {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::MergeRequest => "merge request",
            Self::ToolCall => "tool call",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_a_bound() {
        let names = |count: usize| -> Vec<ToolName> {
            (0..count).map(|n| format!("t{n}").try_into().unwrap()).collect()
        };
        let read = |policy| tool_approvals(Some(policy), None);
        assert_eq!(read(ApprovalPolicy::Never), Ok(None));
        assert_eq!(read(ApprovalPolicy::Tools(Vec::new())), Ok(None));
        let most = read(ApprovalPolicy::Tools(names(64))).unwrap().unwrap();
        assert!(most.names("t63") && most.seconds == model::APPROVAL_SECONDS);
        let more = read(ApprovalPolicy::Tools(names(65)));
        assert_eq!(more, Err(model::InvalidApprovalPolicy));
        let text = serde_json::json!({ "tools": ["shell"] });
        let policy: ApprovalPolicy = serde_json::from_value(text).unwrap();
        assert!(read(policy).unwrap().unwrap().names("shell"));
    }
}
