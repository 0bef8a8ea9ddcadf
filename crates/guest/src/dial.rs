//! Connections that the host makes to ports inside, and those that it accepts.
//!
//! Only loopback, only TCP, and only where the guest is pid 1: that is where the
//! loopback is the sandbox's own. Both directions flow by credit and end apart
//! from each other, as they do in TCP.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use belljar_guest_proto::{Failure, FromGuest, Reply, WINDOW};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, connect, socket_with};

use crate::outcome::{Attempt, refuse};
use crate::wire::Wire;

/// What is read of a connection at once.
const PIECE: usize = 32 << 10;

pub(crate) struct Dial {
    pub(crate) socket: OwnedFd,
    state: State,
    /// Bytes that the host is ready to take.
    pub(crate) credit: u32,
    input: Vec<u8>,
    /// The host has said that no more comes.
    input_ended: bool,
    /// Neither direction needs the socket any more.
    read_closed: bool,
    write_closed: bool,
    /// The host has lost interest: what it sent is still delivered.
    pub(crate) abandoned: bool,
}

enum State {
    Connecting {
        /// Where to try next.
        next: Option<SocketAddr>,
        /// What the first attempt answered.
        refusal: Option<Errno>,
    },
    Connected,
    /// The connection broke, and the host knows.
    Broken,
}

impl Dial {
    pub(crate) fn start(port: u16) -> Result<Self, Failure> {
        if std::process::id() != 1 {
            return refuse("reach ports without a loopback of its own", Errno::OPNOTSUPP);
        }
        let mut next = Some(SocketAddr::from((Ipv6Addr::LOCALHOST, port)));
        let mut refusal = None;
        let first = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (socket, connected) = attempt(first, &mut next, &mut refusal)?;
        let waiting = State::Connecting { next, refusal };
        Ok(Self::new(socket, if connected { State::Connected } else { waiting }))
    }

    /// One that was made to a listener of the guest's own.
    pub(crate) fn accepted(socket: OwnedFd) -> Self {
        let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        Self::new(socket, State::Connected)
    }

    fn new(socket: OwnedFd, state: State) -> Self {
        Self {
            socket,
            state,
            credit: WINDOW,
            input: Vec::new(),
            input_ended: false,
            read_closed: false,
            write_closed: false,
            abandoned: false,
        }
    }

    /// Whether the answer to the request can be given at once.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected)
    }

    pub(crate) fn is_over(&self) -> bool {
        let done = self.write_closed && self.read_closed;
        let delivered = self.abandoned && (self.input.is_empty() || !self.is_connected());
        done || delivered || matches!(self.state, State::Broken)
    }

    /// What to wait for; nothing when nothing can move.
    pub(crate) fn interest(&self, room: bool) -> PollFlags {
        let mut flags = PollFlags::empty();
        match self.state {
            State::Connecting { .. } => flags |= PollFlags::OUT,
            State::Connected => {
                if self.wants_to_read(room) {
                    flags |= PollFlags::IN;
                }
                if !self.input.is_empty() {
                    flags |= PollFlags::OUT;
                }
            }
            State::Broken => {}
        }
        flags
    }

    fn wants_to_read(&self, room: bool) -> bool {
        room && self.credit > 0 && !self.read_closed && !self.abandoned
    }

    /// Begins anew with a host that knows none of its windows.
    pub(crate) fn renew(&mut self) {
        self.credit = WINDOW;
    }

    /// Takes what the host sends. `false`: it sent more than it may.
    pub(crate) fn take_input(&mut self, bytes: &[u8]) -> bool {
        if !self.write_closed {
            self.input.extend_from_slice(bytes);
        }
        self.input.len() <= WINDOW as usize
    }

    pub(crate) fn end_input(&mut self) {
        self.input_ended = true;
    }

    /// Finishes a connection that poll says is ready, or has failed.
    pub(crate) fn settle(&mut self, channel: u32, wire: &mut Wire) {
        let State::Connecting { next, refusal } = &mut self.state else { return };
        let answer = match rustix::net::sockopt::socket_error(&self.socket) {
            Ok(Ok(())) => Ok(true),
            Ok(Err(errno)) | Err(errno) => {
                let first = *refusal.get_or_insert(errno);
                match next.take() {
                    None => Err(first).doing("connect to the port"),
                    Some(address) => {
                        attempt(address, &mut None, refusal).map(|(socket, connected)| {
                            self.socket = socket;
                            connected
                        })
                    }
                }
            }
        };
        match answer {
            Ok(false) => {}
            Ok(true) => {
                self.state = State::Connected;
                wire.send(channel, &FromGuest::Reply(Ok(Reply::Done)));
            }
            Err(failure) => self.break_off(channel, wire, failure),
        }
    }

    fn break_off(&mut self, channel: u32, wire: &mut Wire, failure: Failure) {
        self.state = State::Broken;
        self.input.clear();
        if !self.abandoned {
            wire.send(channel, &FromGuest::Reply(Err(failure)));
        }
    }

    /// Moves what can move in both directions.
    pub(crate) fn pump(&mut self, channel: u32, wire: &mut Wire) {
        if self.is_connected()
            && let Err(failure) = self.pump_input(channel, wire)
        {
            self.break_off(channel, wire, failure);
        }
        if self.is_connected()
            && let Err(failure) = self.pump_output(channel, wire)
        {
            self.break_off(channel, wire, failure);
        }
    }

    fn pump_input(&mut self, channel: u32, wire: &mut Wire) -> Result<(), Failure> {
        if !self.input.is_empty() {
            match rustix::io::write(&self.socket, &self.input) {
                Ok(count) => {
                    self.input.drain(..count);
                    if !self.abandoned {
                        let count = u32::try_from(count).unwrap_or(0);
                        wire.send(channel, &FromGuest::Credit(count));
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(errno).doing("send to the port"),
            }
        }
        if self.input_ended && self.input.is_empty() && !self.write_closed {
            self.write_closed = true;
            // A peer that is gone already needs not be told.
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
        }
        Ok(())
    }

    fn pump_output(&mut self, channel: u32, wire: &mut Wire) -> Result<(), Failure> {
        if !self.wants_to_read(wire.has_room()) {
            return Ok(());
        }
        let most = PIECE.min(self.credit as usize);
        let data = FromGuest::Data(&[]);
        match wire.send_from(channel, &data, most, |room| rustix::io::read(&self.socket, room)) {
            Ok(0) => {
                self.read_closed = true;
                wire.send(channel, &FromGuest::Eof);
            }
            Ok(count) => self.credit -= u32::try_from(count).unwrap_or(self.credit),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno).doing("receive from the port"),
        }
        Ok(())
    }
}

/// Starts to connect, to `address` or else to `next`. Answers whether that is
/// done already; the first refusal is the one that is told.
fn attempt(
    address: SocketAddr,
    next: &mut Option<SocketAddr>,
    refusal: &mut Option<Errno>,
) -> Result<(OwnedFd, bool), Failure> {
    let mut address = address;
    loop {
        let answer = begin(address);
        let errno = match answer {
            Ok(begun) => return Ok(begun),
            Err(errno) => errno,
        };
        let first = *refusal.get_or_insert(errno);
        match next.take() {
            Some(other) => address = other,
            None => return Err(first).doing("connect to the port"),
        }
    }
}

fn begin(address: SocketAddr) -> Result<(OwnedFd, bool), Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    // Whoever is behind this passes on what others wrote, in pieces of their own.
    let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
    match connect(&socket, &address) {
        Ok(()) => Ok((socket, true)),
        Err(Errno::INPROGRESS | Errno::INTR) => Ok((socket, false)),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn other(port: u16) -> Option<SocketAddr> {
        Some(SocketAddr::from((Ipv6Addr::LOCALHOST, port)))
    }

    #[test]
    fn the_other_loopback_is_tried_next() {
        // A host without IPv6 has nothing to show here.
        let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else { return };
        let port = listener.local_addr().unwrap().port();
        let first = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut refusal = None;
        let mut next = other(port);
        let (socket, _) = attempt(first, &mut next, &mut refusal).unwrap();
        let mut dial = Dial::new(socket, State::Connecting { next, refusal });
        let (stream, _host) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut wire = Wire::new(stream.into()).unwrap();
        for _ in 0..2 {
            let flags = dial.interest(true);
            let mut fds = [rustix::event::PollFd::new(&dial.socket, flags)];
            rustix::event::poll(&mut fds, None).unwrap();
            dial.settle(1, &mut wire);
        }
        assert!(dial.is_connected());
        listener.accept().unwrap();
    }
}
