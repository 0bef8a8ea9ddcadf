//! Tokens of JSON in a [`Window`], however long they are.

use super::escape::unescape;
use crate::column::Text;
use crate::number::{self, Number};
use crate::window::Window;

/// A longer text is known by its beginning and its length.
pub(crate) const HEAD: usize = 1024;
/// A longer number is no number that anything could hold.
const LONGEST_NUMBER: usize = 1024;

#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    pub(crate) window: Window<'a>,
    scratch: Vec<u8>,
    /// Texts that are not UTF-8, and where the first one is.
    pub(crate) not_utf8: Option<(u64, u64)>,
    /// Whether a value ends with its line at the latest.
    lines: Lines,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Values go over as many lines as they like.
    Any,
    /// What the line lacks is lacking: otherwise a hostile file would be read
    /// to its end once for each of its lines.
    One,
}

/// Why a value cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The file ends inside a value.
    End,
    /// Something else than JSON stands at the window's place.
    Invalid,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(window: Window<'a>, lines: Lines) -> Self {
        Self { window, scratch: Vec::with_capacity(HEAD), not_utf8: None, lines }
    }

    /// The next byte that is no white space, without taking it. None at the end,
    /// or at the end of the line.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.window.peek()? {
                b' ' | b'\r' | b'\t' => self.window.at += 1,
                b'\n' if self.lines == Lines::One => return None,
                b'\n' => self.window.at += 1,
                byte => return Some(byte),
            }
        }
    }

    #[inline]
    pub(crate) fn need(&mut self) -> Result<u8, Stop> {
        self.peek().ok_or(Stop::End)
    }

    /// Takes the byte that [`Scanner::peek`] showed.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.window.at += 1;
    }

    #[inline]
    pub(crate) fn expect(&mut self, byte: u8) -> Result<(), Stop> {
        if self.need()? != byte {
            return Err(Stop::Invalid);
        }
        self.advance();
        Ok(())
    }

    /// A text whose opening quote was taken.
    #[inline]
    pub(crate) fn text(&mut self) -> Result<Text<'_>, Stop> {
        let begin = self.window.at;
        let rest = self.window.rest();
        match find(rest) {
            Some(length)
                if rest[length] == b'"'
                    && length <= HEAD
                    && (self.window.is_ascii() || rest[..length].is_ascii()) =>
            {
                self.window.at += length + 1;
                let head = self.window.between(begin, begin + length);
                Ok(Text { head, chars: length as u64, is_whole: true })
            }
            _ => self.other_text(),
        }
    }

    /// With escapes, beyond ASCII, long, or not visible as a whole.
    fn other_text(&mut self) -> Result<Text<'_>, Stop> {
        let start = self.window.offset();
        let mut begin = self.window.at;
        let mut is_escaped = false;
        let mut seen = Seen::default();
        let length = loop {
            match find(self.window.rest()) {
                Some(place) if self.window.rest()[place] == b'"' => {
                    self.window.at += place;
                    break self.window.at - begin;
                }
                Some(place) if self.window.rest().len() > place + 1 => {
                    is_escaped = true;
                    seen.escape(self.window.rest()[place + 1]);
                    self.window.at += place + 2;
                }
                found => {
                    // A backslash at the very end waits for what it escapes.
                    self.window.at += found.unwrap_or(self.window.rest().len());
                    if self.window.at - begin > HEAD {
                        return self.long_text(start, begin, seen);
                    }
                    if !self.window.more(begin) {
                        return Err(Stop::End);
                    }
                    begin = 0;
                }
            }
        };
        self.window.at += 1;
        if !self.window.is_ascii() {
            let bytes = self.window.between(begin, begin + length);
            if str::from_utf8(bytes).is_err() {
                let first = self.not_utf8.get_or_insert((0, start));
                first.0 += 1;
            }
        }
        let bytes = self.window.between(begin, begin + length);
        let chars = seen.chars(bytes, self.window.is_ascii());
        if length > HEAD {
            return Ok(Text { head: cut(&bytes[..HEAD]), chars, is_whole: false });
        }
        if !is_escaped {
            return Ok(Text { head: bytes, chars, is_whole: true });
        }
        self.scratch.clear();
        unescape(bytes, &mut self.scratch);
        Ok(Text { head: &self.scratch, chars, is_whole: true })
    }

    /// Keeps the beginning, and lets the rest pass.
    fn long_text(&mut self, start: u64, begin: usize, mut seen: Seen) -> Result<Text<'_>, Stop> {
        self.scratch.clear();
        let mut from = begin;
        let mut chars = 0;
        let mut is_valid = true;
        loop {
            let until = self.window.at;
            let piece = self.window.between(from, until);
            chars += seen.chars(piece, self.window.is_ascii());
            seen = Seen::default();
            is_valid &= self.window.is_ascii() || is_utf8_inside(piece);
            if self.scratch.is_empty() {
                let head = cut(&piece[..HEAD]);
                self.scratch.extend_from_slice(head);
            }
            if self.window.rest().first() == Some(&b'"') {
                break;
            }
            if !self.window.more(until) {
                return Err(Stop::End);
            }
            from = 0;
            while let Some(place) = find(self.window.rest()) {
                if self.window.rest()[place] == b'"' || self.window.rest().len() == place + 1 {
                    self.window.at += place;
                    break;
                }
                seen.escape(self.window.rest()[place + 1]);
                self.window.at += place + 2;
            }
            if !matches!(self.window.rest().first(), Some(b'"' | b'\\')) {
                self.window.at += self.window.rest().len();
            }
        }
        self.advance();
        if !is_valid {
            self.not_utf8.get_or_insert((0, start)).0 += 1;
        }
        Ok(Text { head: &self.scratch, chars, is_whole: false })
    }

    /// A number, as read and as written.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<(Number, &[u8]), Stop> {
        if let Some((number, length)) = number::short(self.window.rest()) {
            let begin = self.window.at;
            self.window.at += length;
            return Ok((number, self.window.between(begin, begin + length)));
        }
        self.other_number()
    }

    /// With an exponent, long, or not visible as a whole.
    fn other_number(&mut self) -> Result<(Number, &[u8]), Stop> {
        let mut begin = self.window.at;
        let mut length = 0;
        loop {
            let rest = &self.window.rest()[length..];
            let more = rest.iter().position(|byte| !is_of_number(*byte));
            length += more.unwrap_or(rest.len());
            if length > LONGEST_NUMBER {
                return self.endless_number();
            }
            if more.is_some() {
                break;
            }
            if !self.window.more(begin) {
                break;
            }
            begin = 0;
        }
        let digits = self.window.between(begin, begin + length);
        let unsigned = digits.strip_prefix(b"-").unwrap_or(digits);
        let is_odd = matches!(unsigned, [b'0', b'0'..=b'9', ..] | [b'.', ..] | [.., b'.'] | []);
        match number::read(digits) {
            Some(number) if !is_odd => {
                self.window.at += length;
                Ok((number, self.window.between(begin, begin + length)))
            }
            _ => Err(Stop::Invalid),
        }
    }

    #[cold]
    fn endless_number(&mut self) -> Result<(Number, &[u8]), Stop> {
        while self.window.peek().is_some_and(is_of_number) {
            self.window.at += 1;
        }
        Ok((Number::Float(f64::INFINITY), b"Infinity"))
    }

    /// Takes `word` if it is next.
    pub(crate) fn word(&mut self, word: &[u8]) -> bool {
        while self.window.rest().len() < word.len() {
            if !self.window.more(self.window.at) {
                return false;
            }
        }
        let is_next = self.window.rest().starts_with(word);
        if is_next {
            self.window.at += word.len();
        }
        is_next
    }

    /// Passes over one value without looking at it closely. Brackets are
    /// counted, not matched: depth costs nothing.
    pub(crate) fn skip(&mut self) -> Result<(), Stop> {
        let mut depth = 0u64;
        loop {
            match self.need()? {
                b'"' => {
                    self.advance();
                    self.skip_text()?;
                }
                b'{' | b'[' => {
                    self.advance();
                    depth += 1;
                    continue;
                }
                b'}' | b']' if depth > 0 => {
                    self.advance();
                    depth -= 1;
                }
                b',' | b':' if depth > 0 => {
                    self.advance();
                    continue;
                }
                b'}' | b']' | b',' | b':' => return Err(Stop::Invalid),
                _ => self.skip_plain()?,
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn skip_plain(&mut self) -> Result<(), Stop> {
        let from = self.window.offset();
        while let Some(byte) = self.window.peek() {
            if !byte.is_ascii_alphanumeric() && !matches!(byte, b'+' | b'-' | b'.') {
                break;
            }
            self.window.at += 1;
        }
        if self.window.offset() == from { Err(Stop::Invalid) } else { Ok(()) }
    }

    pub(crate) fn skip_text(&mut self) -> Result<(), Stop> {
        loop {
            match find(self.window.rest()) {
                Some(place) if self.window.rest()[place] == b'"' => {
                    self.window.at += place + 1;
                    return Ok(());
                }
                Some(place) if self.window.rest().len() > place + 1 => self.window.at += place + 2,
                found => {
                    self.window.at += found.unwrap_or(self.window.rest().len());
                    if !self.window.more(self.window.at) {
                        return Err(Stop::End);
                    }
                }
            }
        }
    }
}

/// Counts characters while a text passes.
#[derive(Debug, Default)]
struct Seen {
    /// Bytes of escapes that are no characters of their own.
    extra: u64,
}

impl Seen {
    fn escape(&mut self, mark: u8) {
        self.extra += if mark == b'u' { 5 } else { 1 };
    }

    fn chars(&self, bytes: &[u8], is_ascii: bool) -> u64 {
        let is_begin = |byte: &&u8| **byte & 0xc0 != 0x80;
        let begins = if is_ascii { bytes.len() } else { bytes.iter().filter(is_begin).count() };
        (begins as u64).saturating_sub(self.extra)
    }
}

/// The first quote or backslash.
#[inline]
fn find(bytes: &[u8]) -> Option<usize> {
    // Most texts are short: eight bytes at a time, before the search that is
    // quicker from some length on.
    for (number, chunk) in bytes.chunks_exact(8).take(4).enumerate() {
        let word = u64::from_le_bytes([
            chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7],
        ]);
        let found = has(word, b'"') | has(word, b'\\');
        if found != 0 {
            return Some(number * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let done = bytes.len().min(32) / 8 * 8;
    memchr::memchr2(b'"', b'\\', &bytes[done..]).map(|place| done + place)
}

/// The highest bit of each byte of `word` that is `byte`; right up to the first.
#[inline]
fn has(word: u64, byte: u8) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let zero_where_equal = word ^ (LOW * u64::from(byte));
    zero_where_equal.wrapping_sub(LOW) & !zero_where_equal & (LOW << 7)
}

fn is_of_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
}

/// Without a character at the end that is not all there.
fn cut(bytes: &[u8]) -> &[u8] {
    match str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// Whether a piece of a text is UTF-8, apart from characters that are cut at
/// its ends.
fn is_utf8_inside(piece: &[u8]) -> bool {
    let skip = piece.iter().take(3).take_while(|&&byte| byte & 0xc0 == 0x80).count();
    str::from_utf8(cut(&piece[skip..])).is_ok()
}
