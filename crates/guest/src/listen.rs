//! Ports on which the guest listens for the host, where the host itself cannot.
//!
//! Whoever connects gets the next of those who wait; while nobody waits, the
//! kernel keeps connections back. As with connections that the host makes, the
//! guest listens only where the loopback is the sandbox's own.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use belljar_guest_proto::Failure;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, accept_with, bind, getsockname, listen, socket_with,
    sockopt,
};

use crate::dial::Dial;
use crate::outcome::{Attempt, refuse};

pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    /// Channels that wait for a connection, first come, first served.
    pub(crate) waiting: VecDeque<u32>,
}

const BACKLOG: i32 = 128;

/// Channels that may wait at one listener.
const MOST_WAITING: usize = 64;

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

impl Listener {
    /// Answers the port as well, which may be the kernel's choice.
    pub(crate) fn start(port: u16) -> Result<(Self, u16), Failure> {
        if std::process::id() != 1 {
            return refuse("listen without a loopback of its own", Errno::OPNOTSUPP);
        }
        Self::on(port)
    }

    fn on(port: u16) -> Result<(Self, u16), Failure> {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, FLAGS, None)
            .doing("make a listener")?;
        sockopt::set_socket_reuseaddr(&socket, true).doing("make a listener")?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).doing("take the port")?;
        listen(&socket, BACKLOG).doing("listen on the port")?;
        let bound = getsockname(&socket).doing("find out the port")?;
        let bound = SocketAddrV4::try_from(bound).doing("find out the port")?;
        Ok((Self { socket, waiting: VecDeque::new() }, bound.port()))
    }

    /// Has `channel` get a connection when one comes.
    pub(crate) fn wait(&mut self, channel: u32) -> Result<(), Failure> {
        if self.waiting.len() >= MOST_WAITING {
            return refuse("wait for more connections at once", Errno::BUSY);
        }
        self.waiting.push_back(channel);
        Ok(())
    }

    pub(crate) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A connection that has come, and whose it is now.
    pub(crate) fn accept(&mut self) -> Option<(u32, Dial)> {
        let channel = *self.waiting.front()?;
        loop {
            match accept_with(&self.socket, FLAGS) {
                Ok(socket) => {
                    self.waiting.pop_front();
                    return Some((channel, Dial::accepted(socket)));
                }
                // One that was given up while it waited is no reason to stop.
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn who_waited_first_is_served_first_and_nobody_is_before_anyone_waits() {
        let (mut listener, port) = Listener::on(0).unwrap();
        assert_ne!(port, 0);
        let _first = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(!listener.is_awaited());
        assert!(listener.accept().is_none());
        listener.wait(7).unwrap();
        listener.wait(9).unwrap();
        let (channel, dial) = listener.accept().unwrap();
        assert_eq!((channel, dial.is_connected()), (7, true));
        assert!(listener.accept().is_none());
        let _second = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert_eq!(listener.accept().unwrap().0, 9);
        for channel in 0..64 {
            listener.wait(channel).unwrap();
        }
        assert_eq!(listener.wait(64).unwrap_err().errno, Errno::BUSY.raw_os_error());
    }
}
