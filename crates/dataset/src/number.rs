//! Numbers as they are written, read quickly.

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    /// Larger than that, in 64 bits without a sign.
    Large(u64),
    /// Also integers that no 64 bits hold.
    Float(f64),
}

impl Number {
    pub(crate) fn value(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Large(int) => int as f64,
            Self::Float(float) => float,
        }
    }
}

/// The number that `text` begins with, and its length: an integer, or a plain
/// fraction, if something follows that ends it.
#[inline]
pub(crate) fn short(text: &[u8]) -> Option<(Number, usize)> {
    let sign = usize::from(text.first() == Some(&b'-'));
    let mut mantissa = 0;
    let point = digits(text, sign, &mut mantissa);
    let whole = point - sign;
    if whole == 0 || whole > 18 || (whole > 1 && text[sign] == b'0') {
        return None;
    }
    let mut end = point;
    if text.get(point) == Some(&b'.') {
        end = many_digits(text, point + 1, &mut mantissa);
    }
    if !matches!(text.get(end)?, b',' | b'}' | b']' | b'\n' | b' ' | b'\r') {
        return None;
    }
    if end == point {
        let int = i64::try_from(mantissa).ok()?;
        return Some((Number::Int(if sign == 1 { -int } else { int }), end));
    }
    let scale = end - point - 1;
    if scale == 0 || whole + scale > DIGITS {
        return None;
    }
    let value = quotient(mantissa, scale)?;
    Some((Number::Float(if sign == 1 { -value } else { value }), end))
}

/// So many digits fit into 64 bits, whichever they are.
const DIGITS: usize = 19;

/// Takes digits from `at` on, and says where they end. Beyond [`DIGITS`] of them,
/// `mantissa` means nothing.
#[inline]
fn digits(text: &[u8], mut at: usize, mantissa: &mut u64) -> usize {
    while let Some(digit @ b'0'..=b'9') = text.get(at) {
        *mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
        at += 1;
    }
    at
}

/// The same, for where there mostly are many: eight at a time.
#[inline]
fn many_digits(text: &[u8], mut at: usize, mantissa: &mut u64) -> usize {
    while let Some(eight) = text.get(at..).and_then(|rest| rest.first_chunk())
        && let Some(value) = eight_digits(*eight)
    {
        *mantissa = mantissa.wrapping_mul(100_000_000).wrapping_add(value);
        at += 8;
    }
    digits(text, at, mantissa)
}

/// Each byte is a digit; neighbours are joined to pairs, these to fours, and so on.
#[inline]
fn eight_digits(bytes: [u8; 8]) -> Option<u64> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let digits = u64::from_le_bytes(bytes) ^ (EACH * u64::from(b'0'));
    let is_above_nine = digits.wrapping_add(EACH * 0x76) | digits;
    if is_above_nine & (EACH << 7) != 0 {
        return None;
    }
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours * 10_000 + (fours >> 32)) & 0xffff_ffff)
}

/// Powers of ten, as floats hold them exactly.
const EXACT: [f64; DIGITS + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19,
];

/// `1 / 10^n`, with its bits moved until the first of 64 is set and the rest cut
/// off, and how many bits `10^n` has. For 0 there is none.
#[expect(clippy::cast_possible_truncation, reason = "between 2^63 and 2^64")]
const INVERSE: [(u64, u32); DIGITS + 1] = {
    let mut inverse = [(0, 0); DIGITS + 1];
    let mut power = 1u128;
    let mut n = 1;
    while n <= DIGITS {
        power *= 10;
        let bits = u128::BITS - power.leading_zeros();
        inverse[n] = (((1u128 << (63 + bits)) / power) as u64, bits);
        n += 1;
    }
    inverse
};

/// The float that is nearest to `mantissa / 10^scale`, for a scale from 1 to
/// [`DIGITS`]. None in the two cases of a thousand that need a longer inverse.
#[inline]
fn quotient(mantissa: u64, scale: usize) -> Option<f64> {
    /// What a float does not have of 64 bits, apart from the one it is rounded by.
    const BEYOND: u128 = (1 << 10) - 1;
    if mantissa <= 1 << 53 {
        // Both are exact, so this is the nearest float.
        return Some(mantissa as f64 / EXACT.get(scale)?);
    }
    let (inverse, bits) = *INVERSE.get(scale)?;
    let shift = mantissa.leading_zeros();
    let product = u128::from(mantissa << shift) * u128::from(inverse);
    let lead = product.leading_zeros();
    let upper = (product << lead) >> 64;
    // What was cut off the inverse adds something to the product, but less than
    // two here. So it is never half-way between two floats, and only if this
    // carried into the bits that count would it matter.
    if upper & BEYOND >= BEYOND - 1 {
        return None;
    }
    let rounded = u64::try_from(((upper >> 10) + 1) >> 1).ok()?;
    // The first bit of a float's fraction is not written, and adds one here.
    let exponent = u64::from(1086 - shift - lead - bits);
    Some(f64::from_bits((exponent << 52) + rounded))
}

/// Reads `-1`, `2.50`, `3e8`: what JSON calls a number, and with leading zeros
/// or a missing digit around the point also what tables hold. None for the
/// rest, such as `NaN`, `1_000` and `0x10`.
#[inline]
pub(crate) fn read(text: &[u8]) -> Option<Number> {
    let (negative, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        _ => (false, text),
    };
    let mut mantissa = 0;
    let at = self::digits(digits, 0, &mut mantissa);
    if at == digits.len() && (1..=18).contains(&at) {
        let int = i64::try_from(mantissa).ok()?;
        return Some(Number::Int(if negative { -int } else { int }));
    }
    fraction(text, digits, negative, mantissa, at)
}

fn fraction(text: &[u8], digits: &[u8], negative: bool, whole: u64, end: usize) -> Option<Number> {
    let mut mantissa = whole;
    let mut at = end;
    let mut count = end;
    if digits.get(at) == Some(&b'.') {
        at = many_digits(digits, at + 1, &mut mantissa);
        count = at - 1;
    }
    if count == 0 {
        return None;
    }
    let scale = count - end;
    if at == digits.len()
        && (1..=DIGITS).contains(&scale)
        && count <= DIGITS
        && let Some(value) = quotient(mantissa, scale)
    {
        return Some(Number::Float(if negative { -value } else { value }));
    }
    slow(text, digits, at)
}

#[cold]
fn slow(text: &[u8], digits: &[u8], at: usize) -> Option<Number> {
    if let Some((b'e' | b'E', exponent)) = digits[at..].split_first() {
        let exponent =
            exponent.strip_prefix(b"-").or(exponent.strip_prefix(b"+")).unwrap_or(exponent);
        if exponent.is_empty() || !exponent.iter().all(u8::is_ascii_digit) {
            return None;
        }
    } else if at < digits.len() {
        return None;
    }
    let text = str::from_utf8(text).ok()?;
    // The largest that 64 bits hold have 19 digits, and 20 without a sign.
    if digits.len() == 19
        && let Ok(int) = text.parse()
    {
        return Some(Number::Int(int));
    }
    if matches!(digits.len(), 19 | 20)
        && let Ok(int) = text.parse()
    {
        return Some(Number::Large(int));
    }
    text.parse().ok().map(Number::Float)
}

/// The longest number with a comma that is read.
pub(crate) const COMMA_BYTES: usize = 40;

/// How a number with a comma can be meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comma {
    /// `12,50`, `1.234,5`: decimals follow it.
    Decimal,
    /// `1,234`: decimals, or thousands as they are written in English.
    Either,
    /// `12`, `1.234.567`: there is no comma.
    Absent,
}

/// Reads a number that may have a decimal comma, and points between its thousands. Its usual form
/// is put into `usual`. None if it is no such number.
pub(crate) fn with_comma<'u>(
    text: &[u8],
    usual: &'u mut [u8; COMMA_BYTES],
) -> Option<(&'u [u8], Comma)> {
    let text = text.trim_ascii();
    let sign = usize::from(text.first() == Some(&b'-'));
    let (whole, decimals) = match memchr::memchr(b',', text) {
        Some(at) => (&text[sign..at], Some(&text[at + 1..])),
        None => (&text[sign..], None),
    };
    let all = |digits: &[u8]| digits.iter().all(u8::is_ascii_digit);
    let is_padded = matches!(whole, [b'0', _, ..]);
    if text.len() > COMMA_BYTES || whole.is_empty() || is_padded {
        return None;
    }
    let mut groups = whole.split(|byte| *byte == b'.');
    let first = groups.next()?;
    let is_grouped = first.len() < whole.len();
    let is_even = !is_grouped
        || ((1..=3).contains(&first.len()) && groups.all(|group| group.len() == 3 && all(group)));
    if first.is_empty() || !all(first) || !is_even {
        return None;
    }
    let comma = match decimals {
        None => Comma::Absent,
        Some(decimals) if decimals.is_empty() || !all(decimals) => return None,
        Some(decimals) => {
            let is_english = !is_grouped && first.len() <= 3 && decimals.len() == 3;
            if is_english && first != b"0" { Comma::Either } else { Comma::Decimal }
        }
    };
    let mut length = 0;
    for byte in text.iter().filter(|byte| **byte != b'.') {
        usual[length] = if *byte == b',' { b'.' } else { *byte };
        length += 1;
    }
    Some((&usual[..length], comma))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_the_standard_library_reads() {
        for text in [
            "0",
            "-0",
            "7",
            "-42",
            "999999999999999999",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "18446744073709551615",
            "18446744073709551616",
            "123456789012345678901234567890",
            "0.1",
            "-2.50",
            "3.14159265358979",
            "0.30000000000000004",
            "1e5",
            "1E-7",
            "2.5e+300",
            "1e999",
            "179.769e306",
            "5e-324",
            "00012",
        ] {
            let want = text
                .parse()
                .map(Number::Int)
                .or_else(|_| text.parse().map(Number::Large))
                .unwrap_or_else(|_| Number::Float(text.parse().unwrap()));
            assert_eq!(read(text.as_bytes()), Some(want), "{text}");
            if let Some((number, length)) = short(format!("{text},").as_bytes()) {
                assert_eq!((number, length), (want, text.len()));
            }
        }
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in [
            "", "-", ".", "-.", "e5", "1e", "1e+", "1.2.3", "NaN", "inf", "0x10", "1 ", "+1", "1_0",
        ] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn fractions_are_what_the_standard_library_reads() {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            state ^ (state >> 29)
        };
        let mut missed = 0;
        for _ in 0..60_000 {
            let scale = usize::try_from(1 + next() % DIGITS as u64).unwrap();
            let mantissa = next() >> (next() % 64) as u32;
            let Some(value) = quotient(mantissa, scale) else {
                missed += 1;
                continue;
            };
            let want: f64 = format!("{mantissa}e-{scale}").parse().unwrap();
            assert_eq!(value.to_bits(), want.to_bits(), "{mantissa}e-{scale}");
        }
        assert!(missed < 300, "{missed}");
        for _ in 0..60_000 {
            // As most programs write floats.
            let float = f64::from_bits(next() >> 12 | 1023 << 52) - 1.0;
            for text in [float.to_string(), (float * 180.0 - 90.0).to_string()] {
                let want = Number::Float(text.parse().unwrap());
                assert_eq!(read(text.as_bytes()), Some(want), "{text}");
                if let Some((number, length)) = short(format!("{text}]").as_bytes()) {
                    assert_eq!((number, length), (want, text.len()), "{text}");
                }
            }
        }
    }

    #[test]
    fn decimal_commas_are_told_from_commas_between_thousands() {
        for (text, want) in [
            ("12,50", Some(("12.50", Comma::Decimal))),
            ("-0,5", Some(("-0.5", Comma::Decimal))),
            ("1.234,5", Some(("1234.5", Comma::Decimal))),
            ("1.234.567", Some(("1234567", Comma::Absent))),
            ("12", Some(("12", Comma::Absent))),
            ("1,234", Some(("1.234", Comma::Either))),
            ("0,125", Some(("0.125", Comma::Decimal))),
            ("1234,500", Some(("1234.500", Comma::Decimal))),
            (" 7,5 ", Some(("7.5", Comma::Decimal))),
            ("1,234,567", None),
            ("1,234.5", None),
            ("12.5", None),
            ("1.2.3", None),
            ("007,5", None),
            ("20.03.2026", None),
            ("5,", None),
            (",5", None),
            ("", None),
            ("a,b", None),
        ] {
            let mut usual = [0; COMMA_BYTES];
            let found = with_comma(text.as_bytes(), &mut usual);
            let want = want.map(|(usual, comma)| (usual.as_bytes(), comma));
            assert_eq!(found, want, "{text}");
        }
    }

    #[test]
    fn half_way_between_two_floats_is_rounded_to_the_even_one() {
        for half in ["9007199254740993.0", "0.5000000000000000555", "4503599627370497.5", "1.5"] {
            let want = Number::Float(half.parse().unwrap());
            assert_eq!(read(half.as_bytes()), Some(want), "{half}");
        }
    }

    #[test]
    fn a_number_is_read_ahead_only_if_it_ends_there() {
        assert_eq!(short(b"12,"), Some((Number::Int(12), 2)));
        assert_eq!(short(b"-0.123456789012,"), Some((Number::Float(-0.123_456_789_012), 15)));
        for open in ["12", "1.", "1.5", "1.x,", "01,", "-,", ".5,", "1e5,", "1.5e5,", "12345678"] {
            assert_eq!(short(open.as_bytes()), None, "{open}");
        }
    }
}
