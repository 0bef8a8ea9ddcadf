//! Dates in texts: which day or moment they name, and how they are written.

/// Milliseconds since 1970, as if in UTC where no zone is written.
pub(crate) type Millis = i64;

/// How finely a date is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Grain {
    Day,
    Minute,
    Second,
    Fraction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    None,
    Utc,
    Offset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Date {
    /// `2026-03-20`, with or without a time.
    Iso { at: Millis, grain: Grain, zone: Zone },
    /// `03/20/2026`: what each of the two orders makes of it, if it is a date.
    Slashed { month_first: Option<Millis>, day_first: Option<Millis> },
    /// `20.03.2026` or `1.3.2026`, with or without a time: the day is first.
    Dotted { at: Millis, grain: Grain },
}

const DAY: i64 = 86_400_000;

/// None for whatever is not one date in full.
#[inline]
pub(crate) fn read(text: &[u8]) -> Option<Date> {
    match text {
        [_, _, _, _, b'-', _, _, b'-', _, _, ..] if text.len() <= 35 => iso(text),
        [_, _, b'/', _, _, b'/', _, _, _, _] => slashed(text),
        [b'0'..=b'9', b'.', ..] | [b'0'..=b'9', b'0'..=b'9', b'.', ..] => dotted(text),
        _ => None,
    }
}

fn iso(text: &[u8]) -> Option<Date> {
    let day = day_of(number(&text[..4])?, number(&text[5..7])?, number(&text[8..10])?)?;
    let rest = &text[10..];
    let Some((mark, time)) = rest.split_first() else {
        return Some(Date::Iso { at: day * DAY, grain: Grain::Day, zone: Zone::None });
    };
    if !matches!(mark, b'T' | b't' | b' ') {
        return None;
    }
    let (clock, grain, rest) = clock(time)?;
    let (offset, zone) = zone(rest)?;
    Some(Date::Iso { at: day * DAY + clock - offset, grain, zone })
}

/// `hh:mm`, `:ss` and a fraction; what follows them.
fn clock(text: &[u8]) -> Option<(i64, Grain, &[u8])> {
    let &[h1, h0, b':', m1, m0, ref rest @ ..] = text else { return None };
    let (hour, minute) = (number(&[h1, h0])?, number(&[m1, m0])?);
    if hour > 24 || minute > 59 {
        return None;
    }
    let minutes = (hour * 60 + minute) * 60_000;
    let &[b':', s1, s0, ref rest @ ..] = rest else { return Some((minutes, Grain::Minute, rest)) };
    let second = number(&[s1, s0])?;
    if second > 60 {
        return None;
    }
    let seconds = minutes + second * 1000;
    let [b'.' | b',', rest @ ..] = rest else { return Some((seconds, Grain::Second, rest)) };
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let millis = number(&rest[..digits.min(3)])? * [0, 100, 10, 1][digits.min(3)];
    Some((seconds + millis, Grain::Fraction, &rest[digits..]))
}

fn zone(text: &[u8]) -> Option<(i64, Zone)> {
    let (sign, hour, minute) = match *text {
        [] => return Some((0, Zone::None)),
        [b'Z' | b'z'] | [b' ', b'U', b'T', b'C'] => return Some((0, Zone::Utc)),
        [sign, h1, h0] => (sign, number(&[h1, h0])?, 0),
        [sign, h1, h0, b':', m1, m0] | [sign, h1, h0, m1, m0] => {
            (sign, number(&[h1, h0])?, number(&[m1, m0])?)
        }
        _ => return None,
    };
    let minutes = hour * 60 + minute;
    let offset = match sign {
        b'+' => minutes,
        b'-' => -minutes,
        _ => return None,
    };
    (minutes < 24 * 60)
        .then_some((offset * 60_000, if offset == 0 { Zone::Utc } else { Zone::Offset }))
}

fn slashed(text: &[u8]) -> Option<Date> {
    let (first, second) = (number(&text[..2])?, number(&text[3..5])?);
    let year = number(&text[6..])?;
    let at = |month, day| Some(day_of(year, month, day)? * DAY);
    let (month_first, day_first) = (at(first, second), at(second, first));
    (month_first.is_some() || day_first.is_some())
        .then_some(Date::Slashed { month_first, day_first })
}

fn dotted(text: &[u8]) -> Option<Date> {
    let mut parts = text.splitn(3, |byte| *byte == b'.');
    let (day, month, rest) = (parts.next()?, parts.next()?, parts.next()?);
    if !(1..=2).contains(&month.len()) || rest.len() < 4 || rest.len() > 20 {
        return None;
    }
    let (year, time) = rest.split_at(4);
    let day = day_of(number(year)?, number(month)?, number(day)?)?;
    let (clock, grain) = match time {
        [] => (0, Grain::Day),
        [b' ', time @ ..] => match clock(time)? {
            (clock, grain, []) => (clock, grain),
            _ => return None,
        },
        _ => return None,
    };
    Some(Date::Dotted { at: day * DAY + clock, grain })
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))
}

/// Days since 1970 of a day that exists between 1000 and 9999.
fn day_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1000..=9999).contains(&year) || !(1..=longest).contains(&day) {
        return None;
    }
    // Years that begin in March: the leap day is their last.
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// Year, month and day of a moment.
pub(crate) fn civil(at: Millis) -> (i64, i64, i64) {
    civil_day(at.div_euclid(DAY))
}

/// Year, month and day of a day, counted from 1970.
pub(crate) fn civil_day(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// As it is shown: the day, and the time where there is one.
pub(crate) fn show(at: Millis, grain: Grain) -> String {
    let (year, month, day) = civil(at);
    let day = format!("{year:04}-{month:02}-{day:02}");
    let seconds = at.rem_euclid(DAY) / 1000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match grain {
        Grain::Day => day,
        Grain::Minute => format!("{day}T{hour:02}:{minute:02}"),
        Grain::Second | Grain::Fraction => format!("{day}T{hour:02}:{minute:02}:{second:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<Millis> {
        match read(text.as_bytes())? {
            Date::Iso { at, .. } => Some(at),
            Date::Slashed { month_first, day_first } => month_first.or(day_first),
            Date::Dotted { at, .. } => Some(at),
        }
    }

    #[test]
    fn moments_are_the_same_however_they_are_written() {
        let want = Some(1_774_015_200_000);
        for text in [
            "2026-03-20T14:00:00Z",
            "2026-03-20 14:00",
            "2026-03-20T16:00:00.000+02:00",
            "2026-03-20T09:30:00,0-0430",
            "2026-03-20 14:00:00 UTC",
            "2026-03-20T15:00+01",
        ] {
            assert_eq!(at(text), want, "{text}");
        }
        assert_eq!(at("03/20/2026"), at("2026-03-20"));
        assert_eq!(at("20/03/2026"), at("2026-03-20"));
        assert_eq!(at("20.03.2026"), at("2026-03-20"));
        assert_eq!(at("1.3.2026"), at("2026-03-01"));
        assert_eq!(at("20.03.2026 14:00"), want);
    }

    #[test]
    fn every_day_survives_being_shown() {
        for days in (-300_000..2_000_000).step_by(97) {
            let shown = show(days * DAY, Grain::Day);
            assert_eq!(at(&shown), Some(days * DAY), "{shown}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "2026-02-29",
            "2026-13-01",
            "2026-00-10",
            "2026-01-01x",
            "2026-01-01T",
            "2026-01-01T25:00",
            "2026-01-01T10:00:00.",
            "0001-01-01",
            "2026-01-01T10:00+99:00",
            "31/31/2026",
            "31.31.2026",
            "1.2.26",
            "1.234.567",
            "20.03.2026x",
            "20.03.2026 14:00Z",
            "abcd-ef-gh",
            "2026-01-01T10:00:00.123456789012345678901234567890Z",
        ] {
            let date = read(text.as_bytes());
            assert!(date.is_none() || text.ends_with('.'), "{text}: {date:?}");
        }
    }
}
