//! Steps that several places have in common.

use std::os::fd::AsFd;

use belljar_confine::{Attempt as _, Failure, rights};
use belljar_sys::{caps, fd, identity};
use rustix::fs::{Mode, OFlags};

#[cfg(doc)]
use crate::rights::Rights;
use crate::rights::lock_securebits;

/// Where a container's stream is: of all descriptors a runtime passes on those
/// of stdio, and gVisor restores no others.
pub(super) const STREAM: i32 = 0;

/// The guest's own user, where it is not root.
pub(super) const GUEST_UID: u32 = 999;

/// Gives up all capabilities but `keep` and those that it may give to root, and being root. No
/// exec follows, so what is kept need not be ambient.
pub(super) fn become_guest(keep: caps::Set) -> Result<(), Failure> {
    let keep = reduce(keep)?;
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
    let keep = reduce(keep)?;
    caps::set(keep, caps::Set::EMPTY).doing("drop capabilities")
}

/// Reduces capabilities to those that the guest keeps, and returns them. A guest that was started
/// with all capabilities of root keeps these until it is told the profile: [`Rights::settle`]
/// takes them away then, or lets it give them to root. For any other, no exec gives back what is
/// not kept, as far as this kernel and the starter of the guest allow.
fn reduce(keep: caps::Set) -> Result<caps::Set, Failure> {
    let held = caps::effective().doing("read capabilities")?;
    if held.has(rights::GRANTING) {
        let keep = keep.and(rights::GRANTING);
        caps::set(keep, caps::Set::EMPTY).doing("reduce capabilities")?;
        caps::clear_ambient().doing("clear ambient capabilities")?;
        return Ok(keep);
    }
    if held.has(caps::Set::SETPCAP) {
        let setup = keep.and(caps::Set::SETPCAP).and(rights::GUEST);
        caps::set(setup, caps::Set::EMPTY).doing("reduce capabilities")?;
        caps::drop_bounding().doing("empty the bounding set")?;
        lock_securebits().doing("lock the secure bits")?;
    }
    caps::clear_ambient().doing("clear ambient capabilities")?;
    Ok(keep)
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
