//! Tokens for operations of the gateway.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::OperationName;
use crate::bounds::{DateTime, Number, Text};

/// A token to be made. It works inside of its sandbox alone, and dies with it, and
/// when the sandbox is paused.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// What it is for; all operations of the sandbox if nothing is said.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub operations: Vec<OperationName>,
    /// How long it lives; 300 if nothing is said.
    #[serde(default)]
    pub seconds: Option<Number<1, 600>>,
    /// Who acts, for the log.
    #[serde(default)]
    pub agent: Option<Text<1, 64>>,
    /// What may be spent with it.
    #[serde(default)]
    pub budget: Option<Budget>,
}

/// What may be spent, in all, with one token; what is left out is not bounded by it.
#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    #[serde(default)]
    pub requests: Option<Number<0, 9_007_199_254_740_991>>,
    /// Of models, of all kinds together.
    #[serde(default)]
    pub tokens: Option<Number<0, 9_007_199_254_740_991>>,
    /// Billionths of a dollar.
    #[serde(default)]
    pub nano_dollars: Option<Number<0, 9_007_199_254_740_991>>,
    #[serde(default)]
    pub requests_per_minute: Option<Number<0, 4_294_967_295>>,
}

/// A new token, shown only now.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    pub token: String,
    pub expires_at: DateTime,
    /// Where the gateway is, inside.
    pub base_url: String,
    /// Where each operation is found below it.
    pub paths: BTreeMap<String, String>,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}
