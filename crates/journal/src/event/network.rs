//! The network access of a run, and what its calls did with it.

use belljar_domain::network::{Bytes, Policy};
use serde::{Deserialize, Serialize};

use crate::event::CallRef;

/// The network access of a run's sandboxes: hosts, and operations of the gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkAccess {
    /// Without the package indexes, which each sandbox finds in its template.
    #[serde(skip_serializing_if = "is_default")]
    pub policy: Policy,
    /// Also the indexes of the template's package managers.
    #[serde(skip_serializing_if = "is_default")]
    pub packages: bool,
    /// The operations that the tokens of the run are for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl NetworkAccess {
    /// Returns true if nothing is chosen.
    pub fn is_default(&self) -> bool {
        is_default(self)
    }

    /// Returns true if code of the run can reach anything by the gateway.
    pub fn is_connected(&self) -> bool {
        !self.policy.is_none() || self.packages || !self.operations.is_empty()
    }
}

/// The connections of a call. Each is a row of the sandbox's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkUsed {
    pub call: CallRef,
    pub connections: u64,
    pub refused: u64,
    pub bytes: Bytes,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Refusals of the gateway, equal ones together. Older logs have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<NetworkRefusal>,
    /// Requests that a human approved.
    #[serde(default, skip_serializing_if = "is_default")]
    pub approved: u64,
    /// The last row of the sandbox's log that is counted here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<u64>,
}

/// Requests of a call that the gateway refused for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkRefusal {
    /// A word of `docs/network.md#reasons`.
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::event::{Body, Event, RunCreated};

    fn created(wish: &serde_json::Value) -> RunCreated {
        let digest = "0".repeat(64);
        serde_json::from_value(json!({
            "question": "why?", "model": "m", "budget": {}, "now": "2026-01-02T03:04:05Z",
            "prompt": { "name": "p", "version": "1", "sha256": digest }, "wish": wish,
        }))
        .unwrap()
    }

    /// A worker that does not know the network access of a run leaves the run alone: its prompt
    /// promises what that worker's sandboxes would not have.
    #[test]
    fn runs_with_a_network_are_for_workers_that_know_it() {
        let version = |wish| Body::from(created(&wish)).version();
        assert_eq!(version(json!({ "template": "t" })), 1);
        let access = json!({ "operations": ["search"] });
        assert_eq!(version(json!({ "template": "t", "network": access })), 3);
        let wish = created(&json!({ "template": "t", "network": access })).wish.unwrap();
        assert_eq!(wish.network.operations, ["search"]);
        assert!(wish.network.is_connected() && wish.network.policy.is_none());
        assert_eq!(serde_json::to_value(&*wish.network).unwrap(), access);
        assert!(created(&json!({ "template": "t" })).wish.unwrap().network.is_default());
    }

    #[test]
    fn older_logs_have_no_refusals() {
        let old = json!({
            "seq": 7, "at": "2026-01-02T03:04:05Z", "kind": "network_used", "v": 1,
            "call": { "turn": 1, "id": "c" }, "connections": 2, "refused": 1,
            "bytes": { "out": 3, "in": 4 },
        });
        let read: Event = serde_json::from_value(old.clone()).unwrap();
        let Body::NetworkUsed(used) = &read.body else { panic!("{read:?}") };
        assert!(used.refusals.is_empty() && used.through.is_none());
        assert_eq!(serde_json::to_value(&read).unwrap(), old);
    }
}
