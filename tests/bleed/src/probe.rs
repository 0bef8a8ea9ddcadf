//! What the programs in `probes/` say about their probes.

use serde::Deserialize;

use crate::canary::{Canary, Engine};

/// The probes' source, loaded into every session.
/// One program: each file goes on where the one before it ended.
pub(crate) const SOURCE: &str = concat!(
    include_str!("probes/base.py"),
    include_str!("probes/files.py"),
    include_str!("probes/ipc.py"),
    include_str!("probes/processes.py"),
    include_str!("probes/interpreter.py"),
    include_str!("probes/memory.py"),
    include_str!("probes/randomness.py"),
);

/// Fewer probes than this, and something is wrong with the catalogue.
pub(crate) const FEWEST: usize = 90;

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Probe {
    pub(crate) name: String,
    pub(crate) reach: Reach,
    /// Whether a copy of the sandbox has it, too.
    pub(crate) copied: bool,
    /// Whether the channel is expected not to exist.
    pub(crate) closed: bool,
    pub(crate) kind: Kind,
    /// Whether one canary can be told from another.
    pub(crate) specific: bool,
    /// A script that plants, as the sandbox's root.
    pub(crate) root: Option<String>,
}

/// How far a channel goes by design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reach {
    Sandbox,
    Interpreter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// One session plants, another looks.
    Canary,
    /// The same, by a scan of all memory for a digest.
    Memory,
    /// A value that no two sessions may have in common.
    Draw,
    /// A value that interpreters of one zygote have in common, and no others.
    Layout,
}

impl Probe {
    pub(crate) fn plants(&self) -> bool {
        matches!(self.kind, Kind::Canary | Kind::Memory)
    }

    /// A canary for one run of it.
    pub(crate) fn canary(&self, engine: &Engine) -> std::io::Result<Canary> {
        match self.name.as_str() {
            "memory/engine_environment" => Ok(engine.environment.clone()),
            "memory/engine_arguments" => Ok(engine.arguments.clone()),
            "memory/engine_heap" => Ok(engine.heap.clone()),
            _ => Canary::new(),
        }
    }

    /// What whoever looks is told.
    pub(crate) fn hint(&self, canary: &Canary) -> String {
        match self.kind {
            Kind::Memory => canary.digest(),
            _ => canary.hidden(),
        }
    }
}
