//! Hands descriptors to a stopped process.
//!
//! The process makes a pair of sockets, the host takes one end out of its table
//! (`pidfd_getfd`) and sends through it. So nothing has a name, no namespace is
//! entered, and Landlock has nothing to say.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{ForeignRawFd, PidfdGetfdFlags, pidfd_getfd};

use crate::refusal::{Doing, Refusal};
use crate::stopped::{Call, Stopped};

/// How many descriptors are handed over at most.
pub(crate) const DESCRIPTORS: usize = 64;

const RECVMSG: u64 = 47;
const CLOSE: u64 = 3;
const SOCKETPAIR: u64 = 53;

/// Where things lie in the room for arguments.
const HEADER: u64 = 64;
const PARTS: u64 = 128;
const BYTE: u64 = 192;
const CONTROL: u64 = 256;
const CONTROL_HEADER: usize = 16;

/// How lending ended.
#[derive(Debug)]
pub(crate) enum Lent {
    Done,
    /// The process could not be given them; nothing has changed.
    Never(Refusal),
    /// One of the calls failed, perhaps behind others that did not.
    Halfway(Refusal),
}

/// Lends descriptors to a process for the calls that `calls` makes of their
/// numbers. Afterwards it has none of them open.
pub(crate) fn lend(
    stopped: &Stopped<'_>,
    descriptors: &[BorrowedFd<'_>],
    calls: impl FnOnce(&[u64]) -> Vec<Call>,
) -> Lent {
    let ends = match pair(stopped) {
        Ok(ends) => ends,
        Err(refusal) => return Lent::Never(refusal),
    };
    let mut open = ends.clone();
    let outcome = match pass(stopped, &ends, descriptors) {
        Ok(received) => {
            open.extend(&received);
            stopped.run(&calls(&received)).map_or_else(Lent::Halfway, |_| Lent::Done)
        }
        Err(refusal) => Lent::Never(refusal),
    };
    let closing: Vec<Call> = open.into_iter().map(close).collect();
    match (outcome, stopped.run(&closing)) {
        (Lent::Done | Lent::Never(_), Err(refusal)) => Lent::Halfway(refusal),
        (outcome, _) => outcome,
    }
}

/// Has the process make two sockets, and answers their numbers.
fn pair(stopped: &Stopped<'_>) -> Result<Vec<u64>, Refusal> {
    let room = stopped.room();
    stopped.run(&[socketpair(room)])?;
    let mut bytes = [0; 8];
    stopped.peek(room, &mut bytes).doing("read its sockets")?;
    let (numbers, _) = bytes.as_chunks::<4>();
    Ok(numbers.iter().map(|&bytes| u32::from_le_bytes(bytes).into()).collect())
}

fn pass(
    stopped: &Stopped<'_>,
    ends: &[u64],
    descriptors: &[BorrowedFd<'_>],
) -> Result<Vec<u64>, Refusal> {
    let &[ours, theirs] = ends else { return Err(Refusal::Gone) };
    // Read from memory that a hostile process may share with others.
    let number = ForeignRawFd::try_from(ours)
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
        .doing("believe the number of its socket")?;
    let socket = pidfd_getfd(stopped.process().pidfd(), number, PidfdGetfdFlags::empty())
        .doing("take a socket of the process")?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Refusal::TooManyMappings { limit: DESCRIPTORS });
    }
    // Whatever a hostile process made of the number, this does not wait for it.
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(&socket, &[IoSlice::new(b"x")], &mut ancillary, flags)
        .doing("send a descriptor to the process")?;
    receive(stopped, theirs, descriptors.len())
}

fn receive(stopped: &Stopped<'_>, socket: u64, count: usize) -> Result<Vec<u64>, Refusal> {
    const CLOSE_ON_EXEC_NOW: u64 = 0x4000_0000 | 0x40;
    let room = stopped.room();
    let length = CONTROL_HEADER + 4 * count;
    let space = length.next_multiple_of(8) as u64;
    let header = [0, 0, room + PARTS, 1, room + CONTROL, space, 0];
    stopped.poke(room + HEADER, &header.map(u64::to_le_bytes).concat())?;
    stopped.poke(room + PARTS, &[room + BYTE, 1].map(u64::to_le_bytes).concat())?;
    stopped.run(&[Call {
        name: "recvmsg",
        number: RECVMSG,
        arguments: [socket, room + HEADER, CLOSE_ON_EXEC_NOW, 0, 0, 0],
    }])?;
    let mut control = vec![0; length];
    stopped.peek(room + CONTROL, &mut control).doing("read its descriptors")?;
    let (numbers, _) = control.get(CONTROL_HEADER..).unwrap_or_default().as_chunks::<4>();
    Ok(numbers.iter().map(|&bytes| u32::from_le_bytes(bytes).into()).collect())
}

fn socketpair(room: u64) -> Call {
    const UNIX: u64 = 1;
    const STREAM_CLOSE_ON_EXEC: u64 = 1 | 0x8_0000;
    Call {
        name: "socketpair",
        number: SOCKETPAIR,
        arguments: [UNIX, STREAM_CLOSE_ON_EXEC, 0, room, 0, 0],
    }
}

fn close(number: u64) -> Call {
    Call { name: "close", number: CLOSE, arguments: [number, 0, 0, 0, 0, 0] }
}
