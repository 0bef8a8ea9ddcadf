//! Waiting for a condition, in a process without an event loop.

use std::io;
use std::time::{Duration, Instant};

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
