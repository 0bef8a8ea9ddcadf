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

/// A descriptor that the program around this library holds open.
pub fn borrowed(number: RawFd) -> io::Result<BorrowedFd<'static>> {
    // SAFETY: F_GETFD only asks whether the number is open.
    let ret = unsafe { libc::fcntl(number, libc::F_GETFD) };
    check(ret.into())?;
    // SAFETY: the number is open; that it stays so is the program's part.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

/// A copy of `fd` with a number of at least `lowest`.
pub fn above(fd: BorrowedFd<'_>, lowest: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes an integer.
    let ret = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, lowest) };
    check(ret.into())?;
    // SAFETY: the call succeeded, so the number is new and nothing owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(ret) })
}

/// Closes the descriptor `number` when this process execs.
pub fn close_on_exec(number: RawFd) -> io::Result<()> {
    // SAFETY: F_SETFD takes an integer.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) }.into()).map(drop)
}

/// Closes one descriptor now, under the same contract as [`close_from`].
pub fn close_one(number: RawFd) -> io::Result<()> {
    // SAFETY: close takes an integer; the contract is about its owner.
    check(unsafe { libc::close(number) }.into()).map(drop)
}

/// Closes every descriptor from `first` on, now. Whoever owned one must never
/// use or close it again: for a process that has just been forked.
pub fn close_from(first: RawFd) -> io::Result<()> {
    let first = libc::c_uint::try_from(first).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: close_range takes integers; the contract above is about owners.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) }).map(drop)
}
