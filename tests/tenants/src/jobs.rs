//! Runs each case in a process of its own, several side by side.
//!
//! A case spends most of its time waiting: for a server to start, for a lease to end, for one
//! connection after another. Processes share nothing, so each case is judged by its own log,
//! memory and gateways.

use std::env;
use std::process::Stdio;

use anyhow::Context as _;
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::Args;
use crate::cases::Case;

/// Returns the number of cases that failed.
pub(crate) async fn run(args: &Args, cases: &[&'static Case]) -> anyhow::Result<usize> {
    let (mut passed, mut failed) = (0, 0);
    let mut running = JoinSet::new();
    let mut waiting = cases.iter();
    loop {
        while running.len() < args.jobs.max(1)
            && let Some(case) = waiting.next()
        {
            running.spawn(start(case, args.bless)?);
        }
        let Some(ended) = running.join_next().await else { break };
        if ended?? { passed += 1 } else { failed += 1 }
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed)
}

/// Starts the process of a case. The future prints its output, and returns true if it passed.
fn start(
    case: &'static Case,
    bless: bool,
) -> anyhow::Result<impl Future<Output = anyhow::Result<bool>> + use<>> {
    let program = env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.args(["--only", case.id]).args(bless.then_some("--bless")).kill_on_drop(true);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    Ok(async move {
        let output = child.wait_with_output().await.with_context(|| case.id)?;
        print!("{}", String::from_utf8_lossy(&output.stdout));
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => {
                println!("{} FAIL: its process ended with {}", case.id, output.status);
                Ok(false)
            }
        }
    })
}
