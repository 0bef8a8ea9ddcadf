//! The stream to the host: frames in with their descriptors, frames out.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use belljar_guest_proto::{Decoder, FromGuest, encode_header};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};

/// Output that may wait for the host before the guest stops reading more.
const OUTBOX_LIMIT: usize = 512 << 10;

/// Descriptors that may wait for the request they belong to.
const DESCRIPTOR_LIMIT: usize = 32;

pub(crate) struct Wire {
    stream: OwnedFd,
    pub(crate) decoder: Decoder,
    pub(crate) descriptors: VecDeque<OwnedFd>,
    out: Vec<u8>,
    sent: usize,
}

impl Wire {
    pub(crate) fn new(stream: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&stream, true)?;
        rustix::io::fcntl_setfd(&stream, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self {
            stream,
            decoder: Decoder::default(),
            descriptors: VecDeque::new(),
            out: Vec::new(),
            sent: 0,
        })
    }

    /// Reads once. `false`: the host has closed the stream.
    pub(crate) fn receive(&mut self) -> io::Result<bool> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let room = self.decoder.space();
        let mut parts = [io::IoSliceMut::new(room)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let got = match recvmsg(&self.stream, &mut parts, &mut control, flags) {
            Ok(got) => got,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(true),
            // Not a socket (a virtio port): descriptors cannot come this way.
            Err(Errno::NOTSOCK) => return self.receive_plain(),
            Err(errno) => return Err(errno.into()),
        };
        if got.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.descriptors.extend(fds);
            }
        }
        if self.descriptors.len() > DESCRIPTOR_LIMIT {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.decoder.filled(got.bytes);
        Ok(got.bytes > 0)
    }

    fn receive_plain(&mut self) -> io::Result<bool> {
        match rustix::io::read(&self.stream, self.decoder.space()) {
            Ok(count) => {
                self.decoder.filled(count);
                Ok(count > 0)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }

    pub(crate) fn send(&mut self, channel: u32, message: &FromGuest<'_>) {
        message.encode(&mut self.out, channel);
    }

    /// Sends what `read` puts behind a frame header; nothing when it reads
    /// nothing. The bytes go straight into the outbox.
    pub(crate) fn send_from(
        &mut self,
        channel: u32,
        empty: &FromGuest<'_>,
        most: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let mark = self.out.len();
        // An empty frame of the right kind, whose length is written again once
        // it is known.
        empty.encode(&mut self.out, channel);
        let kind = self.out[mark + 4];
        let body = self.out.len();
        self.out.resize(body + most, 0);
        let got = read(&mut self.out[body..]);
        let count = *got.as_ref().unwrap_or(&0);
        self.out.truncate(if count == 0 { mark } else { body + count });
        if count > 0 {
            let mut header = Vec::with_capacity(body - mark);
            encode_header(&mut header, kind, channel, count);
            self.out[mark..body].copy_from_slice(&header);
        }
        got
    }

    /// Whether there is room to read more from calls and files.
    pub(crate) fn has_room(&self) -> bool {
        self.out.len() - self.sent < OUTBOX_LIMIT
    }

    pub(crate) fn wants_to_send(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Writes as much as the host takes now.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.wants_to_send() {
            match rustix::io::write(&self.stream, &self.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
            // What one burst needs is kept for the next; more is given back.
            self.out.shrink_to(2 * OUTBOX_LIMIT);
        } else if self.sent > OUTBOX_LIMIT {
            self.out.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
