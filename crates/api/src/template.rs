//! Templates.

use belljar_domain::Tier;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::sandbox::{Limits, MaxLimits};

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
    /// The largest limits that a request may choose. On a platform, the largest of all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_limits: Option<MaxLimits>,
    /// Isolation tiers that a request may name. A host may lack what one of them takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "tier_list")]
    pub tiers: Option<Vec<Tier>>,
    /// Gateway operations that a request with this key may name. On a platform, those of the node
    /// that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<Vec<String>>,
    /// The most network access that a request may ask for: `none`, `packages`, `allow` or `open`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_network: Option<String>,
}

fn tier_list(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": crate::sandbox::tiers(generator) })
}
