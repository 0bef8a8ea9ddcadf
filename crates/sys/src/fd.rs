//! Descriptors that came from elsewhere.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::check;

/// Takes ownership of a descriptor that this program was started with.
///
/// Call it once for each number, first thing in `main`: the number must not be
/// owned by anything else in the process.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD only asks whether the number is open.
    let ret = unsafe { libc::fcntl(number, libc::F_GETFD) };
    check(ret.into())?;
    // SAFETY: the number is open, and by this function's contract unowned.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Makes `fd` the descriptor `number` as well, to stay open over an exec.
pub fn place_at(fd: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    if fd.as_raw_fd() == number {
        // SAFETY: F_SETFD takes an integer.
        return check(unsafe { libc::fcntl(number, libc::F_SETFD, 0) }.into()).map(drop);
    }
    // SAFETY: dup2 takes two numbers. Whatever Rust value owned `number` before
    // now owns the copy, which is why this is only called right before an exec.
    check(unsafe { libc::dup2(fd.as_raw_fd(), number) }.into()).map(drop)
}

/// Closes every descriptor from `first` on when this process execs.
pub fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    let first = libc::c_uint::try_from(first).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: close_range with CLOEXEC only sets flags.
    let ret = unsafe {
        libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    check(ret).map(drop)
}
