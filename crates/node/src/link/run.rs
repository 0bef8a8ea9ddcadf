//! Data that waits, of whatever kinds and in whatever pieces it came.

use std::collections::VecDeque;

use belljar_guest_proto::CHUNK;

use super::queue::Incoming;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
    Data,
}

/// Pieces of data in their order. A piece of one byte takes little more than others: what it is
/// made of lies in one buffer.
#[derive(Debug, Default)]
pub(super) struct Run {
    bytes: VecDeque<u8>,
    pieces: VecDeque<(Stream, u32)>,
}

impl Run {
    /// Adds to the last piece if that is of the same stream.
    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let Ok(length) = u32::try_from(bytes.len()) else { return };
        match self.pieces.back_mut() {
            Some((last, held)) if *last == stream && (*held + length) as usize <= CHUNK => {
                *held += length;
            }
            _ => self.pieces.push_back((stream, length)),
        }
        self.bytes.extend(bytes);
    }

    pub(super) fn take(&mut self) -> Option<Incoming> {
        let (stream, length) = self.pieces.pop_front()?;
        let bytes = if self.pieces.is_empty() {
            Vec::from(std::mem::take(&mut self.bytes))
        } else {
            self.take_bytes(length as usize)
        };
        Some(match stream {
            Stream::Stdout => Incoming::Stdout(bytes),
            Stream::Stderr => Incoming::Stderr(bytes),
            Stream::Data => Incoming::Data(bytes),
        })
    }

    fn take_bytes(&mut self, length: usize) -> Vec<u8> {
        let mut taken = Vec::with_capacity(length);
        let (front, back) = self.bytes.as_slices();
        let first = length.min(front.len());
        taken.extend_from_slice(front.get(..first).unwrap_or(front));
        taken.extend_from_slice(back.get(..length - first).unwrap_or(back));
        self.bytes.drain(..length);
        taken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity() + self.pieces.capacity() * size_of::<(Stream, u32)>()
    }
}
