//! What is made once for all containers, and what is done to each from outside.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use belljar_domain::Runtime;
use belljar_sys::process::{Forked, Namespaces, die_with_parent, exit_now, fork};
use belljar_sys::seccomp::Instruction;
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, pidfd_send_signal, waitpid};
use rustix::thread::ThreadNameSpaceType;

use crate::archive::FromStart;
use crate::jail::mounts::container;
use crate::jail::parent::write_maps;
use crate::jail::{Attempt, Failure};
use crate::seccomp;
use crate::state::{Lease, SLOTS};

/// Namespaces without anybody in them, and whether the shared files are there.
#[derive(Default)]
pub(in crate::spawner) struct Ready {
    shared: bool,
    /// Maps of ranges of user ids, by their first.
    maps: BTreeMap<u32, OwnedFd>,
    /// Mount namespaces in which runtimes start: without cgroups, and with the
    /// devices' for runc.
    bare: Option<OwnedFd>,
    devices: Option<OwnedFd>,
    /// The spawner's own.
    own: Option<OwnedFd>,
}

impl Ready {
    /// Makes the files that containers share.
    pub(super) fn share(
        &mut self,
        dir: &Path,
        guest: &OwnedFd,
        filter: &[Instruction],
    ) -> Result<(), Failure> {
        if !self.shared {
            let guest = read_all(guest).doing("read the guest's program")?;
            let filter = seccomp::to_bytes(filter);
            let files = [("guest", &guest[..], 0o555), ("filter", &filter[..], 0o444)];
            container::shared_container(dir, &files)?;
            self.shared = true;
        }
        Ok(())
    }

    /// Makes the maps of all ranges of a lease.
    pub(super) fn map(&mut self, lease: u32) -> Result<(), Failure> {
        for slot in 0..SLOTS {
            let first_uid = Lease::first_uid(lease, slot);
            if let Entry::Vacant(place) = self.maps.entry(first_uid) {
                place.insert(new_map(first_uid)?);
            }
        }
        Ok(())
    }

    pub(super) fn map_of(&self, first_uid: u32) -> Option<BorrowedFd<'_>> {
        self.maps.get(&first_uid).map(AsFd::as_fd)
    }

    /// Makes the mount namespace of such runtimes, of which each container's has
    /// its own copy. Taking a mount out of sight waits for all of the kernel's
    /// readers, so that is done here once.
    pub(super) fn set_stage(&mut self, runtime: Runtime) -> Result<(), Failure> {
        let leave_devices = runtime == Runtime::Runc;
        let place = if leave_devices { &mut self.devices } else { &mut self.bare };
        if place.is_none() {
            *place = Some(new_stage(leave_devices)?);
        }
        if self.own.is_none() {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let own = rustix::fs::open("/proc/self/ns/mnt", flags, Mode::empty());
            self.own = Some(own.doing("open our own mount namespace")?);
        }
        Ok(())
    }

    /// Where a runtime starts, and where we are.
    pub(super) fn stage(&self, runtime: Runtime) -> Option<[BorrowedFd<'_>; 2]> {
        let stage = if runtime == Runtime::Runc { &self.devices } else { &self.bare };
        Some([stage.as_ref()?.as_fd(), self.own.as_ref()?.as_fd()])
    }
}

fn read_all(file: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut FromStart::new(file), &mut bytes)?;
    Ok(bytes)
}

/// Makes a namespace by a process that is only there for that, has it do
/// `within`, and keeps the namespace.
fn keep(
    namespace: Namespaces,
    name: &str,
    within: impl FnOnce() -> Result<(), Failure>,
    from_outside: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<OwnedFd, Failure> {
    let (done, tell) = pipe_with(PipeFlags::CLOEXEC).doing("make a pipe")?;
    let forked = fork(namespace, None).doing("make a namespace")?;
    let Forked::Parent { pid, pidfd } = forked else {
        let _ = die_with_parent();
        let status = within().err().map_or(0, |failure| failure.errno);
        let _ = rustix::io::write(&tell, &status.to_le_bytes());
        let long = rustix::thread::Timespec { tv_sec: 60, tv_nsec: 0 };
        let _ = rustix::thread::nanosleep(&long);
        exit_now(0);
    };
    drop(tell);
    let opened = (|| {
        let mut status = [0u8; 4];
        rustix::io::read(&done, &mut status).doing("wait for a namespace")?;
        let status = i32::from_le_bytes(status);
        if status != 0 {
            let error = io::Error::from_raw_os_error(status);
            return Err(Failure::new("prepare a namespace for containers", &error));
        }
        let proc = Path::new("/proc").join(pid.as_raw_nonzero().to_string());
        from_outside(&proc)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::open(proc.join("ns").join(name), flags, Mode::empty()).doing("open a namespace")
    })();
    let _ = pidfd_send_signal(&pidfd, Signal::KILL);
    let _ = wait(pid);
    opened
}

/// A user namespace with a range's map: what shows ids on disk as those of the
/// range.
fn new_map(first_uid: u32) -> Result<OwnedFd, Failure> {
    let map = |proc: &Path| write_maps(proc, true, first_uid);
    keep(Namespaces::USER, "user", || Ok(()), map)
}

fn new_stage(leave_devices: bool) -> Result<OwnedFd, Failure> {
    keep(Namespaces::MOUNT, "mnt", || container::stage(leave_devices), |_| Ok(()))
}

/// Does for the container's namespaces what a jail does for its own. The procfs
/// inside shows none of these settings, so no runtime could be asked to.
pub(super) fn limit_namespaces(pidfd: &OwnedFd, ipv6: bool) -> Result<(), Failure> {
    let forked = fork(Namespaces::NONE, None).doing("enter the container's namespaces")?;
    let Forked::Parent { pid, .. } = forked else {
        let done = limit_from_within(pidfd, ipv6);
        exit_now(done.err().map_or(0, |error| error.raw_os_error().unwrap_or(1)));
    };
    let status = wait(pid).doing("wait for the limits of the container's namespaces")?;
    match status {
        Some(0) => Ok(()),
        other => {
            let errno = io::Error::from_raw_os_error(other.unwrap_or(1));
            Err(Failure::new("limit the container's namespaces", &errno))
        }
    }
}

fn limit_from_within(pidfd: &OwnedFd, ipv6: bool) -> io::Result<()> {
    let namespaces = ThreadNameSpaceType::USER | ThreadNameSpaceType::NETWORK;
    rustix::thread::move_into_thread_name_spaces(pidfd.as_fd(), namespaces)?;
    let write = |name: &str, value: &str| std::fs::write(format!("/proc/sys/{name}"), value);
    write("user/max_inotify_instances", "32")?;
    write("user/max_inotify_watches", "16384")?;
    write("user/max_user_namespaces", "0")?;
    if ipv6 { write("net/ipv6/conf/all/disable_ipv6", "1") } else { Ok(()) }
}

/// Waits for a child of our own and answers its exit status.
fn wait(pid: Pid) -> io::Result<Option<i32>> {
    loop {
        match waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status.exit_status()),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
