//! Numbers as people read them.

/// With a comma between thousands.
pub(crate) fn separated(number: u64) -> String {
    separated_text(&number.to_string())
}

/// The same for a number that is written already: only the digits before its point change.
pub(crate) fn separated_text(number: &str) -> String {
    let (sign, rest) = match number.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", number),
    };
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    let (whole, decimals) = rest.split_at(end);
    let mut out = sign.to_owned();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out.push_str(decimals);
    out
}

/// Returns true for a plain number: digits, with or without a sign and decimals.
pub(super) fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, "0"));
    let all = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    all(whole) && all(decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated_and_decimals_are_not() {
        for (number, want) in [
            ("0", "0"),
            ("999", "999"),
            ("1000", "1,000"),
            ("-1234567.8901", "-1,234,567.8901"),
            ("12", "12"),
        ] {
            assert_eq!(separated_text(number), want);
        }
        assert_eq!(separated(u64::MAX), "18,446,744,073,709,551,615");
        assert!(is_number("-1.5") && !is_number("1.") && !is_number("") && !is_number("1e5"));
    }
}
