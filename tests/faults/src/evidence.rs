//! What is known after a fault: what clients were told, what is on the books,
//! what is on the hosts. The invariants read nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Everything that was found. A part that was not looked at is empty or `None`,
/// and an invariant that needs it says so instead of passing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Evidence {
    pub(crate) history: Vec<Told>,
    pub(crate) books: Option<Books>,
    pub(crate) hosts: Vec<Host>,
    /// How often each operation was seen by the server that counts.
    pub(crate) effects: Option<BTreeMap<String, u32>>,
    pub(crate) tokens: Vec<Shown>,
    pub(crate) probes: Vec<Probe>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) healed: Option<Healed>,
    pub(crate) audits: Vec<Audit>,
}

/// One request of a client's, from its first byte to its end.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) what: What,
    pub(crate) outcome: Outcome,
    pub(crate) took: Duration,
    /// When the client would have stopped waiting.
    pub(crate) deadline: Duration,
    /// Whether whom it spoke to may have been killed meanwhile.
    pub(crate) may_break: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    Create {
        key: Option<String>,
    },
    /// A call that has an effect outside, once.
    Effect {
        op: String,
    },
    Call,
    Delete {
        sandbox: String,
    },
    Look,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A sandbox, by its id.
    Made(String),
    Done,
    /// An answer of ours that says no, and why.
    Refused {
        status: u16,
        code: String,
    },
    /// An answer that nobody can make sense of.
    Strange {
        status: u16,
        body: String,
    },
    /// The connection could not be made, or broke.
    Broken(String),
    /// Nothing came until the deadline.
    Silence,
}

/// What the platform itself says there is: the database, or a server's records.
#[derive(Debug, Clone, Default)]
pub(crate) struct Books {
    pub(crate) rows: Vec<Row>,
    /// Places taken of each tenant's quota; none where nobody counts in a table.
    pub(crate) used: BTreeMap<String, i64>,
    pub(crate) ledger: Vec<Charge>,
    pub(crate) nodes: Vec<NodeRow>,
    /// Messages that nobody has sent yet.
    pub(crate) unsent: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) tenant: String,
    /// `waiting`, `starting`, `running`, `paused` or `ended`.
    pub(crate) state: String,
    pub(crate) reason: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) node: Option<i64>,
    /// What it is charged for; none where nobody is.
    pub(crate) ran_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) tenant: String,
    pub(crate) source: String,
    pub(crate) debit: String,
    pub(crate) credit: String,
    pub(crate) nano_dollars: i64,
    pub(crate) sandbox: Option<String>,
    /// For how long, and at what price a second.
    pub(crate) ran_ms: Option<i64>,
    pub(crate) second: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeRow {
    pub(crate) number: i64,
    pub(crate) name: String,
    pub(crate) epoch: i64,
    pub(crate) state: String,
}

/// What is on a machine, seen from outside of everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Host {
    pub(crate) name: String,
    /// Which node it is; none: the only one.
    pub(crate) number: Option<i64>,
    /// Whether its daemon runs.
    pub(crate) is_served: bool,
    /// Cgroups of sandboxes with processes in them.
    pub(crate) live: BTreeSet<String>,
    /// Cgroups of sandboxes without any.
    pub(crate) empty: BTreeSet<String>,
    /// Ids that the daemon says it has; none: it was not asked.
    pub(crate) roster: Option<BTreeSet<String>>,
    /// Whatever else should not be there, in words: mounts, work directories,
    /// groups of dead engines, processes.
    pub(crate) rubbish: Vec<String>,
    pub(crate) inhabitants: Vec<Inhabitant>,
}

/// A process in the cgroup of a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Inhabitant {
    pub(crate) pid: u32,
    pub(crate) sandbox: String,
    /// The namespaces that it shares with the host, of those that it must not.
    pub(crate) shared: Vec<String>,
    pub(crate) has_filter: bool,
    pub(crate) has_no_new_privileges: bool,
    pub(crate) is_root: bool,
}

/// A token that was shown.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) sandbox: String,
    pub(crate) what: &'static str,
    /// Whether it should open nothing any more.
    pub(crate) is_dead: bool,
    pub(crate) opened: bool,
}

/// Something that must not get through while a part is missing.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    pub(crate) what: String,
    pub(crate) got_through: bool,
}

/// Something that must be as it was.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// What it may be more by.
    pub(crate) slack: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Healed {
    pub(crate) after: Duration,
    pub(crate) within: Duration,
}

/// What one sandbox sent out, and what was written down of it.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    pub(crate) sandbox: String,
    /// What the other side saw.
    pub(crate) arrived: u64,
    pub(crate) written: u64,
    /// Whether a gap is marked as such.
    pub(crate) has_gap_marker: bool,
}

impl Row {
    pub(crate) fn is_open(&self) -> bool {
        self.state != "ended"
    }
}

impl Books {
    pub(crate) fn row(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == id)
    }
}
