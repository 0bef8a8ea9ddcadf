//! The end of a sandbox: kill, wait, remove.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, WaitOptions, pidfd_send_signal, waitpid};

use super::{Sandbox, Spawner};
use crate::cgroup::SandboxGroup;
use crate::jail::{Attempt, Failure};

/// How long a killed sandbox may take to be gone.
const DEATH: Duration = Duration::from_secs(10);

impl Spawner {
    /// Waits for the dead and removes what they had.
    pub(super) fn bury(&self, sandbox: &Sandbox) -> Result<(), Failure> {
        if sandbox.is_loose {
            self.end_tree(sandbox);
        }
        // The first process takes its pid namespace with it, and is gone only
        // when the last one of it has been reaped: by us, if a zygote forked
        // it. One that is stuck in the kernel must not hold up everybody else.
        let dead = self.await_death(sandbox, DEATH).doing("wait for the sandbox's end")?;
        let late = || io::Error::from(io::ErrorKind::TimedOut);
        if !dead {
            return Err(Failure::new("see the sandbox end; its user ids stay reserved", &late()));
        }
        if sandbox.is_loose && !self.end_orphans(sandbox).doing("end what a guest has left")? {
            return Err(Failure::new(
                "see the last process end; its user ids stay reserved",
                &late(),
            ));
        }
        let _ = waitpid(Some(sandbox.pid), WaitOptions::NOHANG);
        if let Some(group) = &sandbox.group {
            remove_group(group).doing("remove the cgroups")?;
        }
        if let Some(work) = &sandbox.work {
            remove_work(work).doing("remove the working directory")?;
        }
        Ok(())
    }
}

impl Spawner {
    /// Waits until the first process of a sandbox is dead, and reaps meanwhile. `false`: it lives.
    pub(super) fn await_death(&self, sandbox: &Sandbox, longest: Duration) -> io::Result<bool> {
        crate::wait::deadline(longest, |left| {
            let mut fds = [
                PollFd::new(&sandbox.pidfd, PollFlags::IN),
                PollFd::new(&self.children, PollFlags::IN),
            ];
            rustix::event::poll(&mut fds, Some(&left))?;
            let [died, ended] = fds.map(|fd| !fd.revents().is_empty());
            if ended {
                self.reap()?;
            }
            Ok(died)
        })
    }

    /// Removes what there is of a sandbox that was not born.
    pub(super) fn clear(
        &self,
        left: Option<(Pid, OwnedFd)>,
        slot: (u32, u32),
        group: Option<SandboxGroup>,
        work: Option<PathBuf>,
    ) -> Result<(), Failure> {
        if let Some((pid, pidfd)) = left {
            let (socket, birth, is_loose) = (None, None, false);
            let sandbox = Sandbox { pid, pidfd, slot, group, work, socket, birth, is_loose };
            kill(&sandbox);
            return self.bury(&sandbox);
        }
        if let Some(group) = &group {
            remove_group(group).doing("remove the cgroups")?;
        }
        work.map_or(Ok(()), |work| remove_work(&work)).doing("remove the working directory")
    }
}

pub(super) fn kill(sandbox: &Sandbox) {
    if let Some(group) = &sandbox.group {
        // A frozen process dies at once of this, which is why it comes first.
        let _ = group.kill();
    }
    // The guest ends its calls before itself, where nothing else does.
    let signal = if sandbox.is_loose { Signal::TERM } else { Signal::KILL };
    let _ = pidfd_send_signal(&sandbox.pidfd, signal);
    if sandbox.is_loose {
        // One that its calls have stopped would not read the signal.
        let _ = pidfd_send_signal(&sandbox.pidfd, Signal::CONT);
    }
}

/// Removes the groups of a sandbox whose processes are gone or going.
fn remove_group(group: &SandboxGroup) -> io::Result<()> {
    crate::wait::until(Duration::from_secs(10), || match group.remove() {
        Ok(()) => Ok(Some(())),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            // Something may have been born between the kill and the end.
            group.kill()?;
            Ok(None)
        }
        Err(error) => Err(error),
    })
}

/// Removes what code left in its working directory.
fn remove_work(work: &Path) -> io::Result<()> {
    match (work.parent(), work.file_name()) {
        (Some(parent), Some(name)) => crate::state::remove_tree(parent, name),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}
