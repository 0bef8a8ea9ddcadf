//! The worker's side.

use std::error::Error;
use std::fs::File;
use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::{Failure, Line, MOST_FILES, PROCESS, Refusal, Request};
use crate::read::ReadError;
use crate::work::{Input, Options, describe};

/// How often progress is told.
const STEP: u64 = 32 << 20;

/// Answers as a worker if this process was started as one. `seal` closes it in
/// once it has its files. Call it first in `main`, and end with the code that it
/// returns.
pub fn hook<E: Error + 'static>(seal: impl FnOnce() -> Result<(), E>) -> Option<ExitCode> {
    if std::env::args_os().next().is_none_or(|name| name != PROCESS) {
        return None;
    }
    let line = match take(io::stdin().as_fd()) {
        Err(error) => failure(Refusal::Other, &error),
        Ok((request, files)) => match inputs(request.names, files) {
            Err(error) => failure(Refusal::from(&error), &error),
            Ok(inputs) => match seal() {
                Err(error) => failure(Refusal::Other, &error),
                Ok(()) => answer(&inputs, request.threads),
            },
        },
    };
    // Nobody is left to tell if the pipe is closed.
    Some(if say(&line).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn inputs(names: Vec<String>, files: Vec<OwnedFd>) -> Result<Vec<Input>, ReadError> {
    names.into_iter().zip(files).map(|(name, file)| Input::new(name, File::from(file))).collect()
}

fn answer(inputs: &[Input], threads: usize) -> Line {
    let passed = AtomicU64::new(0);
    let told = Mutex::new(0);
    let tell = |count: u64| {
        let now = passed.fetch_add(count, Ordering::Relaxed) + count;
        if let Ok(mut told) = told.try_lock()
            && now >= *told + STEP
        {
            *told = now;
            let _ = say(&Line::Passed(now));
        }
    };
    let options = Options { threads: threads.clamp(1, 64), passed: &tell };
    match describe(inputs, &options) {
        Ok(description) => Line::Done(Box::new(description)),
        Err(error) => failure(Refusal::from(&error), &error),
    }
}

fn failure(refusal: Refusal, error: &dyn Error) -> Line {
    let mut causes = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    Line::Failed(Failure { refusal, what: error.to_string(), causes })
}

fn say(line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&text)?;
    out.flush()
}

/// The request and its files, in one message.
fn take(socket: impl AsFd) -> io::Result<(Request, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut text = vec![0; 1 << 18];
    let mut slices = [IoSliceMut::new(&mut text)];
    let received = recvmsg(socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            files.extend(rights);
        }
    }
    let request: Request = serde_json::from_slice(&text[..received.bytes])?;
    if request.names.len() != files.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok((request, files))
}
