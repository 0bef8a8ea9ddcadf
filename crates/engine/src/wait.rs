//! Waiting for a condition, in a process without an event loop.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::Timespec;

/// Asks `ready` again and again, with growing pauses, until it answers a value.
pub(crate) fn until<T>(
    longest: Duration,
    mut ready: impl FnMut() -> io::Result<Option<T>>,
) -> io::Result<T> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(50);
    loop {
        if let Some(value) = ready()? {
            return Ok(value);
        }
        if start.elapsed() > longest {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let spec = rustix::thread::Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
        // Woken early by a signal, it just asks again sooner.
        let _ = rustix::thread::nanosleep(&spec);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// Lets `wait` wait, for as long as is left, until it answers `true`. `false`:
/// the time is over.
pub(crate) fn deadline(
    longest: Duration,
    mut wait: impl FnMut(Timespec) -> io::Result<bool>,
) -> io::Result<bool> {
    let start = Instant::now();
    loop {
        let left = longest.saturating_sub(start.elapsed());
        let spec =
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        if wait(spec)? {
            return Ok(true);
        }
        if left.is_zero() {
            return Ok(false);
        }
    }
}
