//! Signals as a descriptor.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use crate::check;

fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: sigset_t is plain integers, for which zeros are valid.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a live local.
    unsafe { libc::sigemptyset(&raw mut set) };
    for &signal in signals {
        // SAFETY: `set` is a live local; a wrong number is an error, ignored.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    set
}

/// Blocks `signals` and returns a descriptor that becomes readable when one is
/// pending.
pub fn descriptor(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = set_of(signals);
    // SAFETY: `set` is a live local and the old mask is not asked for.
    let ret = unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    check(ret.into())?;
    // SAFETY: -1 asks for a new descriptor; `set` outlives the call.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    check(fd.into())?;
    // SAFETY: the call succeeded, so `fd` is new and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Unblocks everything and gives every signal its default action again, as a
/// program that is about to be started expects.
pub fn reset() -> io::Result<()> {
    for signal in 1..=64 {
        if signal == libc::SIGKILL || signal == libc::SIGSTOP {
            continue;
        }
        // SAFETY: SIG_DFL is a valid action; the two numbers that libc keeps
        // for itself are refused with an error, which is ignored.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let none = set_of(&[]);
    // SAFETY: `none` is a live local and the old mask is not asked for.
    let ret =
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
    check(ret.into()).map(drop)
}

/// Undoes [`descriptor`] and [`ignore_broken_pipes`], before an exec.
pub fn reset_ours() -> io::Result<()> {
    // SAFETY: SIG_DFL is a valid action for SIGPIPE.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let none = set_of(&[]);
    // SAFETY: `none` is a live local and the old mask is not asked for.
    let ret =
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
    check(ret.into()).map(drop)
}

pub const CHILD: i32 = libc::SIGCHLD;
pub const TERMINATE: i32 = libc::SIGTERM;
pub const INTERRUPT: i32 = libc::SIGINT;
pub const HANGUP: i32 = libc::SIGHUP;
pub const BAD_SYSCALL: i32 = libc::SIGSYS;
pub const KILL: i32 = libc::SIGKILL;
pub const PIPE: i32 = libc::SIGPIPE;
/// The terminal has another size.
pub const RESIZED: i32 = libc::SIGWINCH;

/// Ignores SIGPIPE, so that writing to a closed pipe is an error and not death.
pub fn ignore_broken_pipes() {
    // SAFETY: SIG_IGN is a valid action for SIGPIPE.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Sends `signal` to the process or, when negative, to the group `-target`.
pub fn send(target: i32, signal: i32) -> io::Result<()> {
    // SAFETY: kill takes two integers.
    let ret = unsafe { libc::kill(target, signal) };
    check(ret.into()).map(drop)
}
