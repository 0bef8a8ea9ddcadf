//! Linux's unified groups, in a machine of the sandbox's own.
//!
//! ```text
//! /               the guest
//! /calls          what all calls may use together
//! /calls/c<N>     one call
//! ```

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use belljar_guest_proto::{Counters, DiskCount, InnerGroups};
use rustix::fs::AtFlags;
use rustix::time::Timespec;

use super::files::{field, make_dir, number, open_dir, read, write};
use super::{Entry, Kernel};

pub(super) struct Version2 {
    calls: OwnedFd,
    disk: OwnedFd,
    /// Processes refused at the limit, so far.
    refused: u64,
}

const CONTROLLERS: &str = "+cpu +memory +pids";

impl Version2 {
    pub(super) fn new(root: OwnedFd, disk: OwnedFd) -> io::Result<Self> {
        write(&root, "cgroup.subtree_control", CONTROLLERS)?;
        let calls = make_dir(&root, "calls")?;
        write(&calls, "cgroup.subtree_control", CONTROLLERS)?;
        Ok(Self { calls, disk, refused: 0 })
    }
}

/// What ext4 may need beside the block that is written: one more for each level of
/// a file's extents. A write can fail for want of those with a few blocks left.
const TABLES: u64 = 32 << 10;

impl Kernel for Version2 {
    fn limit(&mut self, limits: InnerGroups) -> io::Result<()> {
        write(&self.calls, "memory.max", &limits.memory_bytes.to_string())?;
        // A kernel without swap has no such file.
        let _ = write(&self.calls, "memory.swap.max", "0");
        write(&self.calls, "pids.max", &limits.pids.to_string())
    }

    fn create(&self, name: &str) -> io::Result<Entry> {
        Ok(Entry { cgroup: Some(make_dir(&self.calls, name)?), tasks: Vec::new() })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.calls, name, AtFlags::REMOVEDIR)?)
    }

    fn kill(&self, name: &str) -> io::Result<()> {
        write(&open_dir(&self.calls, name)?, "cgroup.kill", "1")
    }

    fn count(&self, name: &str, counters: &mut Counters) {
        let Ok(dir) = open_dir(&self.calls, name) else { return };
        counters.cpu_micros = field(&dir, "cpu.stat", "usage_usec").max(counters.cpu_micros);
        // `memory.peak` is there since Linux 5.19.
        let peak = number(&dir, "memory.peak").or_else(|| number(&dir, "memory.current"));
        counters.peak_memory_bytes = counters.peak_memory_bytes.max(peak);
        counters.oom_kills = field(&dir, "memory.events", "oom_kill");
        // Counted here before Linux 6.11, and at the limit since.
        let refused = field(&dir, "pids.events", "max");
        counters.refused_processes = counters.refused_processes.max(refused);
    }

    /// What was refused at the limit is laid at the door of whoever has most.
    fn enforce(&mut self, members: &mut [(&str, &mut Counters)]) {
        let refused = field(&self.calls, "pids.events", "max");
        let more = refused.saturating_sub(self.refused);
        self.refused = refused;
        let most = |name: &str| {
            let dir = open_dir(&self.calls, name).ok();
            dir.and_then(|dir| number(&dir, "pids.current"))
        };
        if more > 0
            && let Some((_, counters)) = members.iter_mut().max_by_key(|(name, _)| most(name))
        {
            counters.refused_processes += more;
        }
    }

    fn freeze(&self, frozen: bool) -> io::Result<()> {
        write(&self.calls, "cgroup.freeze", if frozen { "1" } else { "0" })?;
        // What is in the middle of something stops a moment later.
        for _ in 0..400 {
            let events = read(&self.calls, "cgroup.events").unwrap_or_default();
            if !frozen || events.lines().any(|line| line == "frozen 1") {
                return Ok(());
            }
            let moment = Timespec { tv_sec: 0, tv_nsec: 500_000 };
            let _ = rustix::event::poll(&mut [], Some(&moment));
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    fn disk(&self) -> Option<DiskCount> {
        let stat = rustix::fs::fstatvfs(&self.disk).ok()?;
        Some(DiskCount {
            used_bytes: (stat.f_blocks - stat.f_bfree) * stat.f_frsize,
            total_bytes: stat.f_blocks * stat.f_frsize,
            is_full: (stat.f_blocks > 0 && stat.f_bavail * stat.f_frsize < TABLES)
                || (stat.f_files > 0 && stat.f_ffree == 0),
        })
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(500)
    }
}
