//! The end of all that calls have left, where no pid namespace ends with the guest.
//!
//! The guest is the subreaper of its calls: whatever they start stays below it. So when nothing is
//! below it any more, nothing of them is left.

use std::io;
use std::time::Duration;

use belljar_confine::descendants::{self, with_descendants};
use belljar_sys::{process, signal};

/// Longest time that it goes on. The spawner ends the rest.
const LONGEST: Duration = Duration::from_secs(5);

/// Ends every process below this one. `is_apart`: a signal to all reaches nothing else.
pub(crate) fn end(is_apart: bool) {
    if is_apart {
        // One step of the kernel's: a process that forks meanwhile has the signal before it is done.
        let _ = signal::send(-1, signal::KILL);
    }
    // The rest, and the wait for the dead.
    let _ = end_below(std::process::id());
}

fn end_below(own: u32) -> io::Result<bool> {
    let proc = descendants::open_proc()?;
    descendants::end(&proc, LONGEST, || {
        while process::reap_any()?.is_some() {}
        let mut found = with_descendants(&proc, own);
        found.retain(|&pid| pid != own);
        Ok(found)
    })
}
