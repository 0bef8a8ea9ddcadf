//! The defences of the jail, by name.
//!
//! A test that cannot fail proves nothing: the attack suite runs each attack a
//! second time with one defence off and expects it to succeed. Only the
//! `test-util` feature can make a [`Weakened`] that is not empty, and the
//! executable is never built with it.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Defence {
    /// The filter of calls, and the guest's beneath it.
    Seccomp,
    /// Landlock, on the guest and on calls.
    Landlock,
    /// No user namespace inside the sandbox's own.
    UsernsLimit,
    NoNewPrivs,
    /// No capability for calls.
    Capabilities,
    /// `hidepid` of procfs, and `subset=pid` or a cover over every name besides processes.
    ProcHiding,
    /// Nothing is written to procfs.
    ReadOnlyProc,
    Keyring,
    NetNamespace,
    IpcNamespace,
    /// Devices that are only there when they are harmless.
    MinimalDev,
    /// The lower layers and binds cannot be written.
    ReadOnlyLower,
    NoSuid,
    NoDev,
    CgroupPids,
    CgroupMemory,
    CgroupCpu,
    Rlimits,
    /// Memory and descriptors of the guest out of reach.
    UidSplit,
    SizedDisk,
    SizedInodes,
    /// Overlay options that name no host path, neutral names.
    NeutralNames,
    ClosedDescriptors,
    WallTimer,
    CpuTimer,
    OutputCap,
    /// Everything of a call ends with it.
    CallKill,
    /// A cgroup of its own, where the host has them.
    Cgroups,
    /// Everything of a sandbox is found and ended where neither a namespace nor a cgroup does it.
    TreeKill,
    /// What a guest sends and nobody takes is bounded.
    GuestWindow,
}

/// The defences that are off. Empty outside of tests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weakened(Vec<Defence>);

impl Weakened {
    #[cfg(feature = "test-util")]
    pub fn without(defence: Defence) -> Self {
        Self(vec![defence])
    }

    #[cfg(feature = "test-util")]
    pub fn without_all(defences: &[Defence]) -> Self {
        Self(defences.to_vec())
    }

    /// Whether `defence` is in force.
    pub fn keeps(&self, defence: Defence) -> bool {
        !self.0.contains(&defence)
    }
}
