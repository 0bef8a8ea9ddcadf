//! Messages with descriptors, between the engine, the spawner and its children.
//!
//! All three are our own processes, so the format is whatever serde makes of
//! the types; nothing of a sandbox ever speaks it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use belljar_domain::{SandboxId, Spec};
use belljar_sys::packet;
use belljar_sys::process::WaitStatus;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::defence::Weakened;
use crate::jail::Failure;
use crate::plan::Facts;
use crate::runner::Runner;

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
        /// The host's program that runs it, in tiers that have one.
        runner: Option<Box<Runner>>,
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
    /// Listen on a port of the sandbox's loopback.
    Listen {
        sequence: u64,
        id: SandboxId,
        port: u16,
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
    /// Carries the listener and a socket that tells whose connections are.
    Listening {
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
    /// Carries `tasks` files, then layers, binds, directories of datasets, and the
    /// disk if there is one.
    Go { tasks: usize, layers: usize, binds: usize, data: usize, disk: bool },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromChild {
    Built,
    Failed(Failure),
}

const LONGEST: usize = 32 << 10;

pub(crate) fn send<T: Serialize>(
    socket: &impl AsFd,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let body = postcard::to_allocvec(message).map_err(|_| io::ErrorKind::InvalidInput)?;
    if body.len() > LONGEST {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    packet::send(socket, &body, descriptors)
}

/// Receives one message; `UnexpectedEof` when the peer is gone.
pub(crate) fn receive<T: DeserializeOwned>(socket: &impl AsFd) -> io::Result<(T, Vec<OwnedFd>)> {
    let (body, descriptors) = packet::receive(socket, LONGEST)?;
    let message = postcard::from_bytes(&body).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok((message, descriptors))
}
