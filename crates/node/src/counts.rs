//! What was counted for a call or a context, whichever kernel counts it: the
//! host's, where it sees single processes, or else the sandbox's own, as its
//! guest tells.

use std::time::Duration;

use belljar_engine::cgroup::CallGroup;
use belljar_engine::{DiskUse, Machine};

use crate::link::{Channel, Counted};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// `None`: nobody counts it as long as the call runs.
    pub(crate) cpu: Option<Duration>,
    /// What the host has given to the whole sandbox, where `cpu` is the guest's
    /// word: a kernel that is made to wait takes that time for work.
    given: Option<Duration>,
    pub(crate) peak_memory_bytes: Option<u64>,
    /// Processes that were killed because memory ran out.
    pub(crate) oom_kills: u64,
    /// How often a process could not be made because of the limit; not only of
    /// this call where the kernel counts it for all.
    pub(crate) refused_processes: u64,
    pub(crate) disk: DiskUse,
}

impl Counts {
    /// Before a call has a channel.
    pub(crate) fn before(machine: &Machine) -> Self {
        Self::of(machine, None, Counted::default())
    }

    pub(crate) fn now(machine: &Machine, group: Option<&CallGroup>, channel: &Channel) -> Self {
        Self::of(machine, group, channel.counted())
    }

    fn of(machine: &Machine, group: Option<&CallGroup>, told: Counted) -> Self {
        // Whoever counts does so because code runs, or is about to.
        machine.refresh_figures();
        let told = believed(machine, told);
        let mut counts = Self {
            cpu: None,
            given: machine.confinement().inner.and_then(|_| machine.cpu_now()),
            peak_memory_bytes: None,
            oom_kills: 0,
            refused_processes: machine.refused_processes(),
            disk: machine.disk(),
        };
        if let Some(cpu) = machine.watched_cpu() {
            counts.cpu = Some(cpu);
            counts.oom_kills = machine.watched_oom_kills();
        }
        if let Some(group) = group {
            let counted = group.counters();
            counts.cpu = Some(counted.cpu);
            counts.peak_memory_bytes = counted.peak_memory_bytes;
            counts.oom_kills = counted.oom_kills;
            counts.refused_processes += group.refused_processes();
        } else if let Some(told) = told.last {
            counts.cpu = Some(Duration::from_micros(told.cpu_micros));
            counts.peak_memory_bytes = told.peak_memory_bytes;
            counts.oom_kills = told.oom_kills;
            counts.refused_processes =
                counts.refused_processes.saturating_add(told.refused_processes);
        }
        if let Some(disk) = told.last.and_then(|told| told.disk) {
            let belljar_guest_proto::DiskCount { used_bytes, total_bytes, is_full } = disk;
            counts.disk = DiskUse { used_bytes, total_bytes, is_full };
        }
        counts
    }

    /// CPU time since `before`.
    pub(crate) fn cpu_since(&self, before: &Self) -> Duration {
        let counted = self.cpu.unwrap_or_default().saturating_sub(before.cpu.unwrap_or_default());
        match (self.given, before.given) {
            (Some(now), Some(before)) => counted.min(now.saturating_sub(before)),
            _ => counted,
        }
    }

    /// What was written since `before`. A disk that only the guest can see is
    /// compared with the first that it told of.
    pub(crate) fn written_since(&self, before: &Self, told: Counted) -> u64 {
        let first = told.first.and_then(|told| told.disk).map(|disk| disk.used_bytes);
        let start = match first {
            Some(first) if before.disk.total_bytes == 0 => first,
            _ => before.disk.used_bytes,
        };
        self.disk.used_bytes.saturating_sub(start)
    }
}

/// What a guest tells counts only where it is asked to count: elsewhere the host's kernel sees
/// for itself, and a guest in an attacker's hands could make anything up.
fn believed(machine: &Machine, told: Counted) -> Counted {
    if machine.confinement().inner.is_some() { told } else { Counted::default() }
}
