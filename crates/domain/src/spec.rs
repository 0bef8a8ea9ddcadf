//! What a sandbox is asked to be.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::data::Data;
use crate::limits::{Limits, OutOfRange};

/// What stands between a sandbox and its host. Chosen by name; never weakened
/// silently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Tier {
    /// Landlock, seccomp and rlimits only: for hosts that forbid namespaces.
    Process,
    /// Namespaces, cgroups, seccomp, Landlock: shares the host's kernel.
    Jail,
    /// A container of an OCI runtime.
    Oci(Runtime),
    /// A virtual machine with a kernel of its own.
    Microvm,
}

/// A program that runs OCI bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Runtime {
    Crun,
    Runc,
    /// gVisor: system calls end in a kernel of its own, in user space.
    Runsc,
}

impl Runtime {
    /// The program's name.
    pub fn program(self) -> &'static str {
        match self {
            Self::Crun => "crun",
            Self::Runc => "runc",
            Self::Runsc => "runsc",
        }
    }
}

/// How much of the host a bug in one kernel lays open, from the weakest wall up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// A process among the host's own.
    Process,
    /// The host's kernel, with namespaces between.
    SharedKernel,
    /// A kernel in user space, which asks little of the host's.
    UserKernel,
    /// A kernel of its own behind a virtual machine.
    OwnKernel,
}

impl Tier {
    pub const GVISOR: Self = Self::Oci(Runtime::Runsc);

    pub const ALL: [Self; 6] = [
        Self::Process,
        Self::Jail,
        Self::Oci(Runtime::Crun),
        Self::Oci(Runtime::Runc),
        Self::GVISOR,
        Self::Microvm,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Jail => "jail",
            Self::Oci(Runtime::Crun) => "oci/crun",
            Self::Oci(Runtime::Runc) => "oci/runc",
            Self::Oci(Runtime::Runsc) => "oci/runsc",
            Self::Microvm => "microvm",
        }
    }

    pub fn strength(self) -> Strength {
        match self {
            Self::Process => Strength::Process,
            Self::Jail | Self::Oci(Runtime::Crun | Runtime::Runc) => Strength::SharedKernel,
            Self::Oci(Runtime::Runsc) => Strength::UserKernel,
            Self::Microvm => Strength::OwnKernel,
        }
    }

    /// Whether this wall is no weaker than `floor`.
    pub fn is_at_least(self, floor: Self) -> bool {
        self.strength() >= floor.strength()
    }

    /// Whether its processes are the host kernel's own, which then counts, kills
    /// and freezes each call by itself.
    pub fn shares_kernel(self) -> bool {
        self.strength() <= Strength::SharedKernel
    }

    /// Whether it can be shown files of the host: then it has mounts, and they
    /// are the host kernel's.
    pub fn shows_files(self) -> bool {
        matches!(self, Self::Jail | Self::Oci(Runtime::Crun | Runtime::Runc))
    }

    /// Returns true if its writable layer can be a directory of the host, which a
    /// template build keeps. A machine's disk is written by its own kernel, so the
    /// host never mounts one.
    pub fn keeps_directory(self) -> bool {
        matches!(self, Self::Jail | Self::Oci(_))
    }

    /// Whether a whole sandbox, memory included, can be put on disk.
    pub fn can_be_saved(self) -> bool {
        !self.shares_kernel()
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that is no tier.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "there is no tier `{0}`; the tiers are process, jail, oci/crun, oci/runc, oci/runsc \
     (or gvisor) and microvm"
)]
pub struct UnknownTier(String);

impl FromStr for Tier {
    type Err = UnknownTier;

    fn from_str(text: &str) -> Result<Self, UnknownTier> {
        if text == "gvisor" {
            return Ok(Self::GVISOR);
        }
        let found = Self::ALL.into_iter().find(|tier| tier.as_str() == text);
        found.ok_or_else(|| UnknownTier(text.to_owned()))
    }
}

impl TryFrom<String> for Tier {
    type Error = UnknownTier;

    fn try_from(text: String) -> Result<Self, UnknownTier> {
        text.parse()
    }
}

impl From<Tier> for String {
    fn from(tier: Tier) -> Self {
        tier.as_str().to_owned()
    }
}

/// A host directory shown inside the sandbox, always read-only, `nosuid` and
/// `nodev`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    pub source: PathBuf,
    /// Absolute path inside, whose directory exists in the root filesystem.
    pub target: PathBuf,
    #[serde(default)]
    pub owners: Owners,
}

/// The users whom a bind's files belong to inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owners {
    /// Those of the host, who are nobody inside: root of the sandbox reads what any user
    /// of the host could, and no more.
    #[default]
    Host,
    /// Those of the sandbox, as in a layer: for directories that Belljar made itself.
    Sandbox,
}

impl Bind {
    /// Shows a directory that belongs to the host.
    pub fn of_host(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        Self { source: source.into(), target: target.into(), owners: Owners::Host }
    }

    /// Shows a directory that was made for sandboxes.
    pub fn of_sandboxes(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        Self { source: source.into(), target: target.into(), owners: Owners::Sandbox }
    }
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
    Directory {
        path: PathBuf,
        /// The longest file that code may make. With it, code cannot reserve space ahead
        /// of writing either, so that a watch has time to see what it uses.
        file_bytes: Option<u64>,
    },
    /// On a block device with a file system of its own, in the directories `upper` and
    /// `work`: bounded by the size of the device. Template builds of tenants.
    Device(PathBuf),
}

impl Disk {
    /// The directory or the device; `None`: memory.
    pub fn place(&self) -> Option<&Path> {
        match self {
            Self::Memory => None,
            Self::Directory { path, .. } | Self::Device(path) => Some(path),
        }
    }
}

/// The rights of root inside a sandbox. They never reach beyond its own user namespace.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum SecurityProfile {
    /// Root owns the files of the base and has no capability.
    #[default]
    Strict,
    /// Root has the capabilities that package managers and services expect of a container:
    /// it writes files of all users, gives files away, and starts programs as other users.
    Full,
}

impl SecurityProfile {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for SecurityProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that is no security profile.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown profile `{0}`; the profiles are strict and full")]
pub struct UnknownProfile(String);

impl FromStr for SecurityProfile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        match text {
            "strict" => Ok(Self::Strict),
            "full" => Ok(Self::Full),
            other => Err(UnknownProfile(other.to_owned())),
        }
    }
}

/// The user of a call inside. Only root can have capabilities: see [`SecurityProfile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum User {
    /// uid 1000, owner of `/home/user`.
    #[default]
    User,
    /// uid 0 of the sandbox's own user namespace: owns the files of the base,
    /// so it may install packages.
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
    #[serde(default)]
    pub profile: SecurityProfile,
    pub root: RootFs,
    pub disk: Disk,
    pub limits: Limits,
    /// Files of the host that it is shown.
    #[serde(default)]
    pub data: Data,
}

impl Spec {
    pub fn new(tier: Tier, root: RootFs) -> Self {
        Self {
            tier,
            profile: SecurityProfile::default(),
            root,
            disk: Disk::Memory,
            limits: Limits::default(),
            data: Data::default(),
        }
    }

    pub fn check(&self) -> Result<(), OutOfRange> {
        self.limits.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tier_is_found_by_its_name() {
        for tier in Tier::ALL {
            assert_eq!(tier.as_str().parse(), Ok(tier));
        }
        assert_eq!("gvisor".parse(), Ok(Tier::GVISOR));
        assert!("oci".parse::<Tier>().is_err());
    }

    #[test]
    fn every_profile_is_found_by_its_name() {
        for profile in [SecurityProfile::Strict, SecurityProfile::Full] {
            assert_eq!(profile.as_str().parse(), Ok(profile));
        }
        assert!("Full".parse::<SecurityProfile>().is_err());
    }

    #[test]
    fn a_floor_is_met_by_walls_as_strong_only() {
        assert!(Tier::Microvm.is_at_least(Tier::GVISOR));
        assert!(Tier::Jail.is_at_least(Tier::Oci(Runtime::Crun)));
        assert!(!Tier::Oci(Runtime::Runc).is_at_least(Tier::GVISOR));
        assert!(!Tier::Process.is_at_least(Tier::Jail));
    }
}
