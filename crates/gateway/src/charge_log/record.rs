//! One record: a line with a checksum, the stage of the request, and its row.
//!
//! ```text
//! <16 hex digits> {"begin":{…}}\n
//! ```

use std::io;

use belljar_domain::network::Row;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Longest record. Fields that code inside can fill are cut before; this holds whatever they are.
pub(super) const MAX_RECORD_BYTES: usize = 16 << 10;
/// Hex digits of the checksum.
const CHECKSUM_DIGITS: usize = 16;
/// Hex digits of an epoch.
const EPOCH_DIGITS: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Begin,
    End,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Written<'a> {
    Begin(&'a Row),
    End(&'a Row),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Read {
    Begin(Box<Row>),
    End(Box<Row>),
}

/// A row as a line of the log.
pub(super) fn encode(stage: Stage, row: &Row) -> io::Result<Vec<u8>> {
    let line = line(stage, row)?;
    if line.len() <= MAX_RECORD_BYTES {
        return Ok(line);
    }
    // The charge and its identity are kept; the rest is only told.
    let mut short = row.clone();
    (short.host, short.path, short.method) = (None, None, None);
    (short.subject.process, short.subject.call) = (None, None);
    let line = self::line(stage, &short)?;
    if line.len() <= MAX_RECORD_BYTES { Ok(line) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn line(stage: Stage, row: &Row) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(&match stage {
        Stage::Begin => Written::Begin(row),
        Stage::End => Written::End(row),
    })?;
    let mut line = checksum(&text).into_bytes();
    line.push(b' ');
    line.extend_from_slice(&text);
    line.push(b'\n');
    Ok(line)
}

/// The record of a line without its end; none if it was torn or changed.
pub(super) fn decode(line: &[u8]) -> Option<(Stage, Row)> {
    let (sum, rest) = line.split_at_checked(CHECKSUM_DIGITS)?;
    let text = rest.strip_prefix(b" ")?;
    if checksum(text).as_bytes() != sum {
        return None;
    }
    Some(match serde_json::from_slice(text).ok()? {
        Read::Begin(row) => (Stage::Begin, *row),
        Read::End(row) => (Stage::End, *row),
    })
}

fn checksum(text: &[u8]) -> String {
    let digest = Sha256::digest(text);
    digest.iter().take(CHECKSUM_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
}

/// The number of a request of this epoch; none if it is of another.
pub(super) fn number_of(id: &str, epoch: &str) -> Option<u64> {
    id.strip_prefix(epoch)?.strip_prefix('-')?.parse().ok()
}

pub(super) fn is_epoch(name: &str) -> bool {
    name.len() == EPOCH_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
