//! Sizes and times as people write them: `512M`, `1.5g`, `90s`, `2m`.

use std::time::Duration;

/// A text that is no size or no time.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UnitError {
    #[error("`{0}` is not a size; write bytes or a number with K, M, G or T, such as 512M")]
    Size(String),
    #[error("`{0}` is not a time; write seconds or a number with ms, s, m or h, such as 90s")]
    Time(String),
}

/// Reads a size; the units are powers of 1024.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let wrong = || UnitError::Size(text.to_owned());
    let lower = text.trim().to_ascii_lowercase();
    let number_end = lower.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(number_end);
    let shift = match unit.trim().trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    scaled(number, 1u64 << shift).ok_or_else(wrong)
}

/// Reads a time; a bare number is seconds.
pub fn parse_time(text: &str) -> Result<Duration, UnitError> {
    let wrong = || UnitError::Time(text.to_owned());
    let lower = text.trim().to_ascii_lowercase();
    let number_end = lower.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(number_end);
    let millis = match unit.trim() {
        "ms" => 1,
        "" | "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    scaled(number, millis).map(Duration::from_millis).ok_or_else(wrong)
}

/// As [`parse_time`], also in days (`d`): for what is kept for long.
pub fn parse_days(text: &str) -> Result<Duration, UnitError> {
    const DAY_SECONDS: u64 = 86_400;
    let text = text.trim();
    let Some(days) = text.strip_suffix(['d', 'D']) else { return parse_time(text) };
    scaled(days.trim_end(), DAY_SECONDS)
        .filter(|seconds| *seconds <= MAX_KEPT_DAYS * DAY_SECONDS)
        .map(Duration::from_secs)
        .ok_or_else(|| UnitError::Time(text.to_owned()))
}

/// The most days that can be named: a hundred years.
const MAX_KEPT_DAYS: u64 = 36_500;

/// `number` × `unit`, exact for integers and for decimal fractions.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.len() > 9 {
        return None;
    }
    let digits = |s: &str| if s.is_empty() { Some(0) } else { s.parse::<u64>().ok() };
    let parts = 10u64.pow(u32::try_from(fraction.len()).ok()?);
    let fraction = u128::from(digits(fraction)?) * u128::from(unit) / u128::from(parts);
    digits(whole)?.checked_mul(unit)?.checked_add(u64::try_from(fraction).ok()?)
}

/// Writes a size the way people read it.
pub fn format_size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let step = (0..units.len() - 1).take_while(|&i| bytes >> (10 * (i + 1)) > 0).count();
    if step == 0 {
        return format!("{bytes} B");
    }
    let tenths = u128::from(bytes) * 10 / (1u128 << (10 * step));
    format!("{}.{} {}", tenths / 10, tenths % 10, units[step])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        let check = |text, want| assert_eq!(parse_size(text), Ok(want), "{text}");
        check("0", 0);
        check("4096", 4096);
        check("512M", 512 << 20);
        check("1.5g", 3 << 29);
        check("2 GiB", 2 << 30);
        check("10kb", 10 << 10);
    }

    #[test]
    fn times_read_as_people_write_them() {
        let check = |text, want| assert_eq!(parse_time(text), Ok(Duration::from_millis(want)));
        check("5", 5000);
        check("250ms", 250);
        check("1.5s", 1500);
        check("2m", 120_000);
        check("1h", 3_600_000);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["", "-1", "many", "1x", "99999999999999999999", "1e9", ".", "18446744073709551615T"]
        {
            assert!(parse_size(text).is_err(), "{text}");
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_print_short() {
        assert_eq!(format_size(999), "999 B");
        assert_eq!(format_size(1536), "1.5 KiB");
        assert_eq!(format_size(3 << 30), "3.0 GiB");
    }
}
