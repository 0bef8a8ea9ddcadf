//! What a cassette holds, one line of JSON for each exchange.
//!
//! Lines are only ever added, and only after the blobs they name. A line that
//! was not finished, because the machine stopped, has no line break: it is
//! ignored by readers and cut off by the next recorder.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::limits::{INDEX_BYTES, LINE_BYTES, TIMING_BYTES};
use crate::{Blob, Digest, Url};

/// One exchange, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub request: Asked,
    pub answer: Answered,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    pub method: String,
    pub url: Url,
    /// Names in lower case; of values each byte as the character of its number.
    pub headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Blob>,
    /// Of a body of JSON: the digest of its canonical form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<Digest>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Blob>,
    /// Where the body was cut into pieces, and when each came: a JSON list of
    /// pairs, microseconds since what came before and length. None: one piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pieces: Option<Blob>,
    pub end: End,
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Whole,
    /// It broke off, and breaks off again when it is played.
    Broken,
}

#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("there is no such cassette")]
    Absent,
    #[error("cannot read `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("the index is larger than is read")]
    TooLarge,
    #[error("line {0} of the index is not an exchange")]
    Line(usize),
}

/// An index as it was read.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) entries: Vec<Entry>,
    /// Up to the end of the last whole line.
    pub(crate) length: u64,
}

impl Index {
    pub(crate) fn read(path: &Path) -> Result<Self, IndexError> {
        let file = File::open(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => IndexError::Absent,
            _ => IndexError::Read { path: path.to_owned(), source },
        })?;
        Self::from_reader(file, path, usize::MAX)
    }

    /// Refuses more than `most` exchanges.
    pub(crate) fn from_reader(
        reader: impl io::Read,
        path: &Path,
        most: usize,
    ) -> Result<Self, IndexError> {
        let mut reader = BufReader::new(reader.take(INDEX_BYTES + 1));
        let mut index = Self::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            let failed = |source| IndexError::Read { path: path.to_owned(), source };
            let mut bounded = (&mut reader).take(LINE_BYTES as u64 + 1);
            let count = bounded.read_until(b'\n', &mut line).map_err(failed)?;
            let number = index.entries.len() + 1;
            if count > LINE_BYTES {
                return Err(IndexError::Line(number));
            }
            if line.last() != Some(&b'\n') {
                break;
            }
            if number > most {
                return Err(IndexError::TooLarge);
            }
            let entry = Entry::from_line(&line).ok_or(IndexError::Line(number))?;
            index.entries.push(entry);
            index.length += count as u64;
            if index.length > INDEX_BYTES {
                return Err(IndexError::TooLarge);
            }
        }
        Ok(index)
    }
}

impl Entry {
    pub(crate) fn to_line(&self) -> Option<Vec<u8>> {
        let mut line = serde_json::to_vec(self).ok()?;
        line.push(b'\n');
        (line.len() <= LINE_BYTES && self.is_valid()).then_some(line)
    }

    pub(crate) fn from_line(line: &[u8]) -> Option<Self> {
        if line.len() > LINE_BYTES {
            return None;
        }
        serde_json::from_slice(line).ok().filter(Self::is_valid)
    }

    /// What is played back is put on a wire: a line break in a header of an
    /// imported cassette would be another answer.
    fn is_valid(&self) -> bool {
        let Self { request, answer } = self;
        let timing = answer.pieces.map_or(0, |blob| blob.bytes);
        is_token(&request.method)
            && (200..=999).contains(&answer.status)
            && request.headers.iter().chain(&answer.headers).all(is_header)
            && request.json.is_none_or(|_| request.body.is_some())
            && (answer.pieces.is_none() || answer.body.is_some())
            && timing <= TIMING_BYTES
    }

    pub(crate) fn blobs(&self) -> impl Iterator<Item = Blob> {
        [self.request.body, self.answer.body, self.answer.pieces].into_iter().flatten()
    }

    /// Plain bytes of both bodies.
    pub(crate) fn bytes(&self) -> u64 {
        let bodies = [self.request.body, self.answer.body].into_iter().flatten();
        bodies.fold(0, |sum, blob| sum.saturating_add(blob.bytes))
    }
}

fn is_header((name, value): &(String, String)) -> bool {
    let is_value = |c: char| matches!(c, '\t' | ' '..='~' | '\u{80}'..='\u{ff}');
    is_token(name)
        && !name.contains(|c: char| c.is_ascii_uppercase())
        && !is_between_neighbours(name)
        && value.chars().all(is_value)
}

/// Says how a message is carried over one connection, and is not part of it.
pub(crate) fn is_between_neighbours(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "transfer-encoding"
            | "te"
            | "trailer"
            | "upgrade"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "expect"
            | "host"
    )
}

fn is_token(text: &str) -> bool {
    let is_mark = |b: u8| b"!#$%&'*+-.^_`|~".contains(&b);
    (1..=256).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || is_mark(b))
}

/// The first header of that name.
pub(crate) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}
