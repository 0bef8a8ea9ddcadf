//! gVisor's groups. They count CPU time, memory and tasks, but have no limit on
//! memory, no way to kill a group or to stop it, and no record of what was
//! refused. The guest makes up for that as far as looking often can:
//!
//! - Memory is summed up every few milliseconds when there is much of it; past
//!   the limit, the largest process of the largest call is killed, as Linux
//!   would do. What is faster than that meets the host's own limit, which ends
//!   the whole sandbox.
//! - Tasks are limited by the kernel, a little above what calls may have. Who is
//!   seen to have more than that has asked for too many. Whoever has fewer again
//!   when it is looked at is not noticed.
//!
//! A new task is charged to its own group and to none above it, so a limit for
//! all calls together has to be on one group that all of them are in.
//!
//! ```text
//! cpuacct/        the guest      pids/        the guest
//! cpuacct/c<N>    one call       pids/calls   all calls
//! memory/c<N>     one call
//! ```

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use belljar_guest_proto::{Counters, InnerGroups};
use belljar_sys::signal;
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::files::{make_dir, number, open_dir, open_write, read, write};
use super::{Entry, Kernel};

pub(super) struct Version1 {
    cpu: OwnedFd,
    memory: OwnedFd,
    calls: OwnedFd,
    limits: Option<InnerGroups>,
    /// When the limit on memory may be passed at the earliest, by all that is
    /// known: the sum so far, and when that was.
    memory_left: Duration,
    summed: (u64, Instant),
    /// Whether there are many tasks, of how many there may be.
    crowded: bool,
    /// When the last process was killed for want of memory, which takes a while
    /// to show.
    starved: Option<Instant>,
}

/// How long a killed process may take to give its memory back.
const DYING: Duration = Duration::from_millis(50);

/// How often processes of a call are listed and killed before others wait.
const ROUNDS: usize = 3;

impl Version1 {
    pub(super) fn new([cpu, memory, pids]: [OwnedFd; 3]) -> io::Result<Self> {
        let calls = make_dir(&pids, "calls")?;
        let summed = (0, Instant::now());
        Ok(Self {
            cpu,
            memory,
            calls,
            limits: None,
            memory_left: Duration::MAX,
            summed,
            crowded: false,
            starved: None,
        })
    }

    /// The processes of a call, by pid.
    fn processes(&self, name: &str) -> Vec<i32> {
        let list = open_dir(&self.cpu, name).ok().and_then(|dir| read(&dir, "cgroup.procs"));
        let list = list.unwrap_or_default();
        list.lines().filter_map(|line| line.parse().ok()).filter(|&pid| pid > 1).collect()
    }

    fn write_pids_limit(&self, pids: Option<u32>) -> io::Result<()> {
        let most = match pids {
            Some(pids) => pids.to_string(),
            None => "max".to_owned(),
        };
        write(&self.calls, "pids.max", &most)
    }

    fn pids_limit(&self) -> Option<u32> {
        self.limits.map(|limits| limits.pids.saturating_add(limits.pids / 8 + 4))
    }

    fn enforce_memory(&mut self, members: &mut [(&str, &mut Counters)], limit: u64) {
        let usage: Vec<u64> =
            members.iter().map(|(name, _)| self.memory_now(name).unwrap_or(0)).collect();
        let sum: u64 = usage.iter().sum();
        self.predict(sum, limit);
        let waits = self.starved.is_some_and(|at| at.elapsed() < DYING);
        if sum <= limit || (waits && sum <= limit + limit / 4) {
            return;
        }
        let largest = (0..members.len()).max_by_key(|&index| usage[index]);
        let Some((name, counters)) = largest.map(|index| &mut members[index]) else { return };
        let fattest = self.processes(name).into_iter().max_by_key(|&pid| resident(pid));
        if fattest.is_some_and(|pid| signal::send(pid, signal::KILL).is_ok()) {
            counters.oom_kills += 1;
            self.starved = Some(Instant::now());
        }
    }

    /// Guesses when to look again: half of the time that the memory that is left
    /// lasts at the pace of late, or at a brisk one.
    fn predict(&mut self, sum: u64, limit: u64) {
        const BRISK: u64 = 500 << 20;
        let (before, at) = self.summed;
        let millis = u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        let pace = (sum.saturating_sub(before).saturating_mul(1000) / millis).max(BRISK);
        let left = limit.saturating_sub(sum).saturating_mul(1000) / pace;
        self.memory_left = Duration::from_millis(left / 2);
        self.summed = (sum, Instant::now());
    }

    fn memory_now(&self, name: &str) -> Option<u64> {
        number(&open_dir(&self.memory, name).ok()?, "memory.usage_in_bytes")
    }

    fn enforce_pids(&mut self, members: &mut [(&str, &mut Counters)], limit: u32) {
        let now = number(&self.calls, "pids.current").unwrap_or(0);
        self.crowded = now > u64::from(limit / 2);
        if now <= limit.into() {
            return;
        }
        let count = |name: &str| {
            let dir = open_dir(&self.cpu, name).ok();
            dir.and_then(|dir| read(&dir, "tasks")).map_or(0, |list| list.lines().count())
        };
        if let Some((_, counters)) = members.iter_mut().max_by_key(|(name, _)| count(name)) {
            counters.refused_processes += 1;
        }
    }
}

fn kill_all(processes: &[i32]) {
    for &pid in processes {
        // One that is gone meanwhile is no loss: its number is not given out
        // again so soon, and the guest's own is never in the list.
        let _ = signal::send(pid, signal::KILL);
    }
}

/// How much memory a process has, in pages.
fn resident(pid: i32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

impl Kernel for Version1 {
    fn limit(&mut self, limits: InnerGroups) -> io::Result<()> {
        self.limits = Some(limits);
        self.write_pids_limit(self.pids_limit())
    }

    fn create(&self, name: &str) -> io::Result<Entry> {
        let groups = [&make_dir(&self.cpu, name)?, &make_dir(&self.memory, name)?, &self.calls];
        let tasks = groups.into_iter().map(|group| open_write(group, "tasks"));
        let tasks = tasks.collect::<io::Result<_>>()?;
        Ok(Entry { cgroup: None, tasks })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        for parent in [&self.cpu, &self.memory] {
            match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Kills one by one. That no fork outruns this, nobody forks during the last
    /// round if there were new ones in each before: in no call, but only then,
    /// and for the blink of an eye.
    fn kill(&self, name: &str) -> io::Result<()> {
        let mut seen = BTreeSet::new();
        for _ in 0..ROUNDS {
            let mut fresh = self.processes(name);
            fresh.retain(|&pid| seen.insert(pid));
            if fresh.is_empty() {
                return Ok(());
            }
            kill_all(&fresh);
        }
        self.write_pids_limit(Some(0))?;
        kill_all(&self.processes(name));
        self.write_pids_limit(self.pids_limit())
    }

    fn count(&self, name: &str, counters: &mut Counters) {
        let dir = open_dir(&self.cpu, name).ok();
        let nanos = dir.and_then(|dir| number(&dir, "cpuacct.usage")).unwrap_or(0);
        counters.cpu_micros = (nanos / 1000).max(counters.cpu_micros);
        counters.peak_memory_bytes = counters.peak_memory_bytes.max(self.memory_now(name));
    }

    fn enforce(&mut self, members: &mut [(&str, &mut Counters)]) {
        let Some(limits) = self.limits else { return };
        self.enforce_memory(members, limits.memory_bytes);
        self.enforce_pids(members, limits.pids);
    }

    /// Who is in front on that terminal is not to be learned from outside its
    /// session; everybody else ignores this signal.
    fn resized(&self, name: &str) {
        for pid in self.processes(name) {
            let _ = signal::send(pid, signal::RESIZED);
        }
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(200)
    }

    fn at_most(&self) -> Duration {
        if self.crowded { Duration::ZERO } else { self.memory_left }
    }
}
