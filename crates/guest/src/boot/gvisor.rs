//! In a container on gVisor's kernel, started as its root.
//!
//! The host sees one process there, so calls are told apart by gVisor's own
//! cgroups, which only the guest gets to see.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use belljar_confine::rights::GUEST;
use belljar_confine::{Attempt as _, Failure};
use belljar_sys::{caps, fd};
use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};

use super::{Booted, steps};
use crate::groups::Groups;
use crate::rights::Rights;

/// The mount point of the groups, out of sight of calls.
const PLACE: &str = "/.belljar/groups";

pub(super) fn boot() -> Result<Booted, Failure> {
    let stream = fd::inherited(steps::STREAM).doing("find the stream")?;
    let groups = mount_all()?;
    let _ = belljar_sys::keyring::join_new_session();
    steps::become_guest(GUEST)?;
    caps::set_no_new_privs().doing("forbid new privileges")?;
    let groups = Groups::version_1(groups).doing("make groups for calls")?;
    Ok(Booted {
        stream,
        rights: Rights::effective(GUEST).doing("reduce capabilities")?,
        groups: Some(groups),
        // Its randomness and its clocks are the host's: `getrandom` is passed
        // on, so two copies of one memory draw different numbers.
        own_kernel: false,
    })
}

const QUIET: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Mounts what counts CPU time and memory of each call, and what limits tasks.
/// The kernel has a hierarchy for each controller, whoever else may see it.
fn mount_all() -> Result<[OwnedFd; 3], Failure> {
    for dir in ["/.belljar", PLACE] {
        match rustix::fs::mkdir(dir, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno).doing("make a place for groups"),
        }
    }
    mount("groups", PLACE, "tmpfs", QUIET, c"mode=0700").doing("hide the groups")?;
    let groups = [mount_one("cpuacct")?, mount_one("memory")?, mount_one("pids")?];
    // Calls share the guest's mounts, and no owner or mode of a directory keeps out root with the
    // profile `full`: it could leave its group, or raise the limit. So no path leads there.
    mount("none", PLACE, "tmpfs", QUIET | MountFlags::RDONLY, c"mode=0")
        .doing("cover the groups")?;
    Ok(groups)
}

fn mount_one(controller: &str) -> Result<OwnedFd, Failure> {
    let place = format!("{PLACE}/{controller}");
    rustix::fs::mkdir(&*place, Mode::from_raw_mode(0o700)).doing("make a place for groups")?;
    let option = CString::new(controller).unwrap_or_default();
    mount("groups", &*place, "cgroup", QUIET, &*option).doing("mount gVisor's groups")?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // While it belongs to root: the guest has no right to open directories of others.
    let groups = rustix::fs::open(&*place, flags, Mode::empty()).doing("open gVisor's groups")?;
    own(&place)?;
    Ok(groups)
}

/// Makes a directory the guest's, for when it is not root any more.
fn own(place: &str) -> Result<(), Failure> {
    let (uid, gid) = (Uid::from_raw(steps::GUEST_UID), Gid::from_raw(steps::GUEST_UID));
    rustix::fs::chmod(place, Mode::from_raw_mode(0o700)).doing("close the groups to others")?;
    rustix::fs::chown(place, Some(uid), Some(gid)).doing("own the groups")
}
