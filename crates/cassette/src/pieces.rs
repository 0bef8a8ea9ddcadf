//! When the pieces of an answer came, and the pieces again.

use std::collections::VecDeque;
use std::io::Read as _;
use std::time::Duration;

use crate::blob::{BlobError, Blobs, Content};
use crate::index::Answered;
use crate::limits::{PIECES, TIMING_BYTES};
use crate::redact::Form;

/// Pieces of a download that come closer after each other are one: only
/// streams are heard word by word.
const CLOSE: Duration = Duration::from_millis(100);
/// What is handed out at once at most.
const CHUNK: usize = 64 << 10;

/// While it is recorded: of each piece, when it came and how long it is.
#[derive(Debug)]
pub(crate) struct Timing {
    close: Duration,
    last: Duration,
    pieces: Vec<(u64, usize)>,
}

impl Timing {
    pub(crate) fn new(form: Form) -> Self {
        let close = if form == Form::Lines { Duration::ZERO } else { CLOSE };
        Self { close, last: Duration::ZERO, pieces: vec![] }
    }

    pub(crate) fn push(&mut self, when: Duration, length: usize) {
        let since = when.saturating_sub(self.last);
        if length == 0 {
            return;
        }
        let is_full = self.pieces.len() >= PIECES;
        match self.pieces.last_mut() {
            Some((_, last)) if since < self.close || is_full => *last += length,
            _ => {
                self.pieces.push((u64::try_from(since.as_micros()).unwrap_or(u64::MAX), length));
            }
        }
        self.last = self.last.max(when);
    }

    /// Bytes that were held back belong to the last piece.
    pub(crate) fn extend(&mut self, length: usize) {
        match self.pieces.last_mut() {
            Some((_, last)) => *last += length,
            None => self.push(self.last, length),
        }
    }

    pub(crate) fn become_one(&mut self, length: usize) {
        self.pieces.truncate(1);
        self.pieces.iter_mut().for_each(|(_, only)| *only = length);
    }

    /// Where each piece ends.
    pub(crate) fn ends(&self) -> Vec<usize> {
        let lengths = self.pieces.iter().map(|(_, length)| *length);
        lengths
            .scan(0, |end, length| {
                *end += length;
                Some(*end)
            })
            .collect()
    }

    pub(crate) fn set_ends(&mut self, ends: &[usize]) {
        let mut begin = 0;
        for ((_, length), end) in self.pieces.iter_mut().zip(ends) {
            *length = end - begin;
            begin = *end;
        }
    }

    /// None where there is only one piece.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        (self.pieces.len() > 1).then(|| serde_json::to_vec(&self.pieces).ok()).flatten()
    }
}

/// A piece of an answer's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// How long after the piece before it came, or after the request. The caller
    /// may wait so long, or not at all.
    pub delay: Duration,
    pub data: Vec<u8>,
}

/// The pieces of a recorded body, which has been checked as a whole.
pub struct Pieces {
    content: Option<Content>,
    coming: VecDeque<(Duration, u64)>,
}

impl std::fmt::Debug for Pieces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pieces").field("coming", &self.coming.len()).finish_non_exhaustive()
    }
}

impl Pieces {
    pub(crate) fn open(answer: &Answered, blobs: &Blobs) -> Result<Self, BlobError> {
        let Some(body) = answer.body else {
            return Ok(Self { content: None, coming: VecDeque::new() });
        };
        let coming = match &answer.pieces {
            None => VecDeque::from([(Duration::ZERO, body.bytes)]),
            Some(list) => {
                let text = blobs.get(list, TIMING_BYTES)?;
                let list: Vec<(u64, u64)> =
                    serde_json::from_slice(&text).map_err(|_| BlobError::Damaged(list.sha256))?;
                list.into_iter()
                    .map(|(micros, length)| (Duration::from_micros(micros), length))
                    .collect()
            }
        };
        let sum = coming.iter().try_fold(0_u64, |sum, (_, length)| sum.checked_add(*length));
        if sum != Some(body.bytes) {
            return Err(BlobError::Damaged(body.sha256));
        }
        let coming = without_empty(coming);
        Ok(Self { content: Some(blobs.open(&body)?), coming })
    }
}

/// An empty piece says that the body ends, on some wires. Redaction leaves them
/// where a secret was cut in two; the next piece waits that much longer.
fn without_empty(pieces: VecDeque<(Duration, u64)>) -> VecDeque<(Duration, u64)> {
    let mut waited = Duration::ZERO;
    let mut kept = VecDeque::with_capacity(pieces.len());
    for (delay, length) in pieces {
        waited = waited.saturating_add(delay);
        if length > 0 {
            kept.push_back((std::mem::take(&mut waited), length));
        }
    }
    kept
}

impl Iterator for Pieces {
    type Item = std::io::Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        let content = self.content.as_mut()?;
        let (delay, length) = self.coming.front_mut()?;
        let count = usize::try_from(*length).unwrap_or(CHUNK).min(CHUNK);
        let mut data = vec![0; count];
        if let Err(error) = content.read_exact(&mut data) {
            self.content = None;
            return Some(Err(error));
        }
        let piece = Piece { delay: std::mem::take(delay), data };
        *length -= count as u64;
        if *length == 0 {
            self.coming.pop_front();
        }
        Some(Ok(piece))
    }
}
