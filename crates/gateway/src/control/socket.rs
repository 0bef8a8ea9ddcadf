//! Packets to and from the node.

use std::io;
use std::os::fd::OwnedFd;

use belljar_peer_proto::gateway::{FromGateway, LONGEST, ToGateway, decode, encode};
use belljar_sys::packet;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// A stream in name only: it keeps packets apart.
#[derive(Debug)]
pub(super) struct Socket(UnixStream);

impl Socket {
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixStream::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self(UnixStream::from_std(socket)?))
    }

    /// The next request; none when the node is gone.
    pub(super) async fn receive(&self) -> io::Result<Option<(ToGateway, Vec<OwnedFd>)>> {
        loop {
            self.0.readable().await?;
            let receive = || packet::receive(&self.0, LONGEST);
            match self.0.try_io(Interest::READABLE, receive) {
                Ok((body, descriptors)) => match decode(&body) {
                    Ok(message) => return Ok(Some((message, descriptors))),
                    Err(unfit) => return Err(io::Error::new(io::ErrorKind::InvalidData, unfit)),
                },
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {}
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                        return Ok(None);
                    }
                    _ => return Err(error),
                },
            }
        }
    }

    /// Sends a message, in as many packets as its rows need.
    pub(super) async fn send(&self, message: &FromGateway) -> io::Result<()> {
        let mut waiting = vec![std::borrow::Cow::Borrowed(message)];
        while let Some(message) = waiting.pop() {
            match encode(&*message) {
                Ok(packet) => self.send_packet(&packet).await?,
                Err(_) => match &*message {
                    FromGateway::Rows { rows } if rows.len() > 1 => {
                        let (first, second) = rows.split_at(rows.len() / 2);
                        let rows = |rows: &[_]| FromGateway::Rows { rows: rows.to_vec() };
                        // The last in is the first out.
                        waiting.push(std::borrow::Cow::Owned(rows(second)));
                        waiting.push(std::borrow::Cow::Owned(rows(first)));
                    }
                    // A single row is far smaller, whatever is in it.
                    _ => return Err(io::ErrorKind::InvalidData.into()),
                },
            }
        }
        Ok(())
    }

    async fn send_packet(&self, packet: &[u8]) -> io::Result<()> {
        loop {
            self.0.writable().await?;
            let send = || packet::send(&self.0, packet, &[]);
            match self.0.try_io(Interest::WRITABLE, send) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return sent,
            }
        }
    }
}
