//! Runs a command of a build in a sandbox, and nowhere else.

use belljar_domain::{End, EndReason, Spec};
use belljar_node::{Command, Event};
use tokio::sync::watch;

use super::StepError;
use super::disk::StepDisk;
use super::network::StepNetwork;
use crate::keys::Tenant;
use crate::problem::Problem;
use crate::start::Actions;
use crate::tier::not_made;

/// Why a build is to stop before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Draining,
    TimedOut,
    Deleted,
}

/// Tells a build to stop.
pub(super) type Stopping = watch::Receiver<Option<Stop>>;

/// Waits until the build is to stop.
pub(super) async fn stopped(stopping: &Stopping) -> StepError {
    let mut stopping = stopping.clone();
    match stopping.wait_for(Option::is_some).await {
        Ok(stop) => StepError::Stopped((*stop).unwrap_or(Stop::Draining)),
        // Whoever could say so is gone.
        Err(_) => StepError::Stopped(Stop::Draining),
    }
}

/// Which stream a piece of output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// The sandbox of a command, and the command.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) actions: &'a Actions,
    pub(super) tenant: &'a Tenant,
    pub(super) spec: &'a Spec,
    pub(super) network: &'a mut StepNetwork,
    pub(super) command: &'a Command,
}

/// What is watched while the command runs.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    pub(super) stopping: &'a Stopping,
    /// Where it writes.
    pub(super) disk: &'a StepDisk,
}

/// Runs the command in a sandbox of its own. The sandbox is gone, and nothing
/// writes to its disk any more, when this answers.
pub(super) async fn run(
    job: Job<'_>,
    watch: Watch<'_>,
    mut output: impl FnMut(Stream, &[u8]),
) -> Result<End, StepError> {
    let Job { actions, tenant, spec, network, command } = job;
    let made = actions.node().create(spec).await;
    let sandbox = made.map_err(|error| StepError::refused(not_made(&error)))?;
    let running = async {
        let (way, rows) = (&network.network, &network.rows);
        let connected = actions.connect_machine(&sandbox, tenant, way, rows).await;
        connected.map_err(StepError::refused)?;
        let call = sandbox.start(command).await;
        let mut call = call.map_err(|error| StepError::Told(chain(&error)))?;
        loop {
            let (stream, bytes) = match call.next().await {
                Event::Stdout(bytes) => (Stream::Stdout, bytes),
                Event::Stderr(bytes) => (Stream::Stderr, bytes),
                Event::End(end) => return Ok(end),
            };
            network.read(&bytes);
            output(stream, &bytes);
        }
    };
    let ended = tokio::select! {
        ended = running => ended,
        stopped = stopped(watch.stopping) => Err(stopped),
        full = watch.disk.exhausted() => Err(full),
    };
    let gone = sandbox.destroy().await;
    gone.map_err(|error| Problem::internal("end the sandbox of a step", &error))?;
    ended
}

/// How a command ended, in the words of a log.
pub(super) fn shown(end: &End) -> String {
    match end.exit_code {
        Some(code) if end.reason == EndReason::Exit => format!("exit status {code}"),
        _ => format!("it ended with `{}`", end.reason),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}
