//! Checkpoints: moments of sandboxes, kept to make others from.

use belljar_domain::Tier;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{DateTime, Name, PageSize, Pairs, Seconds, pairs};
use crate::sandbox::Keep;

#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateCheckpoint {
    /// Name of the checkpoint. Several checkpoints can share a name.
    #[serde(default)]
    pub name: Option<Name>,
    #[serde(default)]
    pub keep: Keep,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListCheckpoints {
    /// Only checkpoints of this sandbox.
    #[serde(default)]
    pub sandbox: Option<String>,
    /// Only checkpoints with this name.
    #[serde(default)]
    pub name: Option<String>,
    /// Maximum number of entries. Default: 100.
    #[serde(default)]
    pub limit: Option<PageSize>,
    /// `next` of the previous page.
    #[serde(default)]
    pub after: Option<String>,
}

/// A sandbox to create from a checkpoint.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkCheckpoint {
    /// Seconds until the sandbox's deadline. Default: 300.
    #[serde(default)]
    pub timeout_seconds: Option<Seconds>,
    #[serde(default)]
    #[schemars(schema_with = "pairs")]
    pub metadata: Pairs,
    /// Environment variables of every call in it.
    #[serde(default)]
    #[schemars(schema_with = "pairs")]
    pub env: Pairs,
}

/// A checkpoint of a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoint {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Sandbox that the checkpoint was made from.
    pub sandbox: String,
    pub taken_at: DateTime,
    /// Tier of that sandbox. Sandboxes made from the checkpoint have the same tier.
    #[schemars(schema_with = "crate::sandbox::tiers")]
    pub tier: Tier,
}

/// A page of checkpoints, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointPage {
    pub items: Vec<Checkpoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
