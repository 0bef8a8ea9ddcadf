//! Messages of a node to control, and the answers.
//!
//! Both go over HTTP and mutual TLS: a bus that may lose messages must not decide
//! whether a node lives. Which node speaks is in its certificate; what a message says
//! about that is compared with it.

use belljar_domain::budget::BudgetRequest;
use belljar_domain::rows::AttributedRow;
use belljar_domain::{EndReason, MaxLimits, NodeNumber, SandboxId, StoredBytes, Tier};
use serde::{Deserialize, Serialize};

use crate::enrolment::Trust;

pub const REGISTER: &str = "/internal/nodes/register";
pub const SYNC: &str = "/internal/nodes/sync";
pub const ROWS: &str = "/internal/nodes/rows";
pub const BUDGETS: &str = "/internal/nodes/budgets";
pub const STORED: &str = "/internal/nodes/stored";

/// The newest kind of message or field between nodes and control that this version knows. It grows
/// with each kind; an older version reads the rest, and refuses paths that it does not know.
pub const PROTOCOL: u32 = 1;

/// A node comes, or comes again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    pub name: String,
    /// Where control reaches it.
    pub address: String,
    pub tiers: Vec<Tier>,
    pub slots: u32,
    /// The largest limits that a client may choose there. `None`: an older version, which takes
    /// no request that chooses any.
    #[serde(default)]
    pub max_limits: Option<MaxLimits>,
    /// What it still has of an earlier life.
    pub has: Vec<SandboxId>,
    /// The node's [`PROTOCOL`]; 0: a version that did not tell.
    #[serde(default)]
    pub protocol: u32,
}

/// Who it is from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    pub number: NodeNumber,
    pub epoch: u64,
    pub lease_ms: u64,
    /// Of what it has, what must not be there any more.
    pub end: Vec<SandboxId>,
    /// The authorities to trust from now on.
    pub trust: Trust,
    /// Control's clock, in milliseconds since 1970.
    pub now: u64,
    /// Control's [`PROTOCOL`]; 0: a version that did not tell.
    #[serde(default)]
    pub protocol: u32,
}

impl Registered {
    /// Returns true if the node is newer than control: it was upgraded first, and control refuses
    /// what it does not know.
    pub fn is_older(&self) -> bool {
        self.protocol < PROTOCOL
    }
}

/// What is on a node. All of it, or what changed since the last that was heard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sync {
    pub number: NodeNumber,
    pub epoch: u64,
    /// Whether `has` is all that there is.
    pub is_whole: bool,
    pub has: Vec<Has>,
    /// What ended, until it is acknowledged.
    pub ended: Vec<Gone>,
    pub load: Load,
    /// Counts what this node has said under this epoch: what comes late is not
    /// believed over what was said after it.
    pub sequence: u64,
    /// The [`Trust::version`] that the node has.
    pub trust: String,
}

/// A sandbox that is on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Has {
    pub id: SandboxId,
    /// What it is kept in.
    pub tier: Tier,
    pub is_paused: bool,
    /// In how many milliseconds it ends, unless somebody extends it.
    pub left_ms: u64,
    /// For how many it has run so far; what it is paused does not count.
    #[serde(default)]
    pub ran_ms: u64,
}

/// A sandbox that is on a node no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gone {
    pub id: SandboxId,
    pub reason: EndReason,
    /// For how many milliseconds it ran, in all.
    #[serde(default)]
    pub ran_ms: u64,
}

/// Rows of calls and connections that are to outlive the node. Sent again until they are stored:
/// each is stored once. Apart from [`Sync`], so that no lease waits for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendRows {
    pub number: NodeNumber,
    pub rows: Vec<AttributedRow>,
}

/// Control has stored them, or has decided that it never will.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsStored {
    /// The number that was not there before.
    pub new: u64,
}

/// A node's gateway leases slices of budgets, or returns them. The answer is a
/// [`BudgetAnswer`](belljar_domain::budget::BudgetAnswer).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskBudget {
    pub number: NodeNumber,
    pub request: BudgetRequest,
}

/// All bytes that a node keeps for tenants at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendStored {
    pub number: NodeNumber,
    pub stored: Vec<StoredBytes>,
}

/// Control has taken them over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTaken {
    /// The number that is believed.
    pub taken: u64,
}

/// How much there is to do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    pub free: u32,
    pub is_draining: bool,
    /// Its templates are not warm yet: sandboxes had better be made elsewhere.
    #[serde(default)]
    pub is_warming: bool,
    pub tiers: Vec<Tier>,
    /// Templates that it can start at once.
    pub warm: Vec<String>,
    /// As in [`Register`].
    #[serde(default)]
    pub max_limits: Option<MaxLimits>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Synced {
    Renewed {
        lease_ms: u64,
        /// What must not be there: it ended, or never was.
        end: Vec<SandboxId>,
        /// Take nothing new from now on.
        drain: bool,
        /// The authorities to trust, if they are not those that the node has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trust: Option<Trust>,
        now: u64,
    },
    /// This node was given up, or its identity was revoked or replaced.
    Stale { now: u64 },
    /// Nobody can say: the database is away.
    Away { now: u64 },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requirements: P2
    #[test]
    fn nodes_and_control_of_different_versions_understand_each_other() {
        // As versions write it that know no protocol.
        let registered = serde_json::json!({
            "number": 1, "epoch": 2, "lease_ms": 3, "end": [], "trust": Trust::default(), "now": 4
        });
        let registered: Registered = serde_json::from_value(registered).unwrap();
        assert_eq!(registered.protocol, 0);
        assert!(registered.is_older());
        assert!(!Registered { protocol: PROTOCOL, ..registered.clone() }.is_older());
        assert!(!Registered { protocol: PROTOCOL + 1, ..registered }.is_older());
        let register = serde_json::json!({
            "name": "n", "address": "https://10.0.0.1:1", "tiers": [], "slots": 1, "has": [],
            "of_a_newer_version": true
        });
        let register: Register = serde_json::from_value(register).unwrap();
        assert_eq!((register.protocol, register.max_limits), (0, None));
    }
}
