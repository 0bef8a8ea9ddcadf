//! Checkpoints: moments of sandboxes, kept to make others from.

use belljar_model::Tier;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{DateTime, Name, PageSize, Pairs, Seconds, pairs};
use crate::sandbox::Keep;

#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateCheckpoint {
    /// A name to find it by; several may bear the same.
    #[serde(default)]
    pub name: Option<Name>,
    #[serde(default)]
    pub keep: Keep,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListCheckpoints {
    /// Only those of this sandbox.
    #[serde(default)]
    pub sandbox: Option<String>,
    /// Only those of this name.
    #[serde(default)]
    pub name: Option<String>,
    /// At most as many; 100 if nothing is said.
    #[serde(default)]
    pub limit: Option<PageSize>,
    /// The `next` of the page before.
    #[serde(default)]
    pub after: Option<String>,
}

/// A sandbox made from a checkpoint.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkCheckpoint {
    /// How long it lives; five minutes if nothing is said.
    #[serde(default)]
    pub timeout_seconds: Option<Seconds>,
    #[serde(default)]
    #[schemars(schema_with = "pairs")]
    pub metadata: Pairs,
    /// Environment of every call that is made in it.
    #[serde(default)]
    #[schemars(schema_with = "pairs")]
    pub env: Pairs,
}

/// A moment of a sandbox that was kept.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoint {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Of which sandbox.
    pub sandbox: String,
    pub taken_at: DateTime,
    /// What that sandbox was kept in; what is made from this is kept in the same.
    #[schemars(schema_with = "crate::sandbox::tiers")]
    pub tier: Tier,
}

/// One page of checkpoints, the newest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointPage {
    pub items: Vec<Checkpoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
