//! Whether a lock can be had without waiting.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::FlockOperation;

/// Tries to take the whole-file lock of `file`, which lasts until the last
/// copy of its descriptor is closed: also when the holder is killed.
pub fn try_exclusive(file: impl AsFd) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
