//! A file as the `parquet` crate reads it: by place, never by its offset.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// The largest page that is read. Up to three of them are in memory at once: the one before,
/// and the next one, compressed and not.
const MAX_PAGE_BYTES: u64 = 64 << 20;

/// More than the header of a page takes.
const HEADER_BYTES: usize = 512;

#[derive(Debug)]
pub(super) struct Source {
    file: Arc<File>,
    size: u64,
    /// Bytes that were read, and not told yet.
    count: Arc<AtomicU64>,
}

impl Source {
    pub(super) fn new(file: Arc<File>, size: u64) -> Self {
        Self { file, size, count: Arc::default() }
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
        if uncompressed(reader.fill_buf()?).is_some_and(|size| size > MAX_PAGE_BYTES) {
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

/// The size that a page's header claims for its content, if the header is as all writers write
/// it: the first two fields are the type and this size. It is looked at before the page is
/// unpacked: memory for what is claimed is taken at once.
fn uncompressed(header: &[u8]) -> Option<u64> {
    /// An `i32` whose number is the next one.
    const NEXT_INT: u8 = 0x15;
    let (&NEXT_INT, rest) = header.split_first()? else { return None };
    let (_, rest) = varint(rest)?;
    let (&NEXT_INT, rest) = rest.split_first()? else { return None };
    // Zigzag: the sign is the lowest bit. Sizes have none.
    Some(varint(rest)?.0 >> 1)
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
    fn the_size_of_a_page_is_read_from_its_header() {
        // A data page of 300 bytes, compressed to 200.
        assert_eq!(uncompressed(&[0x15, 0, 0x15, 0xd8, 0x04, 0x15, 0x90, 0x03]), Some(300));
        assert_eq!(
            uncompressed(&[0x15, 4, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f]),
            Some((1 << 31) - 1)
        );
        for unknown in
            [&[][..], &[0x15], &[0x15, 0, 0x15], &[0x25, 0, 0x15, 2], &[0x15, 0, 0x15, 0x80]]
        {
            assert_eq!(uncompressed(unknown), None, "{unknown:?}");
        }
    }
}
