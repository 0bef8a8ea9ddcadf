//! Cells of a table in a [`Window`], however long they are.

use crate::column::Text;
use crate::json::HEAD;
use crate::window::Window;

#[derive(Debug)]
pub(crate) struct Cells<'a> {
    pub(crate) window: Window<'a>,
    delimiter: u8,
    scratch: Vec<u8>,
    /// Cells that are not UTF-8, and where the first one is.
    pub(crate) not_utf8: Option<(u64, u64)>,
    /// Where a quote was opened that is not closed.
    pub(crate) open_quote: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell<'a> {
    pub(crate) text: Text<'a>,
    pub(crate) is_quoted: bool,
}

/// What comes after a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Cell,
    Row,
    File,
}

impl<'a> Cells<'a> {
    pub(crate) fn new(window: Window<'a>, delimiter: u8) -> Self {
        let scratch = Vec::with_capacity(HEAD);
        Self { window, delimiter, scratch, not_utf8: None, open_quote: None }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> (Cell<'_>, End) {
        let rest = self.window.rest();
        if rest.first() != Some(&b'"')
            && let Some(length) = find(rest, self.delimiter)
            && length <= HEAD
            && self.window.is_ascii()
        {
            let end = if rest[length] == b'\n' { End::Row } else { End::Cell };
            let begin = self.window.at;
            self.window.at += length + 1;
            let mut head = self.window.between(begin, begin + length);
            if end == End::Row {
                head = head.strip_suffix(b"\r").unwrap_or(head);
            }
            let text = Text { head, chars: head.len() as u64, is_whole: true };
            return (Cell { text, is_quoted: false }, end);
        }
        self.other()
    }

    /// Quoted, beyond ASCII, long, or not visible as a whole.
    fn other(&mut self) -> (Cell<'_>, End) {
        self.scratch.clear();
        let start = self.window.offset();
        let is_quoted = self.window.peek() == Some(b'"');
        let mut length = 0;
        let mut chars = 0;
        if is_quoted {
            self.window.at += 1;
            self.quoted(start, &mut length, &mut chars);
        }
        let end = self.plain(&mut length, &mut chars);
        if end != End::Cell && self.scratch.len() == length && self.scratch.ends_with(b"\r") {
            self.scratch.pop();
            length -= 1;
            chars -= 1;
        }
        let is_whole = length <= HEAD;
        if !self.scratch.is_ascii() {
            let error = str::from_utf8(&self.scratch).err();
            // The last character of what was cut may be cut as well.
            if let Some(error) = error.filter(|error| is_whole || error.error_len().is_some()) {
                let _ = error;
                self.not_utf8.get_or_insert((0, start)).0 += 1;
            } else if let Some(error) = error {
                self.scratch.truncate(error.valid_up_to());
            }
        }
        let text = Text { head: &self.scratch, chars, is_whole };
        (Cell { text, is_quoted }, end)
    }

    /// Up to the quote that closes, which two quotes do not.
    fn quoted(&mut self, start: u64, length: &mut usize, chars: &mut u64) {
        loop {
            let found = memchr::memchr(b'"', self.window.rest());
            let count = found.unwrap_or(self.window.rest().len());
            self.keep(count, length, chars);
            if found.is_none() {
                if !self.window.more(self.window.at) {
                    self.open_quote.get_or_insert(start);
                    return;
                }
                continue;
            }
            self.window.at += 1;
            if self.window.peek() != Some(b'"') {
                return;
            }
            self.keep(1, length, chars);
        }
    }

    /// Up to the delimiter or the end of the row.
    fn plain(&mut self, length: &mut usize, chars: &mut u64) -> End {
        loop {
            let found = find(self.window.rest(), self.delimiter);
            let count = found.unwrap_or(self.window.rest().len());
            self.keep(count, length, chars);
            if found.is_some() {
                let end = if self.window.peek() == Some(b'\n') { End::Row } else { End::Cell };
                self.window.at += 1;
                return end;
            }
            if !self.window.more(self.window.at) {
                return End::File;
            }
        }
    }

    /// Takes bytes of the cell; the first ones are kept.
    fn keep(&mut self, count: usize, length: &mut usize, chars: &mut u64) {
        let taken = &self.window.rest()[..count];
        *chars += taken.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() as u64;
        *length += count;
        let room = HEAD.saturating_sub(self.scratch.len());
        self.scratch.extend_from_slice(&taken[..room.min(count)]);
        self.window.at += count;
    }
}

/// The first delimiter or line feed.
#[inline]
fn find(bytes: &[u8], delimiter: u8) -> Option<usize> {
    for (number, chunk) in bytes.chunks_exact(8).take(3).enumerate() {
        let word = u64::from_le_bytes([
            chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7],
        ]);
        let found = has(word, delimiter) | has(word, b'\n');
        if found != 0 {
            return Some(number * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let done = bytes.len().min(24) / 8 * 8;
    memchr::memchr2(delimiter, b'\n', &bytes[done..]).map(|place| done + place)
}

/// The highest bit of each byte of `word` that is `byte`; right up to the first.
#[inline]
fn has(word: u64, byte: u8) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let zero_where_equal = word ^ (LOW * u64::from(byte));
    zero_where_equal.wrapping_sub(LOW) & !zero_where_equal & (LOW << 7)
}
