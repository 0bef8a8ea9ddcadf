//! The file that holds what an image took: in memory, sealed once it is full.
//!
//! Sealed, because processes map it privately: nobody must be able to change
//! beneath one of them what another one could have opened.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use belljar_sys::remote;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::process::Pid;

use crate::PAGE;
use crate::area::FileId;
use crate::refusal::{Doing, Refusal};

/// Pages of a process, one after the other.
#[derive(Debug)]
pub(crate) struct Memory {
    file: File,
    id: FileId,
    size: u64,
}

/// Memory to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) missing: Missing,
}

/// What to make of a page that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Refuse,
    /// Behind the end of a file there is nothing; to touch it is an error.
    Zeros,
}

/// A process that memory is taken from. It stands still.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) pid: Pid,
    /// Its `/proc/PID/mem`, which reads whatever the protection.
    pub(crate) memory: &'a File,
}

/// Taken in one step: small enough to stay in the processor's cache between
/// being read and being written.
const BLOCK: u64 = 256 << 10;
/// From here on a second thread pays.
const MUCH: u64 = 4 << 20;

/// A part of the file and where it comes from.
#[derive(Debug)]
struct Block {
    offset: u64,
    size: u64,
    pieces: Vec<Wanted>,
}

impl Memory {
    /// Takes memory of a process, packed in the order given.
    pub(crate) fn take(source: Source<'_>, wanted: &[Wanted]) -> Result<Self, Refusal> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("belljar-image", flags).doing("make a file in memory")?;
        let file = File::from(fd);
        let blocks = blocks(wanted);
        let size = blocks.last().map_or(0, |block| block.offset + block.size);
        file.set_len(size).doing("size a file in memory")?;
        fill(&file, source, &blocks, size)?;
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).doing("seal a file in memory")?;
        let stat = rustix::fs::fstat(&file).doing("look at a file in memory")?;
        let id = FileId {
            major: rustix::fs::major(stat.st_dev),
            minor: rustix::fs::minor(stat.st_dev),
            inode: stat.st_ino,
        };
        Ok(Self { file, id, size })
    }

    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Refusal> {
        self.file.read_exact_at(into, offset).doing("read an image")
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn blocks(wanted: &[Wanted]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut offset = 0;
    for piece in wanted {
        let mut start = piece.start;
        while start < piece.end {
            let room = match blocks.last() {
                Some(last) if last.size < BLOCK && last.pieces.len() < remote::PIECES => {
                    BLOCK - last.size
                }
                _ => {
                    blocks.push(Block { offset, size: 0, pieces: Vec::new() });
                    BLOCK
                }
            };
            let size = room.min(piece.end - start);
            if let Some(last) = blocks.last_mut() {
                last.pieces.push(Wanted { start, end: start + size, ..*piece });
                last.size += size;
            }
            start += size;
            offset += size;
        }
    }
    blocks
}

fn fill(file: &File, source: Source<'_>, blocks: &[Block], size: u64) -> Result<(), Refusal> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut buffer = vec![0u8; usize::try_from(BLOCK).unwrap_or(0)];
        while let Some(block) = blocks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let length = usize::try_from(block.size).unwrap_or(0);
            let Some(part) = buffer.get_mut(..length) else { break };
            read_block(source, &block.pieces, part)?;
            file.write_all_at(part, block.offset).doing("fill a file in memory")?;
        }
        Ok(())
    };
    if size < MUCH {
        return work();
    }
    std::thread::scope(|scope| {
        let second = scope.spawn(work);
        let first = work();
        let second = second.join().unwrap_or_else(|_| {
            Err(io::Error::from(io::ErrorKind::Other)).doing("copy on a second thread")
        });
        first.and(second)
    })
}

fn read_block(source: Source<'_>, pieces: &[Wanted], into: &mut [u8]) -> Result<(), Refusal> {
    let list: Vec<remote::Piece> = pieces
        .iter()
        .map(|piece| (piece.start, usize::try_from(piece.end - piece.start).unwrap_or(0)))
        .collect();
    match remote::read(source.pid, into, &list) {
        Ok(length) if length == into.len() => return Ok(()),
        // Protected, or behind the end of a file: page by page.
        Ok(_) => {}
        Err(error) if error.raw_os_error() == Some(EFAULT) => {}
        Err(error) => return Err(error).doing("read its memory"),
    }
    let pages = pieces.iter().flat_map(|piece| {
        (piece.start..piece.end).step_by(PAGE_STEP).map(|address| (address, piece.missing))
    });
    for ((address, missing), page) in pages.zip(into.chunks_mut(PAGE_STEP)) {
        if source.memory.read_exact_at(page, address).is_err() {
            match missing {
                Missing::Refuse => return Err(Refusal::Unreadable { address }),
                Missing::Zeros => page.fill(0),
            }
        }
    }
    Ok(())
}

const EFAULT: i32 = 14;
const PAGE_STEP: usize = 4096;
const _: () = assert!(PAGE_STEP as u64 == PAGE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_packed_and_bounded() {
        let piece = |start: u64, pages: u64| Wanted {
            start,
            end: start + pages * PAGE,
            missing: Missing::Refuse,
        };
        let blocks = blocks(&[piece(0x1000, 1), piece(0x9000, 100), piece(0x100_0000, 1)]);
        assert_eq!(blocks.len(), 2);
        assert_eq!((blocks[0].offset, blocks[0].size), (0, BLOCK));
        assert_eq!(blocks[1].offset, BLOCK);
        assert_eq!(blocks[1].size, 102 * PAGE - BLOCK);
        assert_eq!(blocks[1].pieces.last().unwrap().start, 0x100_0000);
    }
}
