//! Putting a gVisor sandbox on disk, and what lies there.
//!
//! The sentry's checkpoint (memory, processes, open files) is `*.img`; `files` is
//! the writable layer, as an archive.
//!
//! A restored sentry opens its files again by name and compares them, so the
//! archive keeps times to the nanosecond.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use belljar_domain::{Runtime, SandboxId};
use tokio::process::Command;

use super::launch::global_flags;
use crate::stillness::Saver;

/// How long the runtime may take to write a sandbox.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(120);

/// How long it may take to stop a sandbox, or to let it go on: some ten milliseconds as a rule.
const STAND_TIMEOUT: Duration = Duration::from_secs(10);

/// The files of a saved sandbox.
pub(crate) fn files(dir: &Path) -> PathBuf {
    dir.join("files")
}

/// Has the runtime write the sandbox's memory; it goes on if `goes_on`.
pub(crate) async fn checkpoint(
    saver: &Saver,
    id: &SandboxId,
    into: &Path,
    goes_on: bool,
) -> io::Result<()> {
    let mut command = command(saver);
    command.arg("checkpoint").arg("--compression=none").arg("--image-path").arg(into);
    if goes_on {
        command.arg("--leave-running");
    }
    command.arg(id.as_str());
    run(command, CHECKPOINT_TIMEOUT, "save the sandbox").await
}

/// Has the runtime stop everything in the sandbox, or let it go on.
pub(crate) async fn stand(saver: &Saver, id: &SandboxId, still: bool) -> io::Result<()> {
    let mut command = command(saver);
    command.arg(if still { "pause" } else { "resume" }).arg(id.as_str());
    let doing = if still { "pause the sandbox" } else { "resume the sandbox" };
    run(command, STAND_TIMEOUT, doing).await
}

fn command(saver: &Saver) -> Command {
    let mut command = Command::new(&saver.program);
    command.args(global_flags(Runtime::Runsc)).arg("--root").arg(saver.desk.root());
    command
}

/// Runs a command of the runtime. It is killed when its time is over, or when the caller
/// gives up because the sandbox ends.
async fn run(mut command: Command, longest: Duration, doing: &str) -> io::Result<()> {
    command.env_clear().current_dir("/").kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    match tokio::time::timeout(longest, command.output()).await {
        Ok(output) => judge(&output?, doing),
        Err(_) => {
            let text = format!("runsc could not {doing} in {} s", longest.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        }
    }
}

fn judge(output: &Output, doing: &str) -> io::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let words: String = words.trim().chars().take(1000).collect();
    Err(io::Error::other(format!("runsc could not {doing}: {words}")))
}
