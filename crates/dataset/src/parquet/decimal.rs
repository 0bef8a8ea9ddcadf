//! Decimals as they are written: an integer, with a point among its digits.

/// The longest integer that is read: more than 76 digits.
pub(super) const MAX_BYTES: usize = 32;

/// Writes `unscaled`, which is big-endian with a sign, with its point `scale` digits from the end.
pub(super) fn write(unscaled: &[u8], scale: u32, text: &mut Vec<u8>) {
    text.clear();
    let is_negative = unscaled.first().is_some_and(|byte| byte & 0x80 != 0);
    push_digits(unscaled, is_negative, text);
    // More digits than fit into the longest integer are no decimal's.
    let scale = (scale as usize).min(4 * MAX_BYTES);
    if scale > 0 {
        while text.len() <= scale {
            text.push(b'0');
        }
        text.insert(scale, b'.');
    }
    if is_negative {
        text.push(b'-');
    }
    text.reverse();
}

/// The digits of the absolute value, the last one first.
fn push_digits(unscaled: &[u8], is_negative: bool, text: &mut Vec<u8>) {
    let bytes = unscaled.get(..MAX_BYTES).unwrap_or(unscaled);
    let mut magnitude = [0u8; MAX_BYTES];
    let Some(own) = magnitude.get_mut(MAX_BYTES - bytes.len()..) else { return };
    own.copy_from_slice(bytes);
    if is_negative {
        // The complement, and one more.
        let mut carry = true;
        for byte in own.iter_mut().rev() {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    if let Some(mut small) = small(&magnitude) {
        loop {
            text.push(b'0' + u8::try_from(small % 10).unwrap_or_default());
            small /= 10;
            if small == 0 {
                return;
            }
        }
    }
    // Longer ones are divided byte by byte.
    while magnitude.iter().any(|byte| *byte != 0) {
        let mut rest = 0u16;
        for byte in &mut magnitude {
            let value = rest << 8 | u16::from(*byte);
            *byte = u8::try_from(value / 10).unwrap_or_default();
            rest = value % 10;
        }
        text.push(b'0' + u8::try_from(rest).unwrap_or_default());
    }
}

/// The value, if 64 bits are enough.
fn small(magnitude: &[u8; MAX_BYTES]) -> Option<u64> {
    let (high, low) = magnitude.split_at(MAX_BYTES - 8);
    let low = low.try_into().map(u64::from_be_bytes).ok()?;
    high.iter().all(|byte| *byte == 0).then_some(low)
}

#[cfg(test)]
mod tests {
    #[track_caller]
    fn check(unscaled: i128, scale: u32, want: &str) {
        let mut text = Vec::new();
        super::write(&unscaled.to_be_bytes(), scale, &mut text);
        assert_eq!(str::from_utf8(&text), Ok(want));
    }

    #[test]
    fn digits_are_those_of_the_integer() {
        for value in [0, 1, -1, 10, 12_345, i128::from(u64::MAX), 1 << 64, i128::MAX, i128::MIN] {
            check(value, 0, &value.to_string());
        }
    }

    #[test]
    fn the_point_stands_where_the_scale_says() {
        check(12345, 2, "123.45");
        check(-5, 2, "-0.05");
        check(0, 3, "0.000");
        check(i128::MIN, 38, "-1.70141183460469231731687303715884105728");
    }

    #[test]
    fn integers_of_every_length_are_read() {
        let mut text = Vec::new();
        super::write(&[0xff; 32], 1, &mut text);
        assert_eq!(text, b"-0.1");
        super::write(&[], 0, &mut text);
        assert_eq!(text, b"0");
        super::write(&[0x80], 0, &mut text);
        assert_eq!(text, b"-128");
    }
}
