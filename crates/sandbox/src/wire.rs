//! Messages with descriptors, between the engine, the spawner and its children.
//!
//! All three are our own processes, so the format is whatever serde makes of
//! the types; nothing of a sandbox ever speaks it.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use belljar_model::{SandboxId, Spec};
use belljar_sys::process::WaitStatus;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::defence::Weakened;
use crate::jail::Failure;
use crate::plan::Facts;

/// From the engine to the spawner.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToSpawner {
    /// First message; carries the guest's program and the engine's lock.
    Init {
        state: PathBuf,
        engine: u32,
        facts: FactsWire,
        groups: bool,
    },
    /// Carries the files to begin with, if there are any, then what an
    /// interpreter to be forked needs, if one is.
    Create {
        sequence: u64,
        id: SandboxId,
        spec: Box<Spec>,
        weakened: Weakened,
        /// The zygote that may enter it.
        zygote: Option<u32>,
        files: bool,
        /// What to ask of the zygote as soon as there is a sandbox to enter.
        fork: Option<Vec<u8>>,
    },
    /// Carries the library that forks.
    StartZygote {
        sequence: u64,
        number: u32,
        spec: Box<Spec>,
        argv: Vec<CString>,
        env: Vec<CString>,
    },
    EndZygote {
        number: u32,
    },
    Destroy {
        sequence: u64,
        id: SandboxId,
    },
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct FactsWire {
    pub(crate) landlock_abi: u32,
    pub(crate) privileged: bool,
    pub(crate) ipv6: bool,
}

impl From<Facts> for FactsWire {
    fn from(facts: Facts) -> Self {
        let Facts { landlock_abi, privileged, ipv6 } = facts;
        Self { landlock_abi, privileged, ipv6 }
    }
}

impl From<FactsWire> for Facts {
    fn from(facts: FactsWire) -> Self {
        let FactsWire { landlock_abi, privileged, ipv6 } = facts;
        Self { landlock_abi, privileged, ipv6 }
    }
}

/// From the spawner to the engine.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromSpawner {
    Ready,
    /// Carries the stream, a pidfd, then the scratch if there is one.
    Created {
        sequence: u64,
        first_uid: u32,
        pid: u32,
        work: Option<PathBuf>,
    },
    /// Carries its socket and what it complains to.
    ZygoteStarted {
        sequence: u64,
        pid: u32,
        uid: u32,
    },
    Destroyed {
        sequence: u64,
    },
    /// An interpreter that a zygote forked has ended; the spawner is who
    /// inherits them.
    Ended {
        pid: u32,
        status: Ended,
    },
    Failed {
        sequence: u64,
        failure: Failure,
    },
}

/// How a process ended, as its parent learns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    Exited(i32),
    Signaled(i32),
}

impl From<WaitStatus> for Ended {
    fn from(status: WaitStatus) -> Self {
        match status {
            WaitStatus::Exited(code) => Self::Exited(code),
            WaitStatus::Signaled(signal) => Self::Signaled(signal),
        }
    }
}

/// From the spawner to a child that builds its sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToChild {
    /// Carries `tasks` files, then layers, binds, and the disk if there is one.
    Go { tasks: usize, layers: usize, binds: usize, disk: bool },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromChild {
    Built,
    Failed(Failure),
}

const LONGEST: usize = 32 << 10;
const MOST_DESCRIPTORS: usize = 64;

pub(crate) fn send<T: Serialize>(
    socket: &impl AsFd,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let body = postcard::to_allocvec(message).map_err(|_| io::ErrorKind::InvalidInput)?;
    if body.len() > LONGEST || descriptors.len() > MOST_DESCRIPTORS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    send_bytes(socket, &body, descriptors)
}

/// Sends what somebody else has made of a message.
pub(crate) fn send_bytes(
    socket: &impl AsFd,
    body: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    loop {
        match sendmsg(socket, &[io::IoSlice::new(body)], &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Receives one message; `UnexpectedEof` when the peer is gone.
pub(crate) fn receive<T: DeserializeOwned>(socket: &impl AsFd) -> io::Result<(T, Vec<OwnedFd>)> {
    let mut body = vec![0u8; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let mut parts = [io::IoSliceMut::new(&mut body)];
        match recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(got) => break got,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    };
    if got.flags.intersects(ReturnFlags::CTRUNC | ReturnFlags::TRUNC) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            descriptors.extend(fds);
        }
    }
    let message =
        postcard::from_bytes(&body[..got.bytes]).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok((message, descriptors))
}
