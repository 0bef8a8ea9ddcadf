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

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use belljar_confine::descendants::{self, with_descendants};
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

impl Spawner {
    /// Waits for the guest to end all below it, or does it in its place and kills the guest.
    pub(super) fn end_tree(&self, sandbox: &Sandbox) {
        if self.await_death(sandbox, OWN_END).unwrap_or(false) {
            return;
        }
        // It starts nothing more.
        let _ = pidfd_send_signal(&sandbox.pidfd, Signal::STOP);
        // The rest comes to this process when the guest is dead, and is ended then.
        let _ = end_below(sandbox.pid.as_raw_nonzero().get().unsigned_abs());
        let _ = pidfd_send_signal(&sandbox.pidfd, Signal::KILL);
    }

    /// Ends what a dead guest has left. `false`: some of it is still there.
    pub(super) fn end_orphans(&self, sandbox: &Sandbox) -> io::Result<bool> {
        let proc = descendants::open_proc()?;
        descendants::end(&proc, LONGEST, || {
            self.reap()?;
            let orphans = self.orphans(&proc, sandbox);
            Ok(orphans.into_iter().flat_map(|pid| with_descendants(&proc, pid)).collect())
        })
    }

    /// Ends what guests have left that died by themselves, before anyone asks for the end of their
    /// sandboxes.
    pub(super) fn end_orphans_of_dead(&self) {
        for sandbox in self.sandboxes.values().filter(|sandbox| sandbox.is_loose) {
            if is_dead(sandbox) {
                // The rest is ended with the sandbox.
                let _ = self.end_orphans(sandbox);
            }
        }
    }

    /// The children of this process that have the user of a sandbox and that it did not start.
    fn orphans(&self, proc: &OwnedFd, sandbox: &Sandbox) -> Vec<u32> {
        let user = match self.facts.privileged {
            true => Lease::first_uid(sandbox.slot.0, sandbox.slot.1) + USER_UID,
            false => rustix::process::getuid().as_raw(),
        };
        let known = self.sandboxes.values().chain(self.zygotes.values());
        let known: Vec<u32> = known
            .chain([sandbox])
            .map(|known| known.pid.as_raw_nonzero().get().unsigned_abs())
            .collect();
        let mut found = descendants::children(proc, std::process::id());
        found.retain(|pid| !known.contains(pid) && user_of(proc, *pid) == Some(user));
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
