//! Steps that several places have in common.

use std::os::fd::AsFd;

use belljar_confine::{Attempt as _, Failure};
use belljar_sys::{caps, fd, identity};
use rustix::fs::{Mode, OFlags};

/// Where a container's stream is: of all descriptors a runtime passes on those
/// of stdio, and gVisor restores no others.
pub(super) const STREAM: i32 = 0;

/// The guest's own user, where it is not root.
pub(super) const GUEST_UID: u32 = 999;

/// What the guest keeps, to start calls as other users and to signal them.
pub(super) const GUEST_KEEPS: caps::Set =
    caps::Set::SETUID.and(caps::Set::SETGID).and(caps::Set::KILL);

/// Gives up all capabilities but `keep`, for this process and for all that it
/// ever starts, and being root with them. No exec follows, so what is kept need
/// not be ambient.
pub(super) fn become_guest(keep: caps::Set) -> Result<(), Failure> {
    reduce(keep)?;
    if rustix::process::getuid().is_root() {
        identity::clear_groups().doing("drop groups")?;
        caps::keep_over_setuid().doing("keep capabilities")?;
        identity::become_user(GUEST_UID, GUEST_UID).doing("become the guest's user")?;
    }
    caps::set(keep, caps::Set::EMPTY).doing("drop capabilities")
}

/// As [`become_guest`], for a guest that stays root.
pub(super) fn stay_root(keep: caps::Set) -> Result<(), Failure> {
    identity::clear_groups().doing("drop groups")?;
    reduce(keep)?;
    caps::set(keep, caps::Set::EMPTY).doing("drop capabilities")
}

/// Makes sure that no exec gives back what is not kept, as far as this kernel
/// and whoever started the guest allow.
fn reduce(keep: caps::Set) -> Result<(), Failure> {
    let held = caps::effective().doing("read capabilities")?;
    let may = held.0 & caps::Set::SETPCAP.0 != 0;
    if may {
        let setup = keep.and(caps::Set::SETPCAP).and(GUEST_KEEPS);
        caps::set(setup, caps::Set::EMPTY).doing("reduce capabilities")?;
        caps::drop_bounding().doing("empty the bounding set")?;
        // gVisor has no such bits: there, an empty bounding set and
        // `no_new_privs` have to do.
        let locked = caps::lock_securebits();
        if locked.as_ref().is_err_and(|error| error.kind() != std::io::ErrorKind::InvalidInput) {
            return locked.doing("lock the secure bits");
        }
    }
    caps::clear_ambient().doing("clear ambient capabilities")
}

/// Lets go of whatever the standard streams were.
pub(super) fn null_streams() -> Result<(), Failure> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .doing("open /dev/null")?;
    for number in 0..=2 {
        fd::place_at(null.as_fd(), number).doing("close the standard streams")?;
    }
    Ok(())
}
