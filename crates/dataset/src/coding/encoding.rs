//! Encodings of text, told by its bytes.

use std::fmt;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};

/// With fewer characters, zeros are no sign of UTF-16.
const MIN_UTF16_PAIRS: usize = 4;

/// The encoding of a text, by the name that Python has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Encoding {
    #[default]
    Utf8,
    /// With a byte order mark, which tells the order.
    Utf16 {
        is_big: bool,
    },
    Utf16Le,
    Utf16Be,
    Latin1,
    Windows1252,
}

impl From<Encoding> for &'static str {
    fn from(encoding: Encoding) -> Self {
        encoding.codec()
    }
}

impl TryFrom<String> for Encoding {
    type Error = String;

    fn try_from(codec: String) -> Result<Self, String> {
        let known = [
            Self::Utf8,
            Self::Utf16 { is_big: false },
            Self::Utf16Le,
            Self::Utf16Be,
            Self::Latin1,
            Self::Windows1252,
        ];
        let found = known.into_iter().find(|known| known.codec() == codec);
        found.ok_or_else(|| format!("unknown encoding `{codec}`"))
    }
}

impl Encoding {
    /// Returns the name of Python's codec.
    pub fn codec(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf16 { .. } => "utf-16",
            Self::Utf16Le => "utf-16-le",
            Self::Utf16Be => "utf-16-be",
            Self::Latin1 => "latin-1",
            Self::Windows1252 => "cp1252",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(crate) fn is_utf8(&self) -> bool {
        *self == Self::Utf8
    }

    /// Tells UTF-16 from the rest by the first bytes: by a mark, or by the zeros that every ASCII
    /// character has there.
    pub(super) fn sniff(head: &[u8]) -> Self {
        match head {
            // UTF-32, which hardly anything writes; it is binary to us.
            [0xff, 0xfe, 0, 0, ..] => return Self::Utf8,
            [0xff, 0xfe, ..] => return Self::Utf16 { is_big: false },
            [0xfe, 0xff, ..] => return Self::Utf16 { is_big: true },
            _ => {}
        }
        let pairs = head.chunks_exact(2);
        let count = pairs.len();
        let zeros = |at: usize| pairs.clone().filter(|pair| pair[at] == 0).count();
        match (zeros(0), zeros(1)) {
            _ if count < MIN_UTF16_PAIRS => Self::Utf8,
            (0, low) if low * 2 > count => Self::Utf16Le,
            (high, 0) if high * 2 > count => Self::Utf16Be,
            _ => Self::Utf8,
        }
    }

    /// Judges a text that is not UTF-8 throughout, by all of it. UTF-8 with some broken characters
    /// stays UTF-8; where most characters beyond ASCII are broken, each byte is a character.
    pub(crate) fn judge(mut text: impl Read) -> io::Result<Self> {
        let mut seen = Seen::default();
        let mut buffer = vec![0; 1 << 16];
        let mut kept = 0;
        loop {
            let count = text.read(&mut buffer[kept..])?;
            let end = kept + count;
            kept = seen.pass(&buffer[..end]);
            buffer.copy_within(end - kept..end, 0);
            if count == 0 {
                break;
            }
        }
        Ok(seen.encoding(kept > 0))
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16 { .. } | Self::Utf16Le | Self::Utf16Be => "UTF-16",
            Self::Latin1 => "Latin-1",
            Self::Windows1252 => "Windows-1252",
        })
    }
}

/// What was seen of a text beyond ASCII.
#[derive(Default)]
struct Seen {
    /// Characters that are UTF-8.
    good: u64,
    /// Places that are not.
    bad: u64,
    /// Bytes that Windows-1252 has a character for, and Latin-1 has not.
    windows: bool,
    /// Bytes that Windows-1252 has no character for.
    undefined: bool,
}

impl Seen {
    /// Returns how many bytes at the end may be the first part of a character.
    fn pass(&mut self, bytes: &[u8]) -> usize {
        for byte in bytes.iter().filter(|byte| (0x80..0xa0).contains(*byte)) {
            match byte {
                0x81 | 0x8d | 0x8f | 0x90 | 0x9d => self.undefined = true,
                _ => self.windows = true,
            }
        }
        let mut rest = bytes;
        loop {
            let error = str::from_utf8(rest).err();
            let valid = error.map_or(rest.len(), |error| error.valid_up_to());
            self.good += rest[..valid].iter().filter(|byte| **byte >= 0xc0).count() as u64;
            match error.map(|error| error.error_len()) {
                None => return 0,
                Some(None) => return rest.len() - valid,
                Some(Some(length)) => {
                    self.bad += 1;
                    rest = &rest[valid + length..];
                }
            }
        }
    }

    fn encoding(&self, is_cut: bool) -> Encoding {
        match self {
            _ if self.bad + u64::from(is_cut) <= self.good => Encoding::Utf8,
            Self { windows: true, undefined: false, .. } => Encoding::Windows1252,
            _ => Encoding::Latin1,
        }
    }
}

/// The characters of Windows-1252 from 0x80 to 0x9f.
pub(super) const WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn judged(bytes: &[u8], want: Encoding) {
        assert_eq!(Encoding::judge(bytes).unwrap(), want);
    }

    #[test]
    fn text_of_one_byte_for_each_character_is_told_from_broken_utf8() {
        judged(b"K\xf6ln;M\xfcnchen", Encoding::Latin1);
        judged(b"3 \x80", Encoding::Windows1252);
        judged(b"3 \x80 \x81", Encoding::Latin1);
        judged("Köln, München, Zürich \u{fffd}".as_bytes(), Encoding::Utf8);
        judged("Köln, München".as_bytes().strip_suffix(b"n").unwrap(), Encoding::Utf8);
        judged(b"K\xc3\xb6ln, M\xc3\xbcnchen, Z\xfcrich", Encoding::Utf8);
        judged(b"ends with \xe9", Encoding::Latin1);
        let long = [b"x".repeat(65_535), "ö".as_bytes().repeat(3)].concat();
        judged(&long, Encoding::Utf8);
    }

    #[test]
    fn utf16_is_told_by_its_mark_or_its_zeros() {
        let le = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        let be = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<_>>();
        assert_eq!(Encoding::sniff(&le("\u{feff}a,b")), Encoding::Utf16 { is_big: false });
        assert_eq!(Encoding::sniff(&be("\u{feff}a,b")), Encoding::Utf16 { is_big: true });
        assert_eq!(Encoding::sniff(&le("a,b\n1,ł\n")), Encoding::Utf16Le);
        assert_eq!(Encoding::sniff(&be("a,b\n1,ł\n")), Encoding::Utf16Be);
        assert_eq!(Encoding::sniff(b"a,b\n1,2\n"), Encoding::Utf8);
        assert_eq!(Encoding::sniff(b""), Encoding::Utf8);
    }
}
