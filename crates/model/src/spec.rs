//! What a sandbox is asked to be.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits::{Limits, OutOfRange};

/// How strong the wall around a sandbox is. Chosen by name; never weakened
/// silently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Landlock, seccomp and rlimits only: for hosts that forbid namespaces.
    Process,
    /// Namespaces, cgroups, seccomp, Landlock: shares the host's kernel.
    Jail,
}

impl Tier {
    pub const ALL: [Self; 2] = [Self::Process, Self::Jail];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Jail => "jail",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that is no tier.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("there is no tier `{0}`; the tiers are process and jail")]
pub struct UnknownTier(String);

impl FromStr for Tier {
    type Err = UnknownTier;

    fn from_str(text: &str) -> Result<Self, UnknownTier> {
        let found = Self::ALL.into_iter().find(|tier| tier.as_str() == text);
        found.ok_or_else(|| UnknownTier(text.to_owned()))
    }
}

/// What of the world a sandbox can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Loopback of its own, nothing else.
    #[default]
    None,
}

/// A host directory shown inside the sandbox, always read-only, `nosuid` and
/// `nodev`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    pub source: PathBuf,
    /// Absolute path inside, whose directory exists in the root filesystem.
    pub target: PathBuf,
}

/// The read-only base that a sandbox stands on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootFs {
    /// Layers, uppermost first. Shared by all sandboxes, never written.
    pub layers: Vec<PathBuf>,
    pub binds: Vec<Bind>,
}

/// Where the writable layer lives.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disk {
    /// In memory, sized, charged to the sandbox, gone with it.
    #[default]
    Memory,
    /// In a directory that outlives the sandbox: template builds only, since a
    /// plain directory cannot be bounded.
    Directory(PathBuf),
}

/// Who the code is, inside. Neither has any capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum User {
    /// uid 1000, owner of `/home/user`.
    #[default]
    User,
    /// uid 0 of the sandbox's own user namespace: owns the files of the base,
    /// so it may install packages; still without capabilities.
    Root,
}

impl User {
    pub fn id(self) -> u32 {
        match self {
            Self::User => 1000,
            Self::Root => 0,
        }
    }

    pub fn home(self) -> &'static str {
        match self {
            Self::User => "/home/user",
            Self::Root => "/root",
        }
    }
}

/// Everything that the engine needs to make one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    pub tier: Tier,
    pub root: RootFs,
    pub disk: Disk,
    pub limits: Limits,
    pub network: Network,
}

impl Spec {
    pub fn new(tier: Tier, root: RootFs) -> Self {
        Self { tier, root, disk: Disk::Memory, limits: Limits::default(), network: Network::None }
    }

    pub fn check(&self) -> Result<(), OutOfRange> {
        self.limits.check()
    }
}
