//! From the bytes of a file to UTF-8.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt as _;

use super::encoding::WINDOWS_1252;
use super::{Coding, Compression, Encoding};

/// Bytes that are decoded at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// How many bytes a file may have once it is unpacked, on top of [`BYTES_PER_BYTE`] of them for
/// each of its own. A few bytes can stand for endless ones; tables shrink to a tenth.
const MIN_UNPACKED_BYTES: u64 = if cfg!(fuzzing) { 1 << 20 } else { 1 << 28 };
const BYTES_PER_BYTE: u64 = 256;

/// A file that is read from a place of its own, wherever its offset is.
#[derive(Debug)]
pub(crate) struct FileBytes<'a> {
    file: &'a File,
    size: u64,
    at: u64,
}

impl<'a> FileBytes<'a> {
    pub(crate) fn new(file: &'a File, size: u64) -> Self {
        Self { file, size, at: 0 }
    }
}

impl Read for FileBytes<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(into, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for FileBytes<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// The text of a file as UTF-8. What is no character becomes U+FFFD, as Python's `replace` has it;
/// broken UTF-8 stays as it is.
pub(crate) struct Decoder<'a> {
    bytes: Box<dyn Read + 'a>,
    coding: Coding,
    /// Bytes that may still come out of a compressed file.
    left: u64,
    raw: Vec<u8>,
    text: Vec<u8>,
    /// What of `text` is taken.
    taken: usize,
    is_over: bool,
}

impl fmt::Debug for Decoder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("coding", &self.coding).finish_non_exhaustive()
    }
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(file: &'a File, size: u64, coding: Coding) -> Self {
        let packed = FileBytes::new(file, size);
        let bytes: Box<dyn Read + 'a> = match coding.compression {
            None => Box::new(packed),
            Some(Compression::Gzip) => Box::new(flate2::bufread::MultiGzDecoder::new(
                BufReader::with_capacity(CHUNK_BYTES, packed),
            )),
            Some(Compression::Zstd) => Box::new(LateZstd::Closed(packed)),
        };
        let left = match coding.compression {
            None => u64::MAX,
            Some(_) => size.saturating_mul(BYTES_PER_BYTE).saturating_add(MIN_UNPACKED_BYTES),
        };
        let (raw, text) = (Vec::new(), Vec::new());
        Self { bytes, coding, left, raw, text, taken: 0, is_over: false }
    }

    fn fill(&mut self) -> io::Result<()> {
        let kept = self.raw.len();
        self.raw.resize(CHUNK_BYTES, 0);
        let count = loop {
            match self.bytes.read(&mut self.raw[kept..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.raw.truncate(kept + count);
        self.is_over = count == 0;
        self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::other("it unpacks to too many bytes"))?;
        self.text.clear();
        self.taken = 0;
        match self.coding.encoding {
            Encoding::Utf8 => self.text.append(&mut self.raw),
            Encoding::Latin1 => self.each(char::from),
            Encoding::Windows1252 => self.each(|byte| match byte {
                0x80..0xa0 => WINDOWS_1252[usize::from(byte - 0x80)],
                _ => char::from(byte),
            }),
            Encoding::Utf16 { is_big: true } | Encoding::Utf16Be => self.pairs(u16::from_be_bytes),
            Encoding::Utf16 { is_big: false } | Encoding::Utf16Le => self.pairs(u16::from_le_bytes),
        }
        if self.coding.has_bare_returns {
            self.text.iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
        }
        Ok(())
    }

    fn each(&mut self, character: impl Fn(u8) -> char) {
        for byte in self.raw.drain(..) {
            if byte.is_ascii() {
                self.text.push(byte);
            } else {
                let mut utf8 = [0; 4];
                self.text.extend_from_slice(character(byte).encode_utf8(&mut utf8).as_bytes());
            }
        }
    }

    /// Leaves half a character at the end for the next time, unless nothing follows.
    fn pairs(&mut self, unit: impl Fn([u8; 2]) -> u16) {
        let mut units: Vec<u16> =
            self.raw.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        let is_split = units.last().is_some_and(|last| (0xd800..0xdc00).contains(last));
        if is_split && !self.is_over {
            units.pop();
        }
        let mut used = units.len() * 2;
        let mut utf8 = [0; 4];
        for found in char::decode_utf16(units) {
            let found = found.unwrap_or(char::REPLACEMENT_CHARACTER);
            self.text.extend_from_slice(found.encode_utf8(&mut utf8).as_bytes());
        }
        if self.is_over && used < self.raw.len() {
            self.text.extend_from_slice("\u{fffd}".as_bytes());
            used = self.raw.len();
        }
        self.raw.drain(..used);
    }
}

impl Read for Decoder<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.text.len() {
            if self.is_over {
                return Ok(0);
            }
            self.fill()?;
        }
        let count = into.len().min(self.text.len() - self.taken);
        into[..count].copy_from_slice(&self.text[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

/// A zstd decoder that is made when it is first read from, since making one can fail.
enum LateZstd<'a> {
    Closed(FileBytes<'a>),
    Open(zstd::stream::read::Decoder<'static, BufReader<FileBytes<'a>>>),
    Failed,
}

impl Read for LateZstd<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Self::Closed(_) = self
            && let Self::Closed(packed) = std::mem::replace(self, Self::Failed)
        {
            *self = Self::Open(zstd::stream::read::Decoder::new(packed)?);
        }
        match self {
            Self::Open(decoder) => decoder.read(into),
            Self::Closed(_) | Self::Failed => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file(bytes: &[u8]) -> (File, u64) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        (file, bytes.len() as u64)
    }

    fn sniffed(file: &File, size: u64) -> Coding {
        let compression = Compression::sniff(file).unwrap();
        Coding { compression, ..Coding::default() }.with_encoding(file, size).unwrap()
    }

    fn decoded(bytes: &[u8]) -> (Coding, String) {
        let (file, size) = file(bytes);
        let coding = sniffed(&file, size);
        let text = io::read_to_string(Decoder::new(&file, size, coding)).unwrap();
        (coding, text)
    }

    #[test]
    fn text_comes_out_as_it_was_written_however_it_is_packed() {
        // Longer than a chunk, with characters of each length at every offset.
        let text: String = (0..40_000).map(|n| ["a", "é", "€", "😀", "\n"][n % 5]).collect();
        let text = format!("{}{text}", "name,city\n".repeat(1000));
        let le: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let be: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert!(decoded(&[b"\xff\xfe", &le[..]].concat()).1 == format!("\u{feff}{text}"));
        assert!(decoded(&[b"\xfe\xff", &be[..]].concat()).1 == format!("\u{feff}{text}"));
        assert!(decoded(&le).1 == text);
        assert!(decoded(&be).1 == text);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&le).unwrap();
        let (coding, unpacked) = decoded(&gzip.finish().unwrap());
        assert_eq!(
            (coding.compression, coding.encoding),
            (Some(Compression::Gzip), Encoding::Utf16Le)
        );
        assert!(unpacked == text);
        let (coding, unpacked) = decoded(&zstd::encode_all(text.as_bytes(), 1).unwrap());
        assert_eq!(
            (coding.compression, coding.encoding),
            (Some(Compression::Zstd), Encoding::Utf8)
        );
        assert!(unpacked == text);
        assert_eq!(decoded(b"a,b\r1,2\r3,4").1, "a,b\n1,2\n3,4");
        assert_eq!(decoded(b"a,b\r1,2\r").1, "a,b\n1,2\n");
    }

    #[test]
    fn a_few_bytes_that_stand_for_endless_ones_are_refused() {
        let endless = io::repeat(b'x').take(MIN_UNPACKED_BYTES + (256 << 20));
        let (file, size) = file(&zstd::encode_all(endless, 1).unwrap());
        let coding = sniffed(&file, size);
        let mut text = Decoder::new(&file, size, coding);
        let error = io::copy(&mut text, &mut io::sink()).unwrap_err();
        assert_eq!(error.to_string(), "it unpacks to too many bytes");
    }
}
