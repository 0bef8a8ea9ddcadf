//! Pid 1 of every sandbox.
//!
//! It speaks `guest-proto` on the stream that it inherits as descriptor 3, runs
//! commands, moves files and reaps what the commands leave behind. One thread,
//! one poll loop, no HTTP, no configuration, no environment. When the stream
//! ends it exits, and with it everything in its pid namespace.
//!
//! The code that it runs may be hostile: the guest has another uid than that
//! code, cannot be traced by it, and touches files only with that code's own
//! rights.

mod agent;
mod attributes;
mod call;
mod child;
mod confiner;
mod dial;
mod files;
mod outcome;
mod transfer;
mod walk;
mod watch;
mod wire;

use std::process::ExitCode;

use belljar_sys::{fd, process, signal};

/// Where the stream to the host is.
const STREAM: i32 = 3;

fn main() -> ExitCode {
    let Ok(stream) = fd::inherited(STREAM) else { return ExitCode::from(2) };
    // Second locks: the host kills by cgroup, the end of the stream is noticed
    // anyway, and pid 1 gets orphans without asking.
    let mut prepared = process::set_dumpable(false).and_then(|()| process::become_subreaper());
    if std::process::id() == 1 {
        // Elsewhere the guest has to end its calls itself, and needs to live
        // long enough for that.
        prepared = prepared.and_then(|()| process::die_with_parent());
    }
    if prepared.is_err() {
        return ExitCode::from(3);
    }
    // Whatever the host's processes ignored, calls start with the defaults.
    if signal::reset().is_err() {
        return ExitCode::from(3);
    }
    signal::ignore_broken_pipes();
    match agent::Agent::new(stream).and_then(agent::Agent::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(4),
    }
}
