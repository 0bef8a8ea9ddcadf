//! How calls are confined inside a sandbox, as plain data.
//!
//! The guest applies it between a call's fork and its exec. This crate knows no
//! guest messages; whoever speaks to the guest translates.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use belljar_confine::rights;
use belljar_domain::{Disk, Limits, Runtime, SecurityProfile, Spec, Tier};
use belljar_sys::process::{self, resource};

use crate::defence::{Defence, Weakened};
use crate::enforcement::Enforcement;
use crate::plan::Facts;
use crate::seccomp;
use crate::watch;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// A classic BPF program, 8 bytes an instruction.
    pub seccomp: Vec<u8>,
    /// Whether it ends those who do what they must not, with SIGSYS.
    pub filter_kills: bool,
    /// Resource number and value.
    pub rlimits: Vec<(u32, u64)>,
    /// With which Landlock ABI calls set themselves apart from the guest; 0:
    /// they need not, having another user id.
    pub apart_abi: u32,
    pub switch_user: bool,
    /// Capabilities of root's calls, by bit.
    pub root_capabilities: u64,
    pub self_check: bool,
    /// The home and temporary directory of calls.
    pub home: PathBuf,
    pub temporary: PathBuf,
    /// How many processes and how much memory calls may use together, where only
    /// the guest can count them.
    pub inner: Option<(u32, u64)>,
}

/// A filter, assembled once.
type Filter = LazyLock<Vec<u8>>;

/// The filter of calls.
fn filter_of(spec: &Spec, enforcement: Enforcement) -> &'static [u8] {
    static USER: Filter = LazyLock::new(|| assembled(&seccomp::user()));
    static PROCESS: Filter = LazyLock::new(|| assembled(&seccomp::unconnected(seccomp::user())));
    static ENCLOSED: Filter = LazyLock::new(|| assembled(&seccomp::enclosed()));
    static WATCHED: Filter = LazyLock::new(|| assembled(&seccomp::unreserving(seccomp::user())));
    static ENCLOSED_WATCHED: Filter =
        LazyLock::new(|| assembled(&seccomp::unreserving(seccomp::enclosed())));
    static PINNED: Filter = LazyLock::new(|| assembled(&seccomp::pinned(seccomp::user())));
    static PINNED_PROCESS: Filter =
        LazyLock::new(|| assembled(&seccomp::pinned(seccomp::unconnected(seccomp::user()))));
    static PINNED_WATCHED: Filter =
        LazyLock::new(|| assembled(&seccomp::pinned(seccomp::unreserving(seccomp::user()))));
    let is_watched = matches!(spec.disk, Disk::Directory { file_bytes: Some(_), .. });
    let is_pinned = enforcement == Enforcement::Watch;
    match (spec.tier, is_watched) {
        // gVisor answers every call itself: a whole filter would be asked by the
        // same kernel that it is to protect.
        (Tier::Oci(Runtime::Runsc), false) => &ENCLOSED,
        (Tier::Oci(Runtime::Runsc), true) => &ENCLOSED_WATCHED,
        (Tier::Process, _) if is_pinned => &PINNED_PROCESS,
        (Tier::Jail, false) if is_pinned => &PINNED,
        (Tier::Jail, true) if is_pinned => &PINNED_WATCHED,
        (Tier::Process, _) => &PROCESS,
        (_, false) => &USER,
        (_, true) => &WATCHED,
    }
}

fn assembled(policy: &seccomp::Policy) -> Vec<u8> {
    seccomp::to_bytes(&seccomp::assemble(policy))
}

impl Confinement {
    pub(crate) fn new(
        spec: &Spec,
        facts: Facts,
        enforcement: Enforcement,
        weakened: &Weakened,
        work: Option<&Path>,
    ) -> Self {
        let keeps = |defence| weakened.keeps(defence);
        let filter = match keeps(Defence::Seccomp) {
            true => filter_of(spec, enforcement).to_vec(),
            false => Vec::new(),
        };
        let rlimits = match enforcement {
            _ if !keeps(Defence::Rlimits) => Vec::new(),
            Enforcement::Cgroup => rlimits(spec),
            Enforcement::Watch => watched_rlimits(spec, facts),
        };
        Self {
            filter_kills: !filter.is_empty() && spec.tier != Tier::GVISOR,
            seccomp: filter,
            rlimits,
            apart_abi: if spec.tier == Tier::Process && keeps(Defence::Landlock) {
                facts.landlock_abi
            } else {
                0
            },
            switch_user: spec.tier != Tier::Process && facts.privileged,
            root_capabilities: match spec.profile {
                SecurityProfile::Full if spec.tier != Tier::Process && facts.privileged => {
                    rights::ROOT.0
                }
                SecurityProfile::Full | SecurityProfile::Strict => 0,
            },
            self_check: keeps(Defence::Seccomp)
                && keeps(Defence::NoNewPrivs)
                && keeps(Defence::Capabilities),
            home: work.map_or_else(|| "/home/user".into(), |work| work.join("home")),
            temporary: work.map_or_else(|| "/tmp".into(), |work| work.join("tmp")),
            inner: (!spec.tier.shares_kernel())
                .then_some((spec.limits.pids, spec.limits.memory_bytes)),
        }
    }
}

fn rlimits(spec: &Spec) -> Vec<(u32, u64)> {
    let limits = &spec.limits;
    let mut list = vec![
        (resource::CORE, 0),
        (resource::NOFILE, limits.open_files),
        // Per user id, and every sandbox has its own: a second lock on forks,
        // wider than the first, which counts the guest.
        (resource::NPROC, nproc(limits)),
        (resource::MEMLOCK, 64 << 10),
        (resource::MSGQUEUE, 0),
        (resource::SIGPENDING, 512),
        (resource::RTPRIO, 0),
        (resource::NICE, 0),
    ];
    let longest = match spec.disk {
        // A machine's disk is as large as it may be, and says when it is full.
        Disk::Memory if spec.tier == Tier::Microvm => None,
        Disk::Memory => Some(limits.disk_bytes),
        Disk::Directory { file_bytes, .. } => file_bytes,
        Disk::Device(_) => None,
    };
    list.extend(longest.map(|longest| (resource::FSIZE, longest)));
    if let Some(cpu) = limits.cpu {
        // A back-stop, should the engine's own timer never come. A kernel that is
        // not the host's also counts time in which the host let it wait.
        let factor = if spec.tier.shares_kernel() { 2 } else { 20 };
        list.push((resource::CPU, cpu.as_secs() * factor + factor));
    }
    if spec.tier == Tier::Process {
        // No cgroup is promised here, so address space is the only bound.
        list.push((resource::AS, limits.memory_bytes.max(256 << 20)));
    }
    list
}

/// Resource limits that stop each process between two looks of the watch.
fn watched_rlimits(spec: &Spec, facts: Facts) -> Vec<(u32, u64)> {
    let replaced = [resource::NPROC, resource::AS];
    let mut list = rlimits(spec);
    list.retain(|(resource, _)| !replaced.contains(resource));
    // The kernel counts these for a user id in a user namespace. A sandbox has one of the two
    // to itself, except for the process tier of an ordinary user: there the limit counts
    // everything that this user runs, and leaves room for it to grow. One for the guest, and
    // one for the watch to see.
    let own = u64::from(spec.limits.pids) + 2;
    let processes = if spec.tier == Tier::Jail || facts.privileged {
        own
    } else {
        let uid = rustix::process::getuid().as_raw();
        let others = watch::tasks_of_user(uid).unwrap_or(0);
        own + others + TASKS_OF_OTHERS
    };
    let most = process::current_limit(resource::NPROC).unwrap_or(u64::MAX);
    list.push((resource::NPROC, processes.min(most)));
    // Runtimes reserve more than they use (stacks of threads, arenas), so this is wider than
    // the limit, which the watch keeps.
    let data = spec.limits.memory_bytes.saturating_mul(2).saturating_add(RESERVED_BYTES);
    let most = process::current_limit(resource::DATA).unwrap_or(u64::MAX);
    list.push((resource::DATA, data.min(most)));
    list
}

/// Memory that a small process may reserve and never use.
const RESERVED_BYTES: u64 = 1 << 30;

/// Processes and threads that a user may start beside a sandbox of the process tier, before
/// code in it is refused its own.
const TASKS_OF_OTHERS: u64 = 512;

/// As many tasks as there can ever be inside, however quickly they are made, where a cgroup
/// keeps the limit.
pub(crate) fn nproc(limits: &Limits) -> u64 {
    // This lock counts forks that are under way, of which each task may have one;
    // the first lock counts only those that it let through. Without a user namespace
    // it also counts other processes of the host with the user id, such as the dead of
    // the sandbox before, until they are reaped. Any narrower, and on a slow or
    // busy host the first is never reached and no limit is reported.
    2 * u64::from(limits.pids) + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watched_sandbox_is_always_refused_processes() {
        let root = belljar_domain::RootFs { layers: vec!["/base".into()], binds: vec![] };
        let most_of = |tier, privileged| {
            let mut spec = Spec::new(tier, root.clone());
            spec.limits.pids = 16;
            let facts = Facts { landlock_abi: 7, privileged, ipv6: true };
            let list = watched_rlimits(&spec, facts);
            list.into_iter().find(|(resource, _)| *resource == resource::NPROC).unwrap().1
        };
        assert_eq!(most_of(Tier::Jail, false), 18);
        assert_eq!(most_of(Tier::Process, true), 18);
        let shared = most_of(Tier::Process, false);
        assert!((18 + 1..u64::MAX).contains(&shared), "{shared}");
    }

    #[test]
    fn user_id_has_room_for_more_processes_than_the_cgroup() {
        let root = belljar_domain::RootFs { layers: vec!["/base".into()], binds: vec![] };
        for tier in [Tier::Process, Tier::Jail] {
            let mut spec = Spec::new(tier, root.clone());
            spec.limits.pids = 16;
            let list = rlimits(&spec);
            let most = list.iter().find(|(resource, _)| *resource == resource::NPROC);
            // Each of 16 and the guest, and a fork of each of the 16.
            assert!(most.is_some_and(|(_, most)| *most > 16 + 1 + 16), "{tier:?}: {most:?}");
        }
    }
}
