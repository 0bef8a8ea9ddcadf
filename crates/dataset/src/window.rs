//! A file, seen through a window that moves over it once.
//!
//! Memory stays the same however large the file is, and whatever is in it; a
//! mapping would count what it touched as ours.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;

use crate::coding::Decoder;
use crate::content::Tally;
use crate::read::Job;

/// How a file is cut on its way. What is said about it does not depend on the first two,
/// and on nothing but its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    /// Bytes that are seen at once: few enough to stay in a core's own cache, and
    /// more than what is kept of a text or a number.
    pub(crate) window: usize,
    /// Bytes of JSON Lines that one thread reads at a time.
    pub(crate) block: u64,
    /// Values of a Parquet file that are read however short it is.
    pub(crate) values: u64,
}

impl Default for Cut {
    fn default() -> Self {
        let values = if cfg!(fuzzing) { 1 << 16 } else { 1 << 28 };
        Self { window: 256 << 10, block: 8 << 20, values }
    }
}

/// Where a window gets its bytes from.
#[derive(Debug)]
enum Bytes<'a> {
    File(&'a File),
    /// Goes forward only.
    Decoded(Box<Decoder<'a>>),
}

pub(crate) struct Window<'a> {
    bytes: Bytes<'a>,
    buffer: Box<[u8]>,
    /// What is visible and not yet read: `buffer[at..end]`.
    pub(crate) at: usize,
    end: usize,
    /// Where in the file the buffer begins.
    base: u64,
    /// Whether every byte that is visible is ASCII.
    is_ascii: bool,
    error: Option<io::Error>,
    tally: Option<Tally>,
    passed: Passed<'a>,
}

/// Told how many bytes were read, as it goes on.
pub(crate) type Passed<'a> = &'a (dyn Fn(u64) + Sync + 'a);

impl fmt::Debug for Window<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Window({} + {})", self.base, self.at)
    }
}

impl<'a> Window<'a> {
    /// From a place in the file on; `tally` hashes what passes.
    pub(crate) fn new(job: Job<'a>, from: u64, tally: Option<Tally>) -> Self {
        let Job { file, passed, cut, size, coding, .. } = job;
        let buffer = vec![0; cut.window].into_boxed_slice();
        let is_ascii = true;
        let bytes = match coding.is_plain() {
            true => Bytes::File(file),
            false => Bytes::Decoded(Box::new(Decoder::new(file, size, coding))),
        };
        Self { bytes, buffer, at: 0, end: 0, base: from, is_ascii, error: None, tally, passed }
    }

    /// Of the beginning, for a first look that is not told as progress.
    pub(crate) fn first(job: Job<'a>) -> Self {
        Self::new(Job { passed: &|_| {}, cut: Cut::default(), ..job }, 0, None)
    }

    /// Where in the file the next byte is.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// How many bytes of the file were seen so far, if it was read from its beginning.
    pub(crate) fn seen(&self) -> u64 {
        self.base + self.end as u64
    }

    pub(crate) fn is_ascii(&self) -> bool {
        self.is_ascii
    }

    /// What can be read without moving.
    #[inline]
    pub(crate) fn rest(&self) -> &[u8] {
        &self.buffer[self.at..self.end]
    }

    /// What was visible between two places.
    #[inline]
    pub(crate) fn between(&self, from: usize, until: usize) -> &[u8] {
        &self.buffer[from..until]
    }

    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        if self.at < self.end || self.more(self.at) { Some(self.buffer[self.at]) } else { None }
    }

    /// Forgets what is before `keep`, which moves to the buffer's begin together
    /// with everything behind it, and reads on. False at the end of the file, or
    /// if nothing may be forgotten.
    #[cold]
    pub(crate) fn more(&mut self, keep: usize) -> bool {
        debug_assert!(keep <= self.at);
        self.buffer.copy_within(keep..self.end, 0);
        self.base += keep as u64;
        self.at -= keep;
        self.end -= keep;
        if self.error.is_some() || self.end == self.buffer.len() {
            return false;
        }
        if self.end == 0 {
            self.is_ascii = true;
        }
        loop {
            let from = self.base + self.end as u64;
            let into = &mut self.buffer[self.end..];
            let read = match &mut self.bytes {
                Bytes::File(file) => file.read_at(into, from),
                Bytes::Decoded(decoder) => decoder.read(into),
            };
            match read {
                Ok(0) => return false,
                Ok(count) => {
                    let fresh = &self.buffer[self.end..self.end + count];
                    self.is_ascii &= fresh.is_ascii();
                    if let Some(tally) = &mut self.tally {
                        tally.pass(from, fresh);
                    }
                    self.end += count;
                    (self.passed)(count as u64);
                    return true;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.error = Some(error);
                    return false;
                }
            }
        }
    }

    /// Moves behind the next line feed; false if there is none.
    pub(crate) fn next_line(&mut self) -> bool {
        loop {
            match memchr::memchr(b'\n', self.rest()) {
                Some(place) => {
                    self.at += place + 1;
                    return true;
                }
                None => {
                    self.at = self.end;
                    if !self.more(self.at) {
                        return false;
                    }
                }
            }
        }
    }

    /// Looks at another place of the file. A file that is decoded stays where it is, if that
    /// place is not visible any more.
    pub(crate) fn seek(&mut self, offset: u64) {
        match offset.checked_sub(self.base).and_then(|at| usize::try_from(at).ok()) {
            Some(at) if at <= self.end => self.at = at,
            _ if matches!(self.bytes, Bytes::Decoded(_)) => {}
            _ => {
                self.base = offset;
                self.at = 0;
                self.end = 0;
            }
        }
    }

    /// Passes over the rest, so that it is hashed, up to `until`.
    pub(crate) fn drain(&mut self, until: u64) {
        while self.base + (self.end as u64) < until {
            self.at = self.end;
            if !self.more(self.at) {
                break;
            }
        }
    }

    /// What was hashed, unless the file could not be read.
    pub(crate) fn finish(self) -> io::Result<Option<Tally>> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.tally),
        }
    }
}
