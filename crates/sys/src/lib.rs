//! Linux calls that `rustix` does not cover, made safe.
//!
//! This is the only crate with `unsafe`. Every function takes and returns owned
//! or borrowed descriptors, never bare numbers, and adds no policy: what to
//! mount, limit or deny is decided above.
#![expect(unsafe_code, reason = "the one home of unsafe code: each block states why it is sound")]

pub mod caps;
pub mod clock;
pub mod diag;
pub mod enter;
pub mod exec;
mod export;
pub mod fd;
pub mod identity;
pub mod keyring;
pub mod landlock;
pub mod lock;
pub mod loopback;
pub mod mount;
pub mod net;
pub mod packet;
pub mod process;
pub mod ptrace;
pub mod random;
pub mod remote;
pub mod seccomp;
pub mod signal;
pub mod tree;

use std::io;

/// Turns the kernel's answer into a result.
fn check(ret: libc::c_long) -> io::Result<libc::c_long> {
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(ret) }
}
