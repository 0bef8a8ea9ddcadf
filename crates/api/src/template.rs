//! Templates.

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
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TemplateList {
    pub items: Vec<Template>,
}
