//! Which limits hold on this host, and by what.
//!
//! With cgroups the kernel keeps every limit for the sandbox as a whole. Without them, the
//! engine watches the sandbox and resource limits stop each process between two looks; a few
//! limits cannot be kept that way, and this module names them.

use belljar_domain::{Limits, Tier};

/// What keeps the limits on memory, processes and CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforcement {
    /// The kernel, for the sandbox as a whole.
    Cgroup,
    /// The engine, which looks at all processes again and again, and resource limits on each.
    Watch,
}

impl Enforcement {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Watch => "watch",
        }
    }
}

/// A limit that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitName {
    Cpus,
    Pids,
    Disk,
    Inodes,
}

impl LimitName {
    /// As recipes and options call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cpus => "cpus",
            Self::Pids => "pids",
            Self::Disk => "disk",
            Self::Inodes => "inodes",
        }
    }
}

/// A limit that this host cannot keep for a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeakLimit {
    pub limit: LimitName,
    /// What holds instead, and why no more.
    pub why: &'static str,
    /// Whether a cgroup would keep it.
    pub cgroup_keeps: bool,
}

/// The command that gives an ordinary user a cgroup.
pub const DELEGATED_SCOPE: &str = "systemd-run --user --scope -p Delegate=yes";

/// The limits that such a sandbox would not be held to.
pub(crate) fn weak_limits(
    enforcement: Enforcement,
    privileged: bool,
    tier: Tier,
    limits: &Limits,
) -> Vec<WeakLimit> {
    let mut weak = Vec::new();
    let shares_kernel = matches!(tier, Tier::Jail | Tier::Process);
    if enforcement == Enforcement::Watch && shares_kernel {
        if !limits.cpu_millis.is_multiple_of(1000) {
            let why = "without cgroups, code can only be kept to whole cores";
            weak.push(WeakLimit { limit: LimitName::Cpus, why, cgroup_keeps: true });
        }
        if tier == Tier::Process && !privileged {
            let why = "without cgroups, this tier ends code that has too many processes, but it \
                       can start hundreds more until then";
            weak.push(WeakLimit { limit: LimitName::Pids, why, cgroup_keeps: true });
        }
    }
    if tier == Tier::Process {
        let why = "this tier writes to a directory of the host, where each file is limited and \
                   their sum is not";
        let weak_disk = |limit| WeakLimit { limit, why, cgroup_keeps: false };
        weak.extend([LimitName::Disk, LimitName::Inodes].map(weak_disk));
    }
    weak
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(enforcement: Enforcement, privileged: bool, tier: Tier, cpu: u32) -> Vec<LimitName> {
        let limits = Limits { cpu_millis: cpu, ..Limits::default() };
        let weak = weak_limits(enforcement, privileged, tier, &limits);
        weak.into_iter().map(|weak| weak.limit).collect()
    }

    #[test]
    fn cgroups_keep_every_limit_of_the_jail() {
        assert_eq!(named(Enforcement::Cgroup, true, Tier::Jail, 500), []);
        assert_eq!(named(Enforcement::Cgroup, false, Tier::Jail, 500), []);
    }

    #[test]
    fn watch_keeps_all_but_parts_of_a_core() {
        assert_eq!(named(Enforcement::Watch, false, Tier::Jail, 1000), []);
        assert_eq!(named(Enforcement::Watch, false, Tier::Jail, 1500), [LimitName::Cpus]);
    }

    #[test]
    fn process_tier_never_keeps_the_disk() {
        let disk = [LimitName::Disk, LimitName::Inodes];
        assert_eq!(named(Enforcement::Cgroup, true, Tier::Process, 500), disk);
        assert_eq!(named(Enforcement::Watch, true, Tier::Process, 1000), disk);
        let without_root = named(Enforcement::Watch, false, Tier::Process, 1000);
        assert_eq!(without_root, [LimitName::Pids, LimitName::Disk, LimitName::Inodes]);
    }
}
