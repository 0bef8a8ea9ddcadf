//! Secrets by value.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::{Edits, PLACEHOLDER};

/// A secret that the caller knows. It is never shown.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

/// Shorter ones would be found in ordinary text and cut holes into it.
const SHORTEST: usize = 8;
const LONGEST: usize = 16 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a secret of {0} bytes cannot be redacted: it must have {SHORTEST} to {LONGEST}")]
pub struct UnfitSecret(pub usize);

impl Secret {
    pub fn new(value: impl Into<Vec<u8>>) -> Self {
        Self(value.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// All secrets in all the forms in which they are looked for.
#[derive(Default)]
pub(crate) struct Literals {
    patterns: Vec<Vec<u8>>,
    /// Of each first byte, the patterns that begin with it, longest first.
    by_first: Vec<Vec<usize>>,
    longest: usize,
}

impl Literals {
    pub(crate) fn new(secrets: &[Secret]) -> Result<Self, UnfitSecret> {
        let mut patterns = Vec::new();
        for Secret(secret) in secrets {
            if !(SHORTEST..=LONGEST).contains(&secret.len()) {
                return Err(UnfitSecret(secret.len()));
            }
            patterns.extend(forms(secret));
        }
        Ok(Self::of(patterns))
    }

    /// With more of them; what is unfit is left out.
    pub(crate) fn and(&self, secrets: &[Secret]) -> Self {
        let fit = secrets.iter().filter(|secret| (SHORTEST..=LONGEST).contains(&secret.0.len()));
        Self::of(
            self.patterns.iter().cloned().chain(fit.flat_map(|secret| forms(&secret.0))).collect(),
        )
    }

    fn of(mut patterns: Vec<Vec<u8>>) -> Self {
        patterns.sort_by_key(|pattern| std::cmp::Reverse(pattern.len()));
        patterns.dedup();
        let mut by_first = vec![Vec::new(); 256];
        for (number, pattern) in patterns.iter().enumerate() {
            let first = pattern.first().and_then(|first| by_first.get_mut(usize::from(*first)));
            first.into_iter().for_each(|numbers: &mut Vec<usize>| numbers.push(number));
        }
        let longest = patterns.first().map_or(0, Vec::len);
        Self { patterns, by_first, longest }
    }

    /// The first secret that begins in `begins`; of several the longest.
    fn find(&self, content: &[u8], begins: Range<usize>) -> Option<Range<usize>> {
        if self.patterns.is_empty() {
            return None;
        }
        begins.into_iter().find_map(|at| {
            let rest = content.get(at..)?;
            self.by_first
                .get(usize::from(*rest.first()?))?
                .iter()
                .filter_map(|number| self.patterns.get(*number))
                .find(|pattern| rest.starts_with(pattern))
                .map(|pattern| at..at + pattern.len())
        })
    }

    pub(crate) fn edits(&self, content: &[u8]) -> Edits {
        let mut edits = Edits::default();
        let mut from = 0;
        while let Some(found) = self.find(content, from..content.len()) {
            from = found.end;
            edits.push(found, PLACEHOLDER);
        }
        edits
    }
}

/// A secret as it may stand in a request or an answer.
fn forms(secret: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![secret.to_vec(), secret.to_ascii_lowercase()];
    let percent = |digits: fn(u8) -> String| -> Vec<u8> {
        let unreserved = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
        let one = |b: &u8| if unreserved(*b) { vec![*b] } else { digits(*b).into_bytes() };
        secret.iter().flat_map(one).collect()
    };
    forms.push(percent(|b| format!("%{b:02X}")));
    forms.push(percent(|b| format!("%{b:02x}")));
    if let Ok(text) = str::from_utf8(secret) {
        let quoted = serde_json::Value::from(text).to_string();
        let inner = quoted.strip_prefix('"').and_then(|quoted| quoted.strip_suffix('"'));
        forms.extend(inner.map(|inner| inner.as_bytes().to_vec()));
    }
    // Base64 of a longer text that holds it, at each of three alignments. The
    // characters at both ends also hold bits of what is around, and are left.
    for skipped in 0..3 {
        let padded = [&vec![0; skipped], secret].concat();
        let first = (skipped * 8).div_ceil(6);
        let last = padded.len() * 8 / 6;
        for encoded in [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)] {
            forms.extend(encoded.as_bytes().get(first..last).map(<[u8]>::to_vec));
        }
    }
    forms
}

/// Redacts by value what comes in pieces. It holds back as much as the longest
/// secret, so that none slips through where two pieces meet.
pub(crate) struct Stream {
    literals: Arc<Literals>,
    held: Vec<u8>,
}

impl Stream {
    pub(crate) fn new(literals: Arc<Literals>) -> Self {
        Self { literals, held: Vec::new() }
    }

    pub(crate) fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(piece);
        // Only where the longest secret would fit is known what begins.
        let known = (self.held.len() + 1).saturating_sub(self.literals.longest.max(1));
        self.pass(known)
    }

    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.pass(self.held.len())
    }

    fn pass(&mut self, known: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(known);
        let mut from = 0;
        while let Some(found) = self.literals.find(&self.held, from..known.max(from)) {
            out.extend_from_slice(self.held.get(from..found.start).unwrap_or_default());
            out.extend_from_slice(PLACEHOLDER.as_bytes());
            from = found.end;
        }
        let end = known.max(from);
        out.extend_from_slice(self.held.get(from..end).unwrap_or_default());
        self.held.drain(..end);
        out
    }
}
