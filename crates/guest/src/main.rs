//! Pid 1 of every sandbox.
//!
//! It speaks `guest-proto` on a stream to the host, runs commands, moves files
//! and reaps what the commands leave behind. One thread, one poll loop, no HTTP,
//! no configuration, no environment. When the stream ends it exits, and with it
//! everything in its pid namespace, or the machine. Without either it ends its calls first.
//!
//! The code that it runs may be hostile: the guest has another uid than that
//! code, cannot be traced by it, and touches files only with that code's own
//! rights.

mod agent;
mod attributes;
mod boot;
mod call;
mod child;
mod confiner;
mod dial;
mod files;
mod groups;
mod leftovers;
mod listen;
mod outcome;
mod resolve;
mod rights;
mod transfer;
mod walk;
mod watch;
mod wire;

use std::process::ExitCode;

use belljar_sys::{process, signal};

use boot::{Booted, Stage};

fn main() -> ExitCode {
    let Some(stage) = Stage::of(std::env::args_os()) else { return ExitCode::from(2) };
    let status = match stage.boot() {
        Ok(booted) => serve(booted, stage),
        Err(failure) => {
            stage.complain(&failure);
            ExitCode::from(2)
        }
    };
    if stage == Stage::Machine {
        boot::end_machine();
    }
    status
}

fn serve(booted: Booted, stage: Stage) -> ExitCode {
    // Second locks: the host kills by cgroup, the end of the stream is noticed
    // anyway, and pid 1 gets orphans without asking.
    let mut prepared = process::set_dumpable(false).and_then(|()| process::become_subreaper());
    match stage {
        Stage::Jail if std::process::id() == 1 => {
            prepared = prepared.and_then(|()| process::die_with_parent());
        }
        Stage::Process { .. } => {
            // It ends its calls itself, and lives long enough for that.
            prepared = prepared.and_then(|()| process::signal_at_parents_end(signal::TERMINATE));
        }
        // The parent may be a runtime that ends at once.
        Stage::Jail | Stage::Oci { .. } | Stage::Gvisor | Stage::Machine => {}
    }
    if prepared.is_err() {
        return ExitCode::from(3);
    }
    // Whatever the host's processes ignored, calls start with the defaults.
    if signal::reset().is_err() {
        return ExitCode::from(3);
    }
    signal::ignore_broken_pipes();
    let orders = match stage {
        Stage::Process { .. } => signal::descriptor(&[signal::TERMINATE]).map(Some),
        _ => Ok(None),
    };
    let agent = orders.and_then(|orders| agent::Agent::new(booted, orders));
    let ran = agent.and_then(agent::Agent::run);
    if let Stage::Process { apart } = stage {
        leftovers::end(apart);
    }
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(4),
    }
}
