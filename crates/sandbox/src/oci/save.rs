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

use belljar_model::{Runtime, SandboxId};

use super::launch::{Desk, global_flags};

/// The files of a saved sandbox.
pub(crate) fn files(dir: &Path) -> PathBuf {
    dir.join("files")
}

/// Has the runtime write the sandbox's memory; it goes on if `goes_on`.
pub(crate) async fn checkpoint(
    program: &Path,
    desk: &Desk,
    id: &SandboxId,
    into: &Path,
    goes_on: bool,
) -> io::Result<()> {
    let mut command = tokio::process::Command::new(program);
    command.args(global_flags(Runtime::Runsc)).arg("--root").arg(desk.root());
    command.arg("checkpoint").arg("--compression=none").arg("--image-path").arg(into);
    if goes_on {
        command.arg("--leave-running");
    }
    command.arg(id.as_str()).env_clear().current_dir("/").kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    judge(&command.output().await?, "put the sandbox on disk")
}

/// Has the runtime stop everything in the sandbox, or let it go on. Takes some ten
/// milliseconds.
pub(crate) fn stand(program: &Path, desk: &Desk, id: &SandboxId, still: bool) -> io::Result<()> {
    let mut command = std::process::Command::new(program);
    command.args(global_flags(Runtime::Runsc)).arg("--root").arg(desk.root());
    command.arg(if still { "pause" } else { "resume" }).arg(id.as_str());
    command.env_clear().current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    judge(&command.output()?, if still { "pause the sandbox" } else { "let the sandbox go on" })
}

fn judge(output: &Output, doing: &str) -> io::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let words: String = words.trim().chars().take(1000).collect();
    Err(io::Error::other(format!("runsc could not {doing}; it says: {words}")))
}
