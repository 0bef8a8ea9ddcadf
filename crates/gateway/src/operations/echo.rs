//! Watches that a credential does not come back.
//!
//! An upstream that answers with what it was sent, by mistake or because somebody
//! found a way to ask for it, would hand the credential to the sandbox. So every
//! answer is searched for it. The search goes over the borders of chunks: what
//! may be the beginning of the credential waits until the next chunk tells, and
//! nothing else ever waits.
//!
//! A streamed answer is searched twice: its bytes, and the text that a client puts
//! together from its events. Somebody who makes a model recite a credential gets
//! it in pieces, each in an event of its own.

use bytes::Bytes;
use memchr::memmem::Finder;

/// What is searched for.
pub(crate) struct Needle {
    bytes: Bytes,
    /// How much of the beginning is also at the end of each beginning, as in
    /// the algorithm of Knuth, Morris and Pratt.
    borders: Box<[usize]>,
    finder: Finder<'static>,
}

/// Where a search is in one answer.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    /// So many bytes at the end of what came are the needle's beginning. They
    /// have not been passed on.
    matched: usize,
}

/// The answer holds the credential. It must not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the response contains the credential")]
pub(crate) struct Echoed;

#[expect(
    clippy::indexing_slicing,
    reason = "Knuth, Morris and Pratt: a border is shorter than what it is of, and `step` is not \
              called once all of the needle was found"
)]
impl Needle {
    pub(crate) fn new(bytes: Bytes) -> Self {
        let mut borders = vec![0; bytes.len()];
        let mut border = 0;
        for at in 1..bytes.len() {
            while border > 0 && bytes[at] != bytes[border] {
                border = borders[border - 1];
            }
            border += usize::from(bytes[at] == bytes[border]);
            borders[at] = border;
        }
        let finder = Finder::new(&bytes).into_owned();
        Self { bytes, borders: borders.into(), finder }
    }

    pub(crate) fn is_in(&self, text: &[u8]) -> bool {
        self.finder.find(text).is_some()
    }

    /// How much of the beginning stands at the end, one byte later.
    fn step(&self, mut matched: usize, byte: u8) -> usize {
        while matched > 0 && self.bytes[matched] != byte {
            matched = self.borders[matched - 1];
        }
        matched + usize::from(self.bytes[matched] == byte)
    }
}

impl Echo {
    /// What may be passed on now: something that was held back, then something
    /// of this chunk.
    pub(crate) fn pass(&mut self, needle: &Needle, chunk: Bytes) -> Result<(Bytes, Bytes), Echoed> {
        let held = self.matched;
        let mut matched = held;
        // First what began before this chunk.
        for (at, &byte) in chunk.iter().enumerate() {
            if matched <= at {
                break;
            }
            matched = needle.step(matched, byte);
            if matched == needle.bytes.len() {
                return Err(Echoed);
            }
        }
        if matched > chunk.len() {
            self.matched = matched;
            let released = held + chunk.len() - matched;
            return Ok((needle.bytes.slice(..released), Bytes::new()));
        }
        if needle.is_in(&chunk) {
            return Err(Echoed);
        }
        let tail = chunk.len().saturating_sub(needle.bytes.len() - 1);
        let rest = chunk.get(tail..).unwrap_or_default();
        self.matched = rest.iter().fold(0, |matched, &byte| needle.step(matched, byte));
        let mut chunk = chunk;
        chunk.truncate(chunk.len() - self.matched);
        Ok((needle.bytes.slice(..held), chunk))
    }

    /// Reads along without holding anything back: how much of the needle's
    /// beginning stands at the end.
    pub(crate) fn hear(&mut self, needle: &Needle, text: &[u8]) -> Result<usize, Echoed> {
        for &byte in text {
            self.matched = needle.step(self.matched, byte);
            if self.matched == needle.bytes.len() {
                return Err(Echoed);
            }
        }
        Ok(self.matched)
    }

    /// What is still held back when the answer has ended.
    pub(crate) fn finish(&mut self, needle: &Needle) -> Bytes {
        needle.bytes.slice(..std::mem::take(&mut self.matched))
    }
}

impl std::fmt::Debug for Needle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that is passed on, chunk by chunk.
    fn pass(needle: &str, chunks: &[&str]) -> Result<Vec<String>, Echoed> {
        let needle = Needle::new(Bytes::copy_from_slice(needle.as_bytes()));
        let mut echo = Echo::default();
        let mut passed = Vec::new();
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        for chunk in chunks {
            let (held, now) = echo.pass(&needle, Bytes::copy_from_slice(chunk.as_bytes()))?;
            passed.push(text(&held) + &text(&now));
        }
        passed.push(text(&echo.finish(&needle)));
        Ok(passed)
    }

    #[test]
    fn what_is_not_the_beginning_does_not_wait() {
        assert_eq!(
            pass("sk-123", &["data: x\n\n", "more\n\n"]).unwrap(),
            ["data: x\n\n", "more\n\n", ""]
        );
        assert_eq!(
            pass("sk-123", &["task", "s sk", "-1", "24"]).unwrap(),
            ["ta", "sks ", "", "sk-124", ""]
        );
    }

    #[test]
    fn it_is_found_wherever_it_is_cut() {
        let text = "xxabababcabcyy";
        for needle in ["abababca", "ababca", "cabc", "yy", "xx"] {
            for first in 0..=text.len() {
                for second in first..=text.len() {
                    let chunks = [&text[..first], &text[first..second], &text[second..]];
                    assert_eq!(pass(needle, &chunks), Err(Echoed), "{needle} {chunks:?}");
                }
            }
        }
    }

    /// Every way to cut texts of two letters, against plain search.
    #[test]
    fn what_passes_is_what_came() {
        let letters = |number: u32, length: usize| -> String {
            (0..length).map(|at| if number >> at & 1 == 0 { 'a' } else { 'b' }).collect()
        };
        for needle in ["aab", "abab", "aaa", "abaab"] {
            for number in 0..1 << 9 {
                let text = letters(number, 9);
                for first in 0..=9 {
                    for second in first..=9 {
                        let chunks = [&text[..first], &text[first..second], &text[second..]];
                        match pass(needle, &chunks) {
                            Ok(passed) => {
                                assert!(!text.contains(needle), "{needle} in {chunks:?}");
                                assert_eq!(passed.concat(), text);
                            }
                            Err(Echoed) => assert!(text.contains(needle), "{needle} {chunks:?}"),
                        }
                    }
                }
            }
        }
    }
}
