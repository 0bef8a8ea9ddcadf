//! What happens to sandboxes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::DateTime;

/// One thing that happened, as a server-sent event; its name is its `kind`, its
/// id counts up. Nothing is kept: whoever was not there has missed it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    pub id: u64,
    pub at: DateTime,
    pub sandbox: String,
    /// For example `created`, `paused`, `resumed`, `ended`; more may come.
    pub kind: String,
    /// What is worth knowing of it: an end reason, a pid, a checkpoint's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
