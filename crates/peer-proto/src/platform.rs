//! What goes over NATS, and under which names.
//!
//! None of it must arrive: a heartbeat is followed by the next, whoever misses an
//! event can ask, and what is in the outbox stays in the database until the stream
//! has it. So a reader skips what it cannot read.

use belljar_domain::{NodeNumber, SandboxId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::encoded::Encoded;
use crate::member::Load;

/// Heartbeats of all nodes.
pub const BEATS: &str = "belljar.beats";
/// Live events; each tenant's are below, under a name made of the tenant's.
pub const TOLD: &str = "belljar.told";
/// The outbox; each message is below, under the subject that its row bears.
pub const OUTBOX: &str = "belljar.outbox";
/// The stream that keeps the outbox for whoever reads it later.
pub const STREAM: &str = "belljar-outbox";

/// A node says how it is. Only a hint for placing sandboxes: what keeps a node
/// alive is its lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    pub number: NodeNumber,
    pub epoch: u64,
    pub load: Load,
    /// Sandboxes that were ready in a pool when asked for, since the node began.
    pub hits: u64,
    /// Those that had to be made.
    pub misses: u64,
    /// On the platform's clock, in milliseconds since 1970.
    pub at: u64,
}

/// A [`Beat`] as it goes over NATS, where every node could speak for every other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedBeat {
    pub number: NodeNumber,
    /// The beat, as JSON: what is signed is what is read.
    pub beat: String,
    /// By the key that the node enrolled.
    pub signature: Encoded,
}

/// Something happened to a sandbox, for whoever of its tenant listens just now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    pub tenant: String,
    pub sandbox: SandboxId,
    /// In one word, such as `created` or `ended`.
    pub kind: String,
    #[serde(default)]
    pub detail: Value,
    /// Microseconds since 1970.
    pub at: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_beat_of_a_newer_node_is_read() {
        let said = json!({
            "number": 7, "epoch": 3, "hits": 1, "misses": 2, "at": 4, "mood": "fine",
            "load": { "free": 5, "is_draining": false, "tiers": ["jail"], "warm": ["base"] },
        });
        let beat: Beat = serde_json::from_value(said).unwrap();
        assert_eq!((beat.number.get(), beat.epoch, beat.load.free), (7, 3, 5));
    }
}
