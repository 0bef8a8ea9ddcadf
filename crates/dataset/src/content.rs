//! What a file's bytes are: BLAKE3, the same as `b3sum` prints.
//!
//! Blocks are hashed where they are read, by whichever thread that is, and
//! their hashes are joined as BLAKE3's own tree would have.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use blake3::hazmat::{
    ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root,
};

use crate::read::Job;

/// Hashes a file by itself: what was read of it was not its bytes.
pub(crate) fn of_file(job: Job<'_>) -> io::Result<Option<String>> {
    let mut tally = Tally::new(0..job.size, job.size, job.cut.block);
    let mut buffer = vec![0; job.cut.window];
    let mut at = 0;
    loop {
        match job.file.read_at(&mut buffer, at)? {
            0 => break,
            count => tally.pass(at, &buffer[..count]),
        }
        at = tally.at;
        if at >= job.size {
            break;
        }
    }
    Ok(join(&tally.finish(), job.size, job.cut.block))
}

/// Hashes blocks of a file, as their bytes pass in order.
#[derive(Debug)]
pub(crate) struct Tally {
    /// The next byte to hash.
    at: u64,
    until: u64,
    /// The size of the file: a file of one block is hashed as a whole.
    size: u64,
    block: u64,
    hasher: blake3::Hasher,
    done: Vec<Subtree>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Subtree {
    /// Of one block of many.
    Part(ChainingValue),
    /// Of a file that is no larger than a block.
    Whole([u8; 32]),
}

impl Tally {
    /// From the beginning of a block to the end of one. A block is a power of two
    /// of at least 1 KiB, so that its hashes are a subtree.
    pub(crate) fn new(range: Range<u64>, size: u64, block: u64) -> Self {
        let Range { start: at, end } = range;
        Self { at, until: end.min(size), size, block, hasher: hasher(at), done: Vec::new() }
    }

    /// Bytes that passed before, or lie behind the end, are not counted.
    pub(crate) fn pass(&mut self, offset: u64, bytes: &[u8]) {
        let again = self.at.checked_sub(offset).and_then(|count| usize::try_from(count).ok());
        let Some(mut bytes) = again.and_then(|count| bytes.get(count..)) else { return };
        while !bytes.is_empty() && self.at < self.until {
            let end = (self.at / self.block + 1).saturating_mul(self.block).min(self.until);
            let room = usize::try_from(end - self.at).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.hasher.update(now);
            self.at += now.len() as u64;
            bytes = later;
            if self.at == end {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        let done = if self.size <= self.block {
            Subtree::Whole(*self.hasher.finalize().as_bytes())
        } else {
            Subtree::Part(self.hasher.finalize_non_root())
        };
        self.done.push(done);
        if self.at < self.until {
            self.hasher = hasher(self.at);
        }
    }

    pub(crate) fn finish(self) -> Vec<Subtree> {
        self.done
    }
}

fn hasher(offset: u64) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(offset);
    hasher
}

/// The hash of a whole file from those of all its blocks, in their order. None
/// if the file changed under way.
pub(crate) fn join(blocks: &[Subtree], size: u64, block: u64) -> Option<String> {
    let expected = usize::try_from(size.div_ceil(block)).ok()?;
    if blocks.len() != expected {
        return None;
    }
    let hash = match blocks {
        [] => blake3::hash(b""),
        [Subtree::Whole(hash)] => blake3::Hash::from_bytes(*hash),
        blocks => {
            let (left, right) = blocks.split_at(blocks.len().next_power_of_two() / 2);
            merge_subtrees_root(&subtree(left)?, &subtree(right)?, Mode::Hash)
        }
    };
    Some(hash.to_hex().to_string())
}

fn subtree(blocks: &[Subtree]) -> Option<ChainingValue> {
    match blocks {
        [Subtree::Part(value)] => Some(*value),
        [] | [Subtree::Whole(_)] => None,
        blocks => {
            let (left, right) = blocks.split_at(blocks.len().next_power_of_two() / 2);
            Some(merge_subtrees_non_root(&subtree(left)?, &subtree(right)?, Mode::Hash))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_hashed_apart_join_to_what_the_whole_hashes_to() {
        let block = 1 << 16;
        let bytes: Vec<u8> = (0..=250).cycle().take(3 * block + 4321).collect();
        for size in [0, 5000, block, block + 1, bytes.len()] {
            let bytes = &bytes[..size];
            let mut blocks = Vec::new();
            for from in (0..size).step_by(2 * block) {
                let range = from as u64..(from + 2 * block) as u64;
                let mut tally = Tally::new(range, size as u64, block as u64);
                for (number, piece) in bytes[from..].chunks(7001).enumerate() {
                    tally.pass((from + number * 7001) as u64, piece);
                }
                blocks.extend(tally.finish());
            }
            let want = blake3::hash(bytes).to_hex().to_string();
            assert_eq!(join(&blocks, size as u64, block as u64), Some(want), "{size}");
        }
        assert_eq!(join(&[], 1, 1024), None);
    }
}
