//! The coding of a file: how its text is compressed and encoded.
//!
//! Everything above reads UTF-8. A file that is not plain UTF-8 is decoded on the way, in constant
//! memory, and its lines end with line feeds. Such a stream cannot go back: it is read by one
//! thread, from its beginning.

mod decode;
mod encoding;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;

use serde::{Deserialize, Serialize};

pub(crate) use decode::{Decoder, FileBytes};
pub use encoding::Encoding;

/// How many bytes are looked at to tell an encoding.
const SNIFFED_BYTES: usize = 4096;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    /// Tells by the first bytes.
    pub(crate) fn sniff(file: &File) -> io::Result<Option<Self>> {
        let mut head = [0; 4];
        let count = file.read_at(&mut head, 0)?;
        Ok(match &head[..count] {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd] => Some(Self::Zstd),
            _ => None,
        })
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

/// What stands between the bytes of a file and its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Coding {
    pub(crate) compression: Option<Compression>,
    pub(crate) encoding: Encoding,
    /// Lines end with a carriage return alone.
    pub(crate) has_bare_returns: bool,
}

impl Coding {
    /// Returns true if the file's bytes are its text.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Tells the encoding by the first bytes of the text. Encodings of one byte for each character
    /// show only when text is read: see [`Encoding::judge`].
    pub(crate) fn with_encoding(self, file: &File, size: u64) -> io::Result<Self> {
        let mut text = Vec::with_capacity(SNIFFED_BYTES);
        let unpacked = Decoder::new(file, size, self);
        unpacked.take(SNIFFED_BYTES as u64).read_to_end(&mut text)?;
        let has = |byte| memchr::memchr(byte, &text).is_some();
        // The last byte that is looked at may be the first half of a line end.
        let first = memchr::memchr(b'\r', &text);
        let is_inside = first.is_some_and(|at| at + 1 < SNIFFED_BYTES);
        let has_bare_returns = is_inside && !has(b'\n') && !has(0);
        Ok(Self { encoding: Encoding::sniff(&text), has_bare_returns, ..self })
    }
}
