//! A file as the `parquet` crate reads it: by place, never by its offset.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// What pages may take of memory at once: those that are read, the dictionary and the page
/// before, which are kept until the next one is there. The worker has 256 MiB in all.
const MAX_PAGE_BYTES: u64 = 176 << 20;

/// More than the header of a page takes.
const HEADER_BYTES: usize = 512;

#[derive(Debug)]
pub(super) struct Source {
    file: Arc<File>,
    size: u64,
    /// Bytes that were read, and not told yet.
    count: Arc<AtomicU64>,
    /// The sizes of the dictionary and of the page that are in memory.
    dictionary: AtomicU64,
    page: AtomicU64,
}

impl Source {
    pub(super) fn new(file: Arc<File>, size: u64) -> Self {
        Self::of(file, size, Arc::default())
    }

    fn of(file: Arc<File>, size: u64, count: Arc<AtomicU64>) -> Self {
        Self { file, size, count, dictionary: AtomicU64::new(0), page: AtomicU64::new(0) }
    }

    /// The same file, for another column.
    pub(super) fn again(&self) -> Self {
        Self::of(Arc::clone(&self.file), self.size, Arc::clone(&self.count))
    }

    /// Returns false if there is no room for a page beside those that are in memory.
    fn has_room(&self, page: &Claim) -> bool {
        // What is not compressed is in memory once.
        let packed = if page.packed == page.unpacked { 0 } else { page.packed };
        let held = self.dictionary.load(Ordering::Relaxed) + self.page.load(Ordering::Relaxed);
        let place = if page.is_dictionary { &self.dictionary } else { &self.page };
        place.store(page.unpacked, Ordering::Relaxed);
        held + packed + page.unpacked <= MAX_PAGE_BYTES
    }

    pub(super) fn take_count(&self) -> u64 {
        self.count.swap(0, Ordering::Relaxed)
    }
}

impl Length for Source {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for Source {
    type T = BufReader<From>;

    /// Reads on from a place. Only headers of pages are read so.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        let (file, count) = (Arc::clone(&self.file), Arc::clone(&self.count));
        let from = From { file, at: start, count };
        let mut reader = BufReader::with_capacity(HEADER_BYTES, from);
        if Claim::read(reader.fill_buf()?).is_some_and(|claim| !self.has_room(&claim)) {
            return Err(ParquetError::General("the page is too large".to_owned()));
        }
        Ok(reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.checked_add(length as u64);
        if length as u64 > MAX_PAGE_BYTES || end.is_none_or(|end| end > self.size) {
            return Err(ParquetError::EOF("the page is not within the file".to_owned()));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        self.count.fetch_add(length as u64, Ordering::Relaxed);
        Ok(bytes.into())
    }
}

/// What a page's header claims. It is looked at before the page is unpacked: memory for what is
/// claimed is taken at once.
#[derive(Debug, PartialEq, Eq)]
struct Claim {
    is_dictionary: bool,
    unpacked: u64,
    packed: u64,
}

impl Claim {
    /// None unless the header is as all writers write it: its first three fields are the type and
    /// both sizes.
    fn read(header: &[u8]) -> Option<Self> {
        /// An `i32` whose number is the next one.
        const NEXT_INT: u8 = 0x15;
        const DICTIONARY: u64 = 2;
        let mut rest = header;
        let mut next = || {
            let (&NEXT_INT, more) = rest.split_first()? else { return None };
            let (value, more) = varint(more)?;
            rest = more;
            // Zigzag: the sign is the lowest bit. Sizes have none.
            Some(value >> 1)
        };
        let is_dictionary = next()? == DICTIONARY;
        Some(Self { is_dictionary, unpacked: next()?, packed: next()? })
    }
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let length = bytes.iter().take(5).position(|byte| byte & 0x80 == 0)? + 1;
    let (own, rest) = bytes.split_at_checked(length)?;
    Some((own.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f)), rest))
}

/// The rest of a file, from a place on.
#[derive(Debug)]
pub(super) struct From {
    file: Arc<File>,
    at: u64,
    count: Arc<AtomicU64>,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)? as u64;
        self.at += count;
        self.count.fetch_add(count, Ordering::Relaxed);
        usize::try_from(count).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_of_a_page_are_read_from_its_header() {
        let claim =
            |is_dictionary, unpacked, packed| Some(Claim { is_dictionary, unpacked, packed });
        let header = [0x15, 0, 0x15, 0xd8, 0x04, 0x15, 0x90, 0x03];
        assert_eq!(Claim::read(&header), claim(false, 300, 200));
        let header = [0x15, 4, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, 2];
        assert_eq!(Claim::read(&header), claim(true, (1 << 31) - 1, 1));
        for unknown in [
            &[][..],
            &[0x15],
            &[0x15, 0, 0x15],
            &[0x25, 0, 0x15, 2, 0x15, 2],
            &[0x15, 0, 0x15, 0x80],
        ] {
            assert_eq!(Claim::read(unknown), None, "{unknown:?}");
        }
    }

    #[test]
    fn pages_that_do_not_fit_beside_others_are_refused() {
        let source = Source::new(Arc::new(tempfile::tempfile().unwrap()), 0);
        let page = |mib: u64, packed: u64| Claim {
            is_dictionary: false,
            unpacked: mib << 20,
            packed: packed << 20,
        };
        assert!(source.has_room(&page(100, 60)));
        assert!(!source.has_room(&page(100, 60)), "the one before is still there");
        assert!(source.again().has_room(&page(100, 60)), "another column's is not");
        assert!(source.again().has_room(&page(176, 176)), "not compressed");
        assert!(!source.again().has_room(&page(2047, 1)));
    }
}
