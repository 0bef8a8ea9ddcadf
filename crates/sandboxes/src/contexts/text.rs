//! Text out of bytes that come in pieces.

/// Makes text of a stream that may be cut anywhere, also within a character.
#[derive(Debug, Default)]
pub struct Pieces {
    /// The beginning of a character.
    held: Vec<u8>,
}

impl Pieces {
    /// The text that is whole so far. What is no UTF-8 becomes U+FFFD.
    pub fn push(&mut self, bytes: Vec<u8>) -> String {
        let all = if self.held.is_empty() {
            bytes
        } else {
            let mut all = std::mem::take(&mut self.held);
            all.extend(bytes);
            all
        };
        match String::from_utf8(all) {
            Ok(text) => text,
            Err(error) => {
                let mut all = error.into_bytes();
                self.held = all.split_off(all.len() - unfinished(&all));
                String::from_utf8_lossy(&all).into_owned()
            }
        }
    }

    /// What is left when nothing more comes.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned()
    }
}

/// How many bytes at the end could be the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    for length in 1..=bytes.len().min(3) {
        let tail = &bytes[bytes.len() - length..];
        let whole = match tail[0] {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            0x80..=0xBF => continue,
            _ => 1,
        };
        return if length < whole { length } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_survive_any_cut() {
        let text = "a\u{e9}\u{20ac}\u{1f600}z\u{2028}";
        for at in 0..=text.len() {
            let mut pieces = Pieces::default();
            let (first, second) = text.as_bytes().split_at(at);
            let whole = pieces.push(first.to_vec()) + &pieces.push(second.to_vec());
            assert_eq!(whole, text, "cut at {at}");
            assert_eq!(pieces.finish(), "");
        }
    }

    #[test]
    fn what_is_no_text_is_shown_as_such() {
        let mut pieces = Pieces::default();
        assert_eq!(pieces.push(b"a\xffb".to_vec()), "a\u{fffd}b");
        assert_eq!(pieces.push(b"c\xe2\x82".to_vec()), "c");
        assert_eq!(pieces.finish(), "\u{fffd}");
        assert_eq!(pieces.push(b"\xe2".to_vec()), "");
        assert_eq!(pieces.push(b"x".to_vec()), "\u{fffd}x");
    }
}
