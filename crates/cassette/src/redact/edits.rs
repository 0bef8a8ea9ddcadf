//! Replaced ranges of a byte string.

use std::ops::Range;

/// In order, and apart from each other.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Edits(Vec<(Range<usize>, &'static str)>);

impl Edits {
    /// Replaces a range after all that were replaced so far.
    pub(crate) fn push(&mut self, range: Range<usize>, with: &'static str) {
        debug_assert!(self.0.last().is_none_or(|(last, _)| last.end <= range.start));
        self.0.push((range, with));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn apply(&self, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(content.len());
        let mut done = 0;
        for (range, with) in &self.0 {
            out.extend_from_slice(content.get(done..range.start).unwrap_or_default());
            out.extend_from_slice(with.as_bytes());
            done = range.end;
        }
        out.extend_from_slice(content.get(done..).unwrap_or_default());
        out
    }

    /// Also moves offsets, given in order, along with the bytes before them. An
    /// offset inside a replaced range moves to the end of what replaces it.
    pub(crate) fn apply_to(&self, content: Vec<u8>, offsets: &mut [usize]) -> Vec<u8> {
        if self.is_empty() {
            return content;
        }
        let mut edits = self.0.iter().peekable();
        let (mut grown, mut shrunk, mut replaced) = (0, 0, 0);
        for offset in offsets {
            while let Some((range, with)) = edits.next_if(|(range, _)| range.start < *offset) {
                grown += with.len();
                shrunk += range.len();
                replaced = range.end;
            }
            *offset = (*offset).max(replaced) + grown - shrunk;
        }
        self.apply(&content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_move_with_their_bytes() {
        let mut edits = Edits::default();
        edits.push(2..6, "x");
        edits.push(8..9, "yyy");
        let mut offsets = [1, 2, 4, 5, 6, 7, 8, 9, 10];
        assert_eq!(edits.apply_to(b"0123456789".to_vec(), &mut offsets), b"01x67yyy9");
        assert_eq!(offsets, [1, 2, 3, 3, 3, 4, 5, 8, 9]);
    }
}
