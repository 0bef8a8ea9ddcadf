//! Kernel keyrings.

use std::io;

use crate::check;

/// Leaves the inherited session keyring for a new, empty, anonymous one.
pub fn join_new_session() -> io::Result<()> {
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_long = 1;
    // SAFETY: a null name asks for an anonymous keyring; nothing is read.
    let ret = unsafe {
        libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<u8>())
    };
    check(ret).map(drop)
}
