//! What a node says to control, and hears.
//!
//! Both go over HTTP, each proven with the cluster's key: a bus that may lose
//! messages must not decide whether a node lives.

use belljar_model::{EndReason, NodeNumber, SandboxId, Tier};
use serde::{Deserialize, Serialize};

pub const REGISTER: &str = "/internal/nodes/register";
pub const SYNC: &str = "/internal/nodes/sync";

/// Control's clock, in milliseconds since 1970 and signed as an answer, beside what
/// it refuses as too old: a node whose own clock is wrong asks again by this one.
pub const CLOCK: &str = "belljar-clock";

/// What the answer to a signed message is about, for
/// [`crate::behalf::ClusterKey::sign`]: nobody can answer with what was said to
/// something else.
pub fn answer_to(message: &str) -> String {
    let proof = message.rsplit_once('.').map_or(message, |(_, proof)| proof);
    format!("answer {proof}")
}

/// A node comes, or comes again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    pub name: String,
    /// Where control reaches it.
    pub address: String,
    pub tiers: Vec<Tier>,
    pub slots: u32,
    /// What it still has of an earlier life.
    pub has: Vec<SandboxId>,
    /// When it is said, on control's clock as far as the node knows it: who heard it
    /// once must not be able to say it again.
    pub at: u64,
}

/// Who it is from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    pub number: NodeNumber,
    pub epoch: u64,
    pub lease_ms: u64,
    /// Of what it has, what must not be there any more.
    pub end: Vec<SandboxId>,
    /// Control's clock, in milliseconds since 1970.
    pub now: u64,
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
    /// When it is said, on control's clock as the node knows it.
    pub at: u64,
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

/// How much there is to do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    pub free: u32,
    pub is_draining: bool,
    pub tiers: Vec<Tier>,
    /// Templates that it can start at once.
    pub warm: Vec<String>,
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
        now: u64,
    },
    /// Somebody gave this node up.
    Stale { now: u64 },
    /// Nobody can say: the database is away.
    Away { now: u64 },
}
