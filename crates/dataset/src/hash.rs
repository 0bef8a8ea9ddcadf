//! One hash for every value, the same on every machine and in every release
//! that shares a description's format.
//!
//! Values are compared by 64 bits of it. Among a million different ones, two
//! share a hash with a chance of about 1 in 40 million.

const KEYS: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93];

/// The two halves of a product, folded: every bit of both depends on it.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..at + 8) {
        Some(&[a, b, c, d, e, f, g, h]) => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

#[inline]
fn half(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..at + 4) {
        Some(&[a, b, c, d]) => u64::from(u32::from_le_bytes([a, b, c, d])),
        _ => 0,
    }
}

/// Of a text, or of a number as it is written.
#[inline]
pub(crate) fn of(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let (a, b) = match len {
        0 => (0, 0),
        1..=3 => {
            let middle = u64::from(bytes[len / 2]);
            (u64::from(bytes[0]) << 16 | middle << 8 | u64::from(bytes[len - 1]), 0)
        }
        4..=7 => (half(bytes, 0), half(bytes, len - 4)),
        8..=16 => (word(bytes, 0), word(bytes, len - 8)),
        _ => return long(bytes),
    };
    finish(a, b, len)
}

fn long(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let mut state = KEYS[0];
    let mut at = 0;
    while at + 16 < len {
        state = fold(word(bytes, at) ^ KEYS[1], word(bytes, at + 8) ^ state);
        at += 16;
    }
    finish(word(bytes, len - 16) ^ state, word(bytes, len - 8), len)
}

#[inline]
fn finish(a: u64, b: u64, len: usize) -> u64 {
    fold(fold(a ^ KEYS[2], b ^ KEYS[3]) ^ len as u64, KEYS[1])
}

/// Of two values that stand together.
pub(crate) fn pair(first: u64, second: u64) -> u64 {
    fold(fold(first ^ KEYS[0], KEYS[2]) ^ second, KEYS[3])
}

/// Of a number that is not written as an integer.
pub(crate) fn of_float(value: f64) -> u64 {
    finish(value.to_bits(), KEYS[0], 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn similar_texts_have_different_hashes() {
        let texts = (0..50_000).flat_map(|n| {
            [format!("{n}"), format!("deal_{n:08}"), format!("{n}@example.com"), format!("{n:>40}")]
        });
        let hashes: HashSet<u64> = texts.map(|text| of(text.as_bytes())).collect();
        assert_eq!(hashes.len(), 200_000);
    }

    #[test]
    fn a_hash_is_the_same_in_every_release() {
        let sum = ["", "a", "abcd", "abcdefgh", "a text that is longer than sixteen bytes"]
            .iter()
            .fold(0u64, |sum, text| sum.rotate_left(7) ^ of(text.as_bytes()));
        assert_eq!(sum, 0xe011_407d_727f_305e, "{sum:#x}");
    }
}
