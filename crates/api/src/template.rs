//! Templates.

use belljar_model::Tier;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sandbox::Limits;

/// What sandboxes are made from.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Template {
    pub name: String,
    pub version: String,
    /// Languages that contexts can have.
    pub languages: Vec<String>,
    pub limits: Limits,
    /// Whether an interpreter of it can wait warm.
    pub warm: bool,
    /// What its sandboxes are kept in unless they say otherwise; left out: what the
    /// server says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::sandbox::tiers")]
    pub tier: Option<Tier>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TemplateList {
    pub items: Vec<Template>,
}
