//! Network namespaces: the loopback device, and sockets made inside another one.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use crate::check;
use crate::enter::enter;
use crate::process::{Namespaces, exit_now};

/// Brings up `lo` of the network namespace that the caller is in.
pub fn loopback_up() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: ifreq is plain bytes and integers, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *slot = byte.cast_signed();
    }
    let flags = libc::IFF_UP | libc::IFF_RUNNING;
    request.ifr_ifru.ifru_flags = i16::try_from(flags).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: SIOCSIFFLAGS reads one ifreq, which outlives the call.
    let ret = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    check(ret.into()).map(drop)
}

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 512;

/// A listener on 127.0.0.1 and a [`crate::diag`] socket, both of one namespace.
#[derive(Debug)]
pub struct Door {
    pub listener: OwnedFd,
    pub diagnosis: OwnedFd,
}

/// The calling thread's network namespace, to come back to.
pub fn own_namespace() -> io::Result<OwnedFd> {
    Ok(std::fs::File::open("/proc/thread-self/ns/net")?.into())
}

/// Makes a [`Door`] in the network namespace of the process behind `target`, a
/// pidfd, and comes back to `home`.
///
/// For processes with one thread: only the calling thread moves. One that cannot
/// come back exits at once, for it must not go on in a stranger's namespace.
pub fn door_into(target: BorrowedFd<'_>, home: BorrowedFd<'_>, port: u16) -> io::Result<Door> {
    enter(target, Namespaces::NET)?;
    let door = open_door(port);
    if enter(home, Namespaces::NET).is_err() {
        exit_now(1);
    }
    door
}

/// Makes a [`Door`] in the namespace that the caller is in.
pub fn open_door(port: u16) -> io::Result<Door> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    // Over connections that a listener before this one has closed. Two that
    // listen at the same time are refused all the same.
    sockopt::set_socket_reuseaddr(&listener, true)?;
    bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    listen(&listener, BACKLOG)?;
    Ok(Door { listener, diagnosis: crate::diag::open()? })
}

/// Whether two descriptors are of the same namespace.
pub fn is_same_namespace(one: impl AsFd, other: impl AsFd) -> io::Result<bool> {
    let (one, other) = (rustix::fs::fstat(one)?, rustix::fs::fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}
