//! Writes pages into a process.

use belljar_sys::remote;

use super::plan::{From, Write};
use crate::image::Image;
use crate::reference::Reference;
use crate::refusal::{Doing, Refusal};
use crate::stopped::Stopped;

/// How much is gathered before it is written in one call.
const BLOCK: usize = 256 << 10;

pub(super) fn write(
    stopped: &Stopped<'_>,
    image: &Image,
    reference: &Reference,
    writes: &[Write],
) -> Result<(), Refusal> {
    let mut gathered = Gathered { bytes: Vec::with_capacity(BLOCK), pieces: Vec::new() };
    for write in writes {
        let mut at = write.start;
        while at < write.end {
            if gathered.bytes.len() >= BLOCK || gathered.pieces.len() >= remote::PIECES {
                gathered.flush(stopped)?;
            }
            let room = BLOCK - gathered.bytes.len();
            let left = usize::try_from(write.end - at).unwrap_or(usize::MAX);
            let length = left.min(room);
            let begin = gathered.bytes.len();
            gathered.bytes.resize(begin + length, 0);
            let part = gathered.bytes.get_mut(begin..).unwrap_or_default();
            match write.from {
                From::Reference => reference.read(at, part)?,
                From::Memory { index, offset } => {
                    let memory = image.memories.get(index).ok_or(Refusal::Gone)?;
                    memory.read(offset + (at - write.start), part)?;
                }
            }
            if write.is_writable {
                gathered.pieces.push((at, length));
            } else {
                // Only the process itself is bound by the protection.
                stopped.poke(at, part)?;
                gathered.bytes.truncate(begin);
            }
            at += length as u64;
        }
    }
    gathered.flush(stopped)
}

struct Gathered {
    bytes: Vec<u8>,
    pieces: Vec<remote::Piece>,
}

impl Gathered {
    fn flush(&mut self, stopped: &Stopped<'_>) -> Result<(), Refusal> {
        if !self.bytes.is_empty() {
            let pid = stopped.process().pid();
            let written =
                remote::write(pid, &self.bytes, &self.pieces).doing("write its memory")?;
            if written != self.bytes.len() {
                let first = self.pieces.first().map_or(0, |piece| piece.0);
                return Err(Refusal::Unreadable { address: first });
            }
        }
        self.bytes.clear();
        self.pieces.clear();
        Ok(())
    }
}
