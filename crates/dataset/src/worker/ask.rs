//! The side of whoever asks.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IoSlice, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};

use super::{Failure, Line, MOST_FILES, PROCESS, Refusal, Request};
use crate::describe::Description;

/// More than any description of 128 files is long.
const LONGEST: u64 = 256 << 20;

/// Why a worker gave no description.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error("cannot describe {0} files at once: the maximum is {MOST_FILES}")]
    TooMany(usize),
    #[error("cannot start the worker that reads the files")]
    Start(#[source] io::Error),
    #[error("cannot pass the files to the worker")]
    Hand(#[source] io::Error),
    /// What it says about a file.
    #[error("{what}")]
    Refused { refusal: Refusal, what: String, causes: Vec<String> },
    #[error("the worker that read the files ended early ({0})")]
    Died(ExitStatus),
    #[error("cannot parse the worker's response")]
    Answer(#[source] io::Error),
}

impl WorkerError {
    /// Whether another file might not have led to it.
    pub(super) fn is_about_a_file(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Died(_) | Self::Answer(_))
    }
}

/// Describes open files in a sealed process. `executable` is one whose `main`
/// begins with [`super::hook`]. `passed` is told how many bytes were read so far.
pub fn describe_sealed(
    executable: &Path,
    files: &[(String, File)],
    threads: usize,
    mut passed: impl FnMut(u64),
) -> Result<Description, WorkerError> {
    if files.len() > MOST_FILES {
        return Err(WorkerError::TooMany(files.len()));
    }
    let (own, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|errno| WorkerError::Start(errno.into()))?;
    let mut child = Killed(start(executable, theirs).map_err(WorkerError::Start)?);
    hand(&own, files, threads).map_err(WorkerError::Hand)?;
    let Some(stdout) = child.0.stdout.take() else {
        return Err(WorkerError::Answer(io::ErrorKind::BrokenPipe.into()));
    };
    let mut lines = BufReader::new(stdout.take(LONGEST));
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).map_err(WorkerError::Answer)? == 0 {
            let status = child.0.wait().map_err(WorkerError::Answer)?;
            return Err(WorkerError::Died(status));
        }
        match serde_json::from_slice(&line).map_err(|error| WorkerError::Answer(error.into()))? {
            Line::Passed(bytes) => passed(bytes),
            Line::Done(description) => return Ok(*description),
            Line::Failed(failure) => {
                let Failure { refusal, what, causes } = failure;
                return Err(WorkerError::Refused { refusal, what, causes });
            }
        }
    }
}

/// Nothing of ours outlives us.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(executable: &Path, socket: OwnedFd) -> io::Result<Child> {
    Command::new(executable)
        .arg0(PROCESS)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(socket))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

fn hand(socket: &OwnedFd, files: &[(String, File)], threads: usize) -> io::Result<()> {
    let names = files.iter().map(|(name, _)| name.clone()).collect();
    let request = serde_json::to_vec(&Request { names, threads })?;
    let descriptors: Vec<BorrowedFd<'_>> = files.iter().map(|(_, file)| file.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let sent = sendmsg(socket, &[IoSlice::new(&request)], &mut ancillary, SendFlags::NOSIGNAL)?;
    if sent < request.len() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
}
