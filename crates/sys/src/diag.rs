//! Whose a TCP socket is, as the kernel says: sock_diag(7).
//!
//! One exact connection is asked for, never a list, so an answer takes
//! microseconds however many there are. A socket's cgroup is that of the process
//! which *made* it: what inherits it, or is handed it, does not change whose it is.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// As in `socket:[…]` of `/proc/PID/fd`; 0 when no process holds it any more.
    pub inode: u32,
    /// Of the process that made it, in the user namespace of whoever opened the
    /// diagnosis socket.
    pub uid: u32,
    /// The v2 cgroup of the process that made it, by the inode number of its
    /// directory; 0 when the kernel does not tell.
    pub cgroup: u64,
}

/// A socket that answers for the network namespace that the caller is in, for as
/// long as it is open and wherever it is handed.
pub fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let protocol = Some(netlink::SOCK_DIAG);
    Ok(socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?)
}

/// Questions are numbered, and one is asked at a time: an answer is there when
/// the question has been sent.
static SEQUENCE: Mutex<u32> = Mutex::new(0);

const HEADER: usize = 16;
const REQUEST: usize = HEADER + 56;
const MESSAGE: usize = HEADER + 72;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const TCP: u8 = 6;
const INET_DIAG_CGROUP_ID: u16 = 21;

/// Where in a message they are, its header included.
const UID: usize = HEADER + 64;
const INODE: usize = HEADER + 68;

/// Finds the TCP socket that is bound to `local` and connected to `remote`;
/// `None` when there is none.
pub fn find(socket: impl AsFd, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Found>> {
    let mut sequence = SEQUENCE.lock().unwrap_or_else(PoisonError::into_inner);
    *sequence = sequence.wrapping_add(1);
    let request = question(*sequence, local, remote)?;
    send(&socket, &request, SendFlags::empty())?;
    let mut answer = [0u8; 1024];
    loop {
        let (count, _) = match recv(&socket, &mut answer[..], RecvFlags::empty()) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        let answer = &answer[..count.min(1024)];
        if u32_at(answer, 8) == Some(*sequence) {
            return read(answer);
        }
    }
}

fn question(sequence: u32, local: SocketAddr, remote: SocketAddr) -> io::Result<[u8; REQUEST]> {
    let family = match (local.ip(), remote.ip()) {
        (IpAddr::V4(_), IpAddr::V4(_)) => libc::AF_INET,
        (IpAddr::V6(_), IpAddr::V6(_)) => libc::AF_INET6,
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let mut out = [0u8; REQUEST];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &u32::try_from(REQUEST).unwrap_or(0).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &NLM_F_REQUEST.to_ne_bytes());
    put(8, &sequence.to_ne_bytes());
    put(HEADER, &[u8::try_from(family).unwrap_or(0), TCP]);
    // All states.
    put(HEADER + 4, &u32::MAX.to_ne_bytes());
    put(HEADER + 8, &local.port().to_be_bytes());
    put(HEADER + 10, &remote.port().to_be_bytes());
    for (at, address) in [(HEADER + 12, local.ip()), (HEADER + 28, remote.ip())] {
        match address {
            IpAddr::V4(address) => put(at, &address.octets()),
            IpAddr::V6(address) => put(at, &address.octets()),
        }
    }
    // Any cookie.
    put(HEADER + 48, &[0xff; 8]);
    Ok(out)
}

fn read(answer: &[u8]) -> io::Result<Option<Found>> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    match u16_at(answer, 4).ok_or_else(malformed)? {
        NLMSG_ERROR => {
            let errno = u32_at(answer, HEADER).ok_or_else(malformed)?.cast_signed();
            match -errno {
                libc::ENOENT => Ok(None),
                errno => Err(io::Error::from_raw_os_error(errno)),
            }
        }
        SOCK_DIAG_BY_FAMILY => {
            let uid = u32_at(answer, UID).ok_or_else(malformed)?;
            let inode = u32_at(answer, INODE).ok_or_else(malformed)?;
            Ok(Some(Found { inode, uid, cgroup: cgroup(answer.get(MESSAGE..).unwrap_or(&[])) }))
        }
        _ => Err(malformed()),
    }
}

/// The cgroup among the attributes.
fn cgroup(mut attributes: &[u8]) -> u64 {
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let length = usize::from(length);
        if length < 4 || length > attributes.len() {
            return 0;
        }
        if kind == INET_DIAG_CGROUP_ID {
            let value = attributes[4..length].try_into();
            return value.map_or(0, u64::from_ne_bytes);
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    0
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests;
