//! Tokens for operations of the gateway.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::OperationName;
use crate::approval::{ApprovalPolicy, ApprovalSeconds};
use crate::bounds::{DateTime, Number, Text};

/// A token to create. It works only inside its sandbox. It expires when the sandbox ends or
/// is paused.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// Operations that it may use. Default: all operations of the sandbox.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub operations: Vec<OperationName>,
    /// Lifetime in seconds. Default: 300.
    #[serde(default)]
    pub seconds: Option<Number<1, 600>>,
    /// Also lets the valid tokens of the sandbox live for this many seconds from now. The caller
    /// must be allowed all operations of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_seconds: Option<Number<1, 600>>,
    /// Name of the agent, for the log.
    #[serde(default)]
    pub agent: Option<Text<1, 64>>,
    /// Budget of the token.
    #[serde(default)]
    pub budget: Option<Budget>,
    /// Tool calls in answers of models that wait until a human has decided. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals: Option<ApprovalPolicy>,
    /// Seconds until a tool call without a decision is denied. Default: 3600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_seconds: Option<ApprovalSeconds>,
}

/// Budget of one token, in total. An absent field is not bounded.
#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    #[serde(default)]
    pub requests: Option<Number<0, 9_007_199_254_740_991>>,
    /// Model tokens of all kinds.
    #[serde(default)]
    pub tokens: Option<Number<0, 9_007_199_254_740_991>>,
    /// Cost, in billionths of a dollar.
    #[serde(default)]
    pub nano_dollars: Option<Number<0, 9_007_199_254_740_991>>,
    #[serde(default)]
    pub requests_per_minute: Option<Number<0, 4_294_967_295>>,
}

/// A new token. It is shown only once.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    pub token: String,
    pub expires_at: DateTime,
    /// Base URL of the gateway inside the sandbox.
    pub base_url: String,
    /// Path of each operation below `base_url`.
    pub paths: BTreeMap<String, String>,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}
