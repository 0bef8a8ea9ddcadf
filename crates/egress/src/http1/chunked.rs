//! Bodies in chunks.
//!
//! ```text
//!   Size ─;─► Extension            ┌──────────────┐
//!     │ CR        │ CR             ▼              │ LF
//!     └───►SizeEnd◄┘─LF, n > 0─► Data(n) ─► DataReturn ─► DataEnd ─► Size
//!              │ LF, n = 0
//!              ▼
//!           Trailer ─CR LF on an empty line─► Done
//! ```

use super::Malformed;
use super::fields::Fields;

/// What separates a chunk's data from the next head.
pub const CHUNK_END: &[u8] = b"\r\n";
/// The end of a body in chunks, without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Extensions of all chunks of one body together. Nobody uses them, and a
/// reader that skips them without end is kept busy for nothing.
const LONGEST_EXTENSIONS: usize = 4 << 10;
const LONGEST_TRAILERS: usize = 8 << 10;
/// More digits than this would be leading zeros or more than the world holds.
const MOST_DIGITS: u8 = 15;

/// Why a body in chunks was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BadChunk {
    #[error("a chunk's size is not 1 to 15 hexadecimal digits")]
    Size,
    #[error("a chunk does not end with CR LF where its size says")]
    End,
    #[error("a chunk's extension holds a control character, or there are over 4 KiB of them")]
    Extension,
    #[error("the fields after the last chunk are longer than 8 KiB")]
    LongTrailer,
    #[error("the fields after the last chunk are malformed")]
    Trailer(#[source] Malformed),
}

/// Takes a body in chunks apart, however its bytes arrive.
#[derive(Debug, Clone, Default)]
pub struct Chunked {
    state: State,
    extensions: usize,
}

#[derive(Debug, Clone)]
enum State {
    Size { value: u64, digits: u8 },
    Extension { value: u64 },
    SizeEnd { value: u64 },
    Data { left: u64 },
    DataReturn,
    DataEnd,
    Trailer { text: Vec<u8> },
    Done,
}

/// What the next bytes are: first `skip` of framing, then `data` of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub skip: usize,
    pub data: usize,
    /// Whether the body ends after these; what follows is another request's.
    pub done: bool,
}

impl Default for State {
    fn default() -> Self {
        Self::Size { value: 0, digits: 0 }
    }
}

impl Chunked {
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Reads on. Call again with what is left after `skip + data` bytes, until
    /// nothing is left or the body is done. Trailers are read and dropped.
    pub fn advance(&mut self, input: &[u8]) -> Result<Progress, BadChunk> {
        let mut skip = 0;
        while skip < input.len() && !self.is_done() {
            if let State::Data { left } = &mut self.state {
                let rest = input.len() - skip;
                let data = usize::try_from(*left).map_or(rest, |left| left.min(rest));
                *left -= data as u64;
                if *left == 0 {
                    self.state = State::DataReturn;
                }
                return Ok(Progress { skip, data, done: false });
            }
            self.take(input[skip])?;
            skip += 1;
        }
        Ok(Progress { skip, data: 0, done: self.is_done() })
    }

    /// One byte of framing.
    fn take(&mut self, byte: u8) -> Result<(), BadChunk> {
        match &mut self.state {
            State::Size { digits: 0, .. } if byte == b'\r' || byte == b';' => {
                return Err(BadChunk::Size);
            }
            State::Size { value, .. } if byte == b'\r' => {
                self.state = State::SizeEnd { value: *value };
            }
            State::Size { value, .. } if byte == b';' => {
                self.state = State::Extension { value: *value };
            }
            State::Size { value, digits } => {
                let digit = char::from(byte).to_digit(16).ok_or(BadChunk::Size)?;
                if *digits == MOST_DIGITS {
                    return Err(BadChunk::Size);
                }
                *digits += 1;
                *value = *value << 4 | u64::from(digit);
            }
            State::Extension { value } if byte == b'\r' => {
                self.state = State::SizeEnd { value: *value };
            }
            State::Extension { .. } => {
                self.extensions += 1;
                let is_text = byte == b'\t' || (b' '..0x7f).contains(&byte);
                if !is_text || self.extensions > LONGEST_EXTENSIONS {
                    return Err(BadChunk::Extension);
                }
            }
            State::SizeEnd { value } if byte == b'\n' => {
                self.state = match *value {
                    0 => State::Trailer { text: vec![] },
                    left => State::Data { left },
                };
            }
            State::DataReturn if byte == b'\r' => self.state = State::DataEnd,
            State::DataEnd if byte == b'\n' => self.state = State::default(),
            State::SizeEnd { .. } | State::DataReturn | State::DataEnd => {
                return Err(BadChunk::End);
            }
            State::Trailer { text } => {
                text.push(byte);
                if text.len() > LONGEST_TRAILERS {
                    return Err(BadChunk::LongTrailer);
                }
                if is_end(text)? {
                    let fields = Fields::parse(&text[..text.len() - 2]);
                    fields.map_err(BadChunk::Trailer)?;
                    self.state = State::Done;
                }
            }
            // Data is taken in whole pieces, and nothing after the end.
            State::Data { .. } | State::Done => {}
        }
        Ok(())
    }
}

/// Whether the last byte ends the trailers. Line ends are checked as they come.
fn is_end(text: &[u8]) -> Result<bool, BadChunk> {
    let bad = Err(BadChunk::Trailer(Malformed::LineEnd));
    match text {
        [b'\r', b'\n'] | [.., b'\r', b'\n', b'\r', b'\n'] => Ok(true),
        [.., b'\r', b'\n'] => Ok(false),
        [.., b'\n'] | [.., b'\r', _] => bad,
        _ => Ok(false),
    }
}

/// The line before a chunk's data.
#[derive(Debug, Clone, Copy)]
pub struct ChunkHead {
    bytes: [u8; 18],
    start: usize,
}

/// The line before `length` bytes of data, of which there must be some: a chunk
/// of none is the end.
pub fn chunk_head(length: usize) -> ChunkHead {
    let mut bytes = [0; 18];
    bytes[16..].copy_from_slice(CHUNK_END);
    let mut start = 16;
    let mut rest = length;
    loop {
        start -= 1;
        bytes[start] = b"0123456789abcdef"[rest & 15];
        rest >>= 4;
        if rest == 0 {
            return ChunkHead { bytes, start };
        }
    }
}

impl std::ops::Deref for ChunkHead {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}
