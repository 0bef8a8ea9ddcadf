//! The end of a sandbox whose processes neither a namespace nor a cgroup holds.
//!
//! ```text
//! guest is told to end ──► it ends all below it, then itself   the usual way
//!        │ too late
//!        ▼
//! guest is stopped, all below it is ended, guest is killed
//!        │
//!        ▼
//! what a dead guest left has come to the spawner, which ends it
//! ```
//!
//! The guest is a subreaper, and so is the spawner. A process that leaves its session and its parent
//! is below the guest while that lives, and a child of the spawner afterwards. The spawner has no
//! other children that it does not know.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use belljar_confine::descendants::{self, with_descendants};
use belljar_domain::SandboxId;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Signal, pidfd_send_signal};

use super::{Sandbox, Spawner};
use crate::plan::USER_UID;
use crate::state::Lease;
use crate::watch::user_of;

/// Longest time of a guest to end its calls and itself.
const OWN_END: Duration = Duration::from_secs(2);

/// Longest time that the spawner goes on ending processes; it serves nothing else meanwhile.
const LONGEST: Duration = Duration::from_secs(5);

/// The same, for what a guest has left that died by itself: no request waits for that.
const LONGEST_SWEEP: Duration = Duration::from_millis(100);

/// Pauses after sweeps that did not end everything. They double.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Sandboxes of dead guests whose processes outran a sweep, and the time of the next one.
#[derive(Debug, Default)]
pub(super) struct Sweeps(BTreeMap<SandboxId, Backoff>);

#[derive(Debug)]
struct Backoff {
    pause: Duration,
    until: Instant,
}

impl Sweeps {
    /// Returns true if some sandboxes are swept again without a signal.
    pub(super) fn is_pending(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn forget(&mut self, id: &SandboxId) {
        self.0.remove(id);
    }

    fn is_due(&self, id: &SandboxId, now: Instant) -> bool {
        self.0.get(id).is_none_or(|backoff| backoff.until <= now)
    }

    fn put_off(&mut self, id: SandboxId, now: Instant) {
        let pause = self.0.get(&id).map_or(FIRST_PAUSE, |before| before.pause * 2);
        let pause = pause.min(MAX_PAUSE);
        self.0.insert(id, Backoff { pause, until: now + pause });
    }
}

impl Spawner {
    /// Waits for the guest to end all below it, or does it in its place and kills the guest.
    pub(super) fn end_tree(&self, sandbox: &Sandbox) {
        if self.await_death(sandbox, OWN_END).unwrap_or(false) {
            return;
        }
        // It starts nothing more.
        let _ = pidfd_send_signal(&sandbox.pidfd, Signal::STOP);
        // If it is dead by now, another process may have its pid.
        if is_dead(sandbox) {
            return;
        }
        // The rest comes to this process when the guest is dead, and is ended then.
        let _ = end_below(sandbox.pid.as_raw_nonzero().get().unsigned_abs());
        let _ = pidfd_send_signal(&sandbox.pidfd, Signal::KILL);
    }

    /// Ends what a dead guest has left. `false`: some of it is still there.
    pub(super) fn end_orphans(&self, sandbox: &Sandbox) -> io::Result<bool> {
        self.end_orphans_within(LONGEST, sandbox)
    }

    fn end_orphans_within(&self, longest: Duration, sandbox: &Sandbox) -> io::Result<bool> {
        let proc = descendants::open_proc()?;
        descendants::end(&proc, longest, || {
            self.reap()?;
            let orphans = self.orphans(&proc, sandbox);
            Ok(orphans.into_iter().flat_map(|pid| with_descendants(&proc, pid)).collect())
        })
    }

    /// Ends what guests have left that died by themselves, before anyone asks for the end of their
    /// sandboxes. Some of it may outrun this: the rest is ended later, at the latest with the
    /// sandbox.
    pub(super) fn end_orphans_of_dead(&mut self) {
        let now = Instant::now();
        let is_wanted = |id: &SandboxId, sandbox: &Sandbox| {
            sandbox.is_loose && self.sweeps.is_due(id, now) && is_dead(sandbox)
        };
        let dead = self.sandboxes.iter().filter(|(id, sandbox)| is_wanted(id, sandbox));
        let dead: Vec<SandboxId> = dead.map(|(id, _)| id.clone()).collect();
        for id in dead {
            let Some(sandbox) = self.sandboxes.get(&id) else { continue };
            if self.end_orphans_within(LONGEST_SWEEP, sandbox).unwrap_or(false) {
                self.sweeps.forget(&id);
            } else {
                self.sweeps.put_off(id, Instant::now());
            }
        }
    }

    /// The children of this process that have the user of a sandbox and that it did not start.
    fn orphans(&self, proc: &OwnedFd, sandbox: &Sandbox) -> Vec<u32> {
        let user = match self.facts.privileged {
            true => Lease::first_uid(sandbox.slot.0, sandbox.slot.1) + USER_UID,
            false => rustix::process::getuid().as_raw(),
        };
        // The pid of one that is dead may be an orphan's by now.
        let is_known = |pid: u32| {
            let known = self.sandboxes.values().chain(self.zygotes.values()).chain([sandbox]);
            let mut same =
                known.filter(|known| known.pid.as_raw_nonzero().get().unsigned_abs() == pid);
            same.any(|known| !is_dead(known))
        };
        let mut found = descendants::children(proc, std::process::id());
        found.retain(|&pid| user_of(proc, pid) == Some(user) && !is_known(pid));
        found
    }
}

fn end_below(guest: u32) -> io::Result<bool> {
    let proc = descendants::open_proc()?;
    descendants::end(&proc, LONGEST, || {
        let mut found = with_descendants(&proc, guest);
        found.retain(|&pid| pid != guest);
        Ok(found)
    })
}

fn is_dead(sandbox: &Sandbox) -> bool {
    let mut fds = [PollFd::new(&sandbox.pidfd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_that_are_outrun_come_ever_less_often() {
        let (mut sweeps, id, now) =
            (Sweeps::default(), SandboxId::from_random([1; 16]), Instant::now());
        assert!(sweeps.is_due(&id, now) && !sweeps.is_pending());
        sweeps.put_off(id.clone(), now);
        assert!(sweeps.is_pending() && !sweeps.is_due(&id, now + FIRST_PAUSE / 2));
        assert!(sweeps.is_due(&id, now + FIRST_PAUSE));
        sweeps.put_off(id.clone(), now);
        assert!(!sweeps.is_due(&id, now + FIRST_PAUSE));
        (0..100).for_each(|_| sweeps.put_off(id.clone(), now));
        assert!(!sweeps.is_due(&id, now + MAX_PAUSE / 2) && sweeps.is_due(&id, now + MAX_PAUSE));
        sweeps.forget(&id);
        assert!(sweeps.is_due(&id, now) && !sweeps.is_pending());
    }
}
