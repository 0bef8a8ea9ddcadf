//! Keeping the beginning and the end of an output that may be endless.

use std::collections::VecDeque;

/// Collects bytes up to a limit: the first half and the last half.
#[derive(Debug)]
pub struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    half: usize,
    total: u64,
}

/// What a [`Capture`] kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    pub head: Vec<u8>,
    /// Bytes between head and tail that were not kept.
    pub omitted: u64,
    pub tail: Vec<u8>,
}

impl Capture {
    pub fn new(limit: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), half: limit / 2, total: 0 }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.half - self.head.len();
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        let rest = rest.get(rest.len().saturating_sub(self.half)..).unwrap_or_default();
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    pub fn finish(self) -> Captured {
        let kept = (self.head.len() + self.tail.len()) as u64;
        Captured { head: self.head, omitted: self.total - kept, tail: self.tail.into() }
    }
}

impl Captured {
    pub fn is_truncated(&self) -> bool {
        self.omitted > 0
    }

    /// Everything that was kept, with a note where something is missing.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        if self.is_truncated() {
            bytes.extend_from_slice(format!("\n… {} bytes omitted …\n", self.omitted).as_bytes());
        }
        bytes.extend_from_slice(&self.tail);
        bytes
    }

    /// As text, with what is not UTF-8 replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_output_is_kept_whole() {
        let mut capture = Capture::new(10);
        capture.push(b"hello");
        capture.push(b"world");
        let kept = capture.finish();
        assert_eq!((kept.bytes(), kept.omitted), (b"helloworld".to_vec(), 0));
    }

    #[test]
    fn long_output_keeps_its_beginning_and_its_end() {
        let mut capture = Capture::new(8);
        for chunk in [&b"abcdef"[..], b"ghi", b"jklmnopqrstuvwxyz"] {
            capture.push(chunk);
        }
        let kept = capture.finish();
        assert_eq!(
            (&kept.head[..], &kept.tail[..], kept.omitted),
            (&b"abcd"[..], &b"wxyz"[..], 18)
        );
        assert_eq!(kept.text(), "abcd\n… 18 bytes omitted …\nwxyz");
    }

    #[test]
    fn one_byte_at_a_time_is_the_same_as_all_at_once() {
        let bytes: Vec<u8> = (0..=255).collect();
        let (mut one, mut all) = (Capture::new(20), Capture::new(20));
        bytes.iter().for_each(|byte| one.push(&[*byte]));
        all.push(&bytes);
        assert_eq!(one.finish(), all.finish());
    }
}
