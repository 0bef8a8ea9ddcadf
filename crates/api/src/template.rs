//! Templates.

use belljar_model::Tier;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sandbox::Limits;

/// A base for sandboxes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Template {
    pub name: String,
    pub version: String,
    /// Languages of its contexts.
    pub languages: Vec<String>,
    pub limits: Limits,
    /// True if the template has a warm interpreter.
    pub warm: bool,
    /// Default tier of its sandboxes. Absent if the server's default applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::sandbox::tiers")]
    pub tier: Option<Tier>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TemplateList {
    pub items: Vec<Template>,
}
