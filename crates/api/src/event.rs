//! What happens to sandboxes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::DateTime;

/// An event of a sandbox, sent as a server-sent event. The event's name is its `kind`; its id
/// counts up. Events are not stored: a client that connects later does not get earlier ones.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    pub id: u64,
    pub at: DateTime,
    pub sandbox: String,
    /// For example `created`, `paused`, `resumed` or `ended`. New kinds may be added.
    pub kind: String,
    /// Detail of the event, such as an end reason, a process id or a checkpoint's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
