//! A key as JSON spells it, so that it is found without being looked for.
//!
//! Objects of one path mostly have the same keys in the same order. Where the
//! key is known that comes next, one comparison finds and passes it, with its
//! quotes and its colon.

/// How many bytes are compared at once.
const WORD: usize = 16;

/// Of a key that is spelled in one way only.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spelling {
    /// The first bytes, and which bits of them count.
    word: u128,
    mask: u128,
    /// What of it is longer.
    tail: Box<[u8]>,
    /// Of all of it; 0 if there are several ways.
    length: usize,
}

impl Spelling {
    pub(crate) fn new(key: &[u8]) -> Self {
        let is_plain = |byte: &u8| byte.is_ascii() && !matches!(byte, b'"' | b'\\');
        if !key.iter().all(is_plain) {
            return Self::default();
        }
        let spelled = [b"\"", key, b"\":"].concat();
        let head = spelled.len().min(WORD);
        let (mut word, mut mask) = ([0; WORD], [0; WORD]);
        word[..head].copy_from_slice(&spelled[..head]);
        mask[..head].fill(u8::MAX);
        Self {
            word: u128::from_le_bytes(word),
            mask: u128::from_le_bytes(mask),
            tail: spelled[head..].into(),
            length: spelled.len(),
        }
    }

    /// How many bytes of `text` it takes, if `text` begins with it. What is too
    /// near to the end of `text` is not told.
    #[inline]
    pub(crate) fn begins(&self, text: &[u8]) -> Option<usize> {
        let (head, rest) = text.split_first_chunk()?;
        let is_head = (u128::from_le_bytes(*head) ^ self.word) & self.mask == 0;
        // Comparing no bytes at all is a call as well, and a slow one.
        let is_tail = self.length <= WORD || rest.starts_with(&self.tail);
        (is_head && is_tail && self.length > 0).then_some(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(key: &str, text: &str, want: Option<usize>) {
        let padded = format!("{text}                ");
        assert_eq!(Spelling::new(key.as_bytes()).begins(padded.as_bytes()), want, "{key}: {text}");
    }

    #[test]
    fn a_key_is_found_with_its_quotes_and_colon_and_nothing_else_is() {
        for key in ["", "a", "thirteen_char", "fourteen_chars", "one_that_is_longer_than_a_word"] {
            check(key, &format!("\"{key}\":1"), Some(key.len() + 3));
            check(key, &format!("\"{key}\" :1"), None);
            check(key, &format!("\"{key}x\":1"), None);
            check(key, &format!("\"X{key}\":1"), None);
        }
        check("é", "\"é\":1", None);
        check("a\"b", "\"a\"b\":1", None);
        check("a\\", "\"a\\\":1", None);
        assert_eq!(Spelling::new(b"a").begins(b"\"a\":1}"), None);
    }
}
