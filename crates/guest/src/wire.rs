//! The stream to the host: frames in with their descriptors, frames out.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use belljar_guest_proto::{Decoder, FromGuest, Header, encode_header};
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
    /// Frames on their way out are between `sent` and `end`; what is behind was
    /// used before and is overwritten, never filled anew.
    out: Vec<u8>,
    sent: usize,
    end: usize,
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
            end: 0,
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
        let mut frame = Vec::new();
        message.encode(&mut frame, channel);
        self.room(frame.len()).copy_from_slice(&frame);
        self.end += frame.len();
    }

    /// The next `want` bytes behind what waits to be sent.
    fn room(&mut self, want: usize) -> &mut [u8] {
        if self.out.len() < self.end + want {
            self.out.resize(self.end + want, 0);
        }
        &mut self.out[self.end..self.end + want]
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
        let mut header = Vec::with_capacity(Header::SIZE);
        empty.encode(&mut header, channel);
        let kind = header[4];
        let room = self.room(Header::SIZE + most);
        let count = read(&mut room[Header::SIZE..])?;
        if count > 0 {
            header.clear();
            encode_header(&mut header, kind, channel, count);
            room[..Header::SIZE].copy_from_slice(&header);
            self.end += Header::SIZE + count;
        }
        Ok(count)
    }

    /// Whether there is room to read more from calls and files.
    pub(crate) fn has_room(&self) -> bool {
        self.end - self.sent < OUTBOX_LIMIT
    }

    pub(crate) fn wants_to_send(&self) -> bool {
        self.sent < self.end
    }

    /// Writes as much as the host takes now.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.wants_to_send() {
            match rustix::io::write(&self.stream, &self.out[self.sent..self.end]) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        if self.sent == self.end {
            self.sent = 0;
            self.end = 0;
            // What one burst needs is kept for the next; more is given back.
            self.out.truncate(2 * OUTBOX_LIMIT);
            self.out.shrink_to(2 * OUTBOX_LIMIT);
        } else if self.sent > OUTBOX_LIMIT {
            self.out.copy_within(self.sent..self.end, 0);
            self.end -= self.sent;
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
