//! User and group ids of the calling thread.
//!
//! The raw calls are used on purpose: glibc's wrappers signal every thread of
//! the process, and deadlock in a child that was cloned from a threaded parent.

use std::io;

use crate::check;

/// Drops all supplementary groups.
pub fn clear_groups() -> io::Result<()> {
    // SAFETY: a length of 0 with a null list is valid and reads nothing.
    let ret = unsafe { libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) };
    check(ret).map(drop)
}

/// Becomes `uid` and `gid`, real, effective and saved alike.
pub fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: setresgid takes three integers.
    check(unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) })?;
    // SAFETY: setresuid takes three integers.
    check(unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) }).map(drop)
}

/// Takes `uid` and `gid` as effective ids; real and saved ones stay.
pub fn become_effective(uid: u32, gid: u32) -> io::Result<()> {
    let keep = libc::uid_t::MAX;
    // SAFETY: setresgid takes three integers.
    check(unsafe { libc::syscall(libc::SYS_setresgid, keep, gid, keep) })?;
    // SAFETY: setresuid takes three integers.
    check(unsafe { libc::syscall(libc::SYS_setresuid, keep, uid, keep) }).map(drop)
}

/// Acts on files as `uid` and `gid` until the next call; signals and other
/// rights stay the thread's own.
pub fn act_on_files_as(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: setfsgid takes one integer; it answers the old id, never an error.
    unsafe { libc::syscall(libc::SYS_setfsgid, gid) };
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_setfsuid, uid) };
    // The calls do not report failure: asking again with an impossible id
    // answers what is in force.
    // SAFETY: as above.
    let gid_now = unsafe { libc::syscall(libc::SYS_setfsgid, -1) };
    // SAFETY: as above.
    let uid_now = unsafe { libc::syscall(libc::SYS_setfsuid, -1) };
    if uid_now == i64::from(uid) && gid_now == i64::from(gid) {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}
