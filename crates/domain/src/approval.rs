//! Approvals: requests that wait until a human has decided.
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
    /// Empty for tool calls.
    pub repository: String,
    /// A line for each change, as code asks for it.
    pub changes: Vec<String>,
    /// Time until it is refused.
    pub seconds: u64,
    /// The tool call, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolCall>,
}

/// The action that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAction {
    Push,
    MergeRequest,
    ToolCall,
}

impl ApprovalAction {
    /// As metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::MergeRequest => "merge_request",
            Self::ToolCall => "tool_call",
        }
    }
}

/// The end of a request that waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApprovalResult {
    Approved,
    Denied,
    /// Its time was over.
    Expired,
    /// Its client left, or its run ended.
    Withdrawn,
    /// Too many waited already.
    Refused,
}

impl ApprovalResult {
    /// As metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
            Self::Refused => "refused",
        }
    }
}

/// Requests of one tenant that wait at the same time.
pub const MAX_PENDING_APPROVALS: usize = 256;
/// Bytes of a call's input that are shown.
pub const MAX_SHOWN_INPUT: usize = 16 << 10;
/// Time for a decision about a tool call, where the run names none.
pub const APPROVAL_SECONDS: u64 = 3600;
pub const MAX_APPROVAL_SECONDS: u64 = 86_400;
/// Tools that one policy can name, and the bytes of a name.
pub const MAX_APPROVED_TOOLS: usize = 64;
pub const MAX_TOOL_NAME: usize = 128;

/// A tool call that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    pub tool: String,
    /// The id that the model gave it. The run's events have the whole call under it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Its beginning, if it is longer than [`MAX_SHOWN_INPUT`].
    pub input: String,
    /// Of the whole input.
    pub bytes: u64,
    /// SHA-256 of the whole input, in hexadecimal digits.
    pub sha256: String,
}

impl ToolCall {
    /// Shortens what is shown. `sha256` is that of the whole input.
    pub fn new(tool: &str, call: Option<&str>, input: &str, sha256: String) -> Self {
        Self {
            tool: beginning(tool, MAX_TOOL_NAME).to_owned(),
            call: call.map(|call| beginning(call, MAX_TOOL_NAME).to_owned()),
            input: beginning(input, MAX_SHOWN_INPUT).to_owned(),
            bytes: input.len() as u64,
            sha256,
        }
    }
}

/// At most so many bytes of a text.
fn beginning(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

/// The tool calls of a run that wait for a human.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalPolicy {
    #[default]
    Never,
    Always,
    /// Calls of these tools.
    Tools(Vec<String>),
}

/// A policy, and the time for a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolApprovals {
    pub policy: ApprovalPolicy,
    #[serde(default = "usual_seconds")]
    pub seconds: u64,
}

fn usual_seconds() -> u64 {
    APPROVAL_SECONDS
}

impl Default for ToolApprovals {
    fn default() -> Self {
        Self { policy: ApprovalPolicy::Never, seconds: APPROVAL_SECONDS }
    }
}

impl ToolApprovals {
    /// Returns true if no call waits.
    pub fn is_never(&self) -> bool {
        match &self.policy {
            ApprovalPolicy::Never => true,
            ApprovalPolicy::Always => false,
            ApprovalPolicy::Tools(tools) => tools.is_empty(),
        }
    }

    /// Returns true if a call of this tool waits. A call without a name may be one of any tool.
    pub fn names(&self, tool: &str) -> bool {
        match &self.policy {
            ApprovalPolicy::Never => false,
            ApprovalPolicy::Always => true,
            ApprovalPolicy::Tools(tools) => {
                tools.iter().any(|named| tool.is_empty() || named == tool)
            }
        }
    }
}

/// A text that is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected `never`, `always`, or up to {MAX_APPROVED_TOOLS} names of tools with commas")]
pub struct InvalidApprovalPolicy;

/// As a command line has it: `never`, `always`, or names with commas between them.
impl std::str::FromStr for ApprovalPolicy {
    type Err = InvalidApprovalPolicy;

    fn from_str(text: &str) -> Result<Self, InvalidApprovalPolicy> {
        match text {
            "never" => return Ok(Self::Never),
            "always" => return Ok(Self::Always),
            _ => {}
        }
        let tools: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        let is_name = |name: &String| !name.is_empty() && name.len() <= MAX_TOOL_NAME;
        if tools.len() > MAX_APPROVED_TOOLS || !tools.iter().all(is_name) {
            return Err(InvalidApprovalPolicy);
        }
        Ok(Self::Tools(tools))
    }
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalAnswer {
    pub is_approved: bool,
    /// A sentence for the code that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_from_a_line_and_name_tools() {
        let named = |text: &str, tool: &str| {
            let policy = text.parse().unwrap();
            ToolApprovals { policy, ..ToolApprovals::default() }.names(tool)
        };
        assert!(!named("never", "shell") && named("always", "shell"));
        assert!(named("shell, Bash", "Bash") && !named("shell, Bash", "bash"));
        assert!(named("always", "") && named("shell", "") && !named("never", ""));
        for wrong in ["", ",", "shell,", &"a,".repeat(65)] {
            assert_eq!(wrong.parse::<ApprovalPolicy>(), Err(InvalidApprovalPolicy), "{wrong:?}");
        }
        let none = ApprovalPolicy::Tools(Vec::new());
        assert!(ToolApprovals { policy: none, ..ToolApprovals::default() }.is_never());
    }

    #[test]
    fn policies_have_a_plain_form() {
        let tools = ApprovalPolicy::Tools(vec!["shell".to_owned()]);
        for (policy, text) in [
            (ApprovalPolicy::Never, r#""never""#),
            (ApprovalPolicy::Always, r#""always""#),
            (tools, r#"{"tools":["shell"]}"#),
        ] {
            assert_eq!(serde_json::to_string(&policy).unwrap(), text);
            assert_eq!(serde_json::from_str::<ApprovalPolicy>(text).unwrap(), policy);
        }
    }

    #[test]
    fn long_inputs_are_shown_in_part() {
        let input = "é".repeat(MAX_SHOWN_INPUT);
        let call = ToolCall::new("Write", Some("toolu_1"), &input, "00".to_owned());
        assert_eq!((call.input.len(), call.bytes), (MAX_SHOWN_INPUT, input.len() as u64));
        let odd = format!("a{input}");
        assert_eq!(
            ToolCall::new("Write", None, &odd, String::new()).input.len(),
            MAX_SHOWN_INPUT - 1
        );
    }
}
