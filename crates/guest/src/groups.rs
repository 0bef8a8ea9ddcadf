//! Groups of calls, where the host's kernel sees one process only.
//!
//! Each call, and each context, gets a group of this kernel's own. Here they are
//! made, counted, killed as a whole and removed; how that is done differs
//! between a Linux of the sandbox's own (version 2) and gVisor (version 1).
//!
//! ```text
//!   open ──► running ──► over ──► (empty) removed
//!               │  kill    │ kill: again until it is empty
//!               └──────────┘
//! ```

mod files;
mod version_1;
mod version_2;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use belljar_guest_proto::{Counters, DiskCount, InnerGroups};

use version_1::Version1;
use version_2::Version2;

/// How a call gets into its group.
#[derive(Default)]
pub(crate) struct Entry {
    /// A version 2 group to be born into.
    pub(crate) cgroup: Option<OwnedFd>,
    /// Files to which the child writes itself.
    pub(crate) tasks: Vec<OwnedFd>,
}

/// What one kind of kernel does with groups, each known by its name.
trait Kernel {
    /// What all calls may use together, from now on.
    fn limit(&mut self, limits: InnerGroups) -> io::Result<()>;
    fn create(&self, name: &str) -> io::Result<Entry>;
    /// Fails while a process is in it.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Kills what is in it now. What is not gone then is dying.
    fn kill(&self, name: &str) -> io::Result<()>;
    /// Brings `counters` up to date; what only ever grows never shrinks.
    fn count(&self, name: &str, counters: &mut Counters);
    /// Does what this kernel does not do by itself when limits are passed, after
    /// all of `members` have been counted.
    fn enforce(&mut self, _members: &mut [(&str, &mut Counters)]) {}
    /// Stops everything that runs in groups, or lets it go on.
    fn freeze(&self, _frozen: bool) -> io::Result<()> {
        Ok(())
    }
    /// Tells the processes of a group that their terminal has another size, where
    /// the kernel does not.
    fn resized(&self, _name: &str) {}
    fn disk(&self) -> Option<DiskCount> {
        None
    }
    /// How long counters may go unread while nothing seems to happen.
    fn patience(&self) -> Duration;
    /// How long they may go unread because of what they said last.
    fn at_most(&self) -> Duration {
        Duration::MAX
    }
}

struct Member {
    name: String,
    counters: Counters,
    told: Counters,
    told_at: Option<Instant>,
    /// Its call has ended; processes may be left.
    over: bool,
    /// It is to end, and is not yet empty.
    dying: bool,
}

pub(crate) struct Groups {
    kernel: Box<dyn Kernel>,
    members: BTreeMap<u32, Member>,
    /// When to look again, and how long that is apart.
    next: Option<Instant>,
    pause: Duration,
}

/// How often counters are told while they change.
const OFTEN: Duration = Duration::from_millis(50);
/// How often they are read at most.
const CLOSE: Duration = Duration::from_millis(10);

impl Groups {
    /// gVisor's groups: the roots of cpuacct, memory and pids.
    pub(crate) fn version_1(hierarchies: [OwnedFd; 3]) -> io::Result<Self> {
        Ok(Self::new(Box::new(Version1::new(hierarchies)?)))
    }

    /// Linux's groups; `disk` is where the writable layer lies.
    pub(crate) fn version_2(root: OwnedFd, disk: OwnedFd) -> io::Result<Self> {
        Ok(Self::new(Box::new(Version2::new(root, disk)?)))
    }

    fn new(kernel: Box<dyn Kernel>) -> Self {
        Self { kernel, members: BTreeMap::new(), next: None, pause: OFTEN }
    }

    pub(crate) fn limit(&mut self, limits: InnerGroups) -> io::Result<()> {
        self.kernel.limit(limits)
    }

    /// Makes the group of the call on `channel`.
    pub(crate) fn open(&mut self, channel: u32) -> io::Result<Entry> {
        let name = format!("c{channel}");
        let entry = self.kernel.create(&name)?;
        let counters = Counters::default();
        let told_at = None;
        let member = Member { name, counters, told: counters, told_at, over: false, dying: false };
        self.members.insert(channel, member);
        self.hurry();
        Ok(entry)
    }

    /// Ends every process of the call on `channel`. `false`: it has no group.
    pub(crate) fn kill(&mut self, channel: u32) -> bool {
        let Some(member) = self.members.get_mut(&channel) else { return false };
        member.dying = true;
        let _ = self.kernel.kill(&member.name);
        self.hurry();
        true
    }

    /// The last count of a call whose first process has ended.
    pub(crate) fn finish(&mut self, channel: u32, largest_process: u64) -> Option<Counters> {
        self.count();
        let member = self.members.get_mut(&channel)?;
        member.over = true;
        // What lived too shortly to be seen has still been this large.
        let peak = member.counters.peak_memory_bytes.unwrap_or(0).max(largest_process);
        member.counters.peak_memory_bytes = Some(peak);
        Some(member.counters)
    }

    /// Brings all counters up to date.
    fn count(&mut self) {
        let disk = self.kernel.disk();
        let mut counted = Vec::new();
        for member in self.members.values_mut().filter(|member| !member.over) {
            self.kernel.count(&member.name, &mut member.counters);
            member.counters.disk = disk;
            counted.push((member.name.as_str(), &mut member.counters));
        }
        self.kernel.enforce(&mut counted);
    }

    /// Forgets a call that did not come to run.
    pub(crate) fn discard(&mut self, channel: u32) {
        if let Some(member) = self.members.get_mut(&channel) {
            member.over = true;
        }
        self.kill(channel);
        self.sweep();
    }

    /// Removes the groups of calls that are over, once nothing is in them.
    pub(crate) fn sweep(&mut self) {
        let kernel = &*self.kernel;
        self.members.retain(|_, member| {
            if !member.over {
                return true;
            }
            if member.dying {
                // What was forked while the list was read.
                let _ = kernel.kill(&member.name);
            }
            kernel.remove(&member.name).is_err()
        });
        self.plan();
    }

    /// Something happens: look soon.
    pub(crate) fn hurry(&mut self) {
        self.pause = OFTEN;
        let soon = Instant::now() + self.interval();
        self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
    }

    fn interval(&self) -> Duration {
        if self.members.values().any(|member| member.dying) {
            return CLOSE;
        }
        self.pause.min(self.kernel.at_most()).max(CLOSE)
    }

    /// Nothing runs: nothing to look at.
    fn plan(&mut self) {
        if !self.members.values().any(|member| !member.over || member.dying) {
            self.next = None;
        }
    }

    /// When [`Self::look`] wants to be asked again, if at all.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.next
    }

    /// Reads the counters of what runs and answers those that changed.
    pub(crate) fn look(&mut self) -> Vec<(u32, Counters)> {
        let begun = Instant::now();
        self.count();
        let mut changed = Vec::new();
        for (&channel, member) in &mut self.members {
            // What ends a call is told at once, the rest now and then.
            let rested = member.told_at.is_none_or(|at| begun - at >= OFTEN);
            let urgent = (member.counters.oom_kills, member.counters.refused_processes)
                != (member.told.oom_kills, member.told.refused_processes);
            if !member.over && member.counters != member.told && (rested || urgent) {
                member.told_at = Some(begun);
                member.told = member.counters;
                changed.push((channel, member.counters));
            }
        }
        let moved = self.members.values().any(|member| member.counters != member.told);
        let quiet = changed.is_empty() && !moved;
        self.pause = if quiet { self.pause * 2 } else { OFTEN };
        self.pause = self.pause.min(self.kernel.patience());
        // However long looking takes, there is time for something else.
        let now = Instant::now();
        self.next = Some(now + self.interval().max((now - begun) * 2));
        self.sweep();
        changed
    }

    /// The counters of one call if they changed, for a moment that matters: they
    /// are told before what its context says then, but not over and over.
    pub(crate) fn refresh(&mut self, channel: u32) -> Option<Counters> {
        let now = Instant::now();
        let member = self.members.get_mut(&channel)?;
        if member.told_at.is_some_and(|at| now - at < CLOSE) {
            return None;
        }
        self.kernel.count(&member.name, &mut member.counters);
        member.counters.disk = self.kernel.disk();
        (member.counters != member.told).then(|| {
            member.told = member.counters;
            member.told_at = Some(now);
            member.counters
        })
    }

    pub(crate) fn resized(&self, channel: u32) {
        if let Some(member) = self.members.get(&channel) {
            self.kernel.resized(&member.name);
        }
    }

    /// Has all calls stand still, where this kernel can do that.
    pub(crate) fn freeze(&mut self, frozen: bool) -> io::Result<()> {
        self.kernel.freeze(frozen)
    }
}
