//! What texts stand for, judged by a sample of the different ones.

use crate::date;
use crate::describe::Meaning;
use crate::number;

/// With fewer values, a common beginning is chance.
const FEWEST: usize = 3;

type Test = fn(&[u8]) -> bool;

/// None unless (nearly) all are of one kind.
pub(crate) fn of_texts<'a>(texts: impl Iterator<Item = &'a [u8]> + Clone) -> Option<Meaning> {
    let texts = texts.filter(|text| !text.is_empty());
    let count = texts.clone().count();
    if count == 0 {
        return None;
    }
    let are = |test: Test| texts.clone().filter(|text| test(text)).count() * 20 >= count * 19;
    let kinds: [(Test, Meaning); 7] = [
        (is_uuid, Meaning::Uuid),
        (is_email, Meaning::Email),
        (is_url, Meaning::Url),
        (is_percent, Meaning::Percent),
        (is_currency, Meaning::Currency),
        (is_zero_padded, Meaning::ZeroPadded),
        (|text| number::read(text).is_some(), Meaning::NumericText),
    ];
    if let Some((_, meaning)) = kinds.into_iter().find(|(test, _)| are(*test)) {
        let is_digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
        // Years and plain counts have no zeros in front; one `07` among many
        // numbers is enough to know that zeros count.
        if meaning == Meaning::NumericText
            && texts.clone().all(is_digits)
            && texts.clone().any(is_zero_padded)
        {
            return Some(Meaning::ZeroPadded);
        }
        return Some(meaning);
    }
    if count < FEWEST || are(|text| date::read(text).is_some()) {
        return None;
    }
    pattern(texts).map(Meaning::Pattern)
}

fn is_uuid(text: &[u8]) -> bool {
    let is_dash = |place: usize| matches!(place, 8 | 13 | 18 | 23);
    let fits = |(place, byte): (usize, &u8)| {
        if is_dash(place) { *byte == b'-' } else { byte.is_ascii_hexdigit() }
    };
    text.len() == 36 && text.iter().enumerate().all(fits)
}

fn is_email(text: &[u8]) -> bool {
    let mut halves = text.split(|&byte| byte == b'@');
    let (Some(user), Some(host), None) = (halves.next(), halves.next(), halves.next()) else {
        return false;
    };
    let plain = |part: &[u8]| !part.is_empty() && part.iter().all(|b| b.is_ascii_graphic());
    plain(user) && plain(host) && host[1..].contains(&b'.')
}

fn is_url(text: &[u8]) -> bool {
    text.starts_with(b"https://") || text.starts_with(b"http://")
}

fn is_percent(text: &[u8]) -> bool {
    text.strip_suffix(b"%").is_some_and(|number| number::read(number.trim_ascii()).is_some())
}

fn is_currency(text: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(text) else { return false };
    let marks = ["$", "€", "£", "¥", "USD", "EUR", "GBP"];
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let amount = marks
        .iter()
        .find_map(|mark| unsigned.strip_prefix(mark).or_else(|| unsigned.strip_suffix(mark)));
    let Some(amount) = amount.map(str::trim) else { return false };
    let fits = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | ' ');
    amount.contains(|c: char| c.is_ascii_digit()) && amount.chars().all(fits)
}

fn is_zero_padded(text: &[u8]) -> bool {
    matches!(text, [b'0', b'0'..=b'9', ..]) && text.iter().all(u8::is_ascii_digit)
}

/// A literal that all begin with, then digits or hexadecimal digits: what ids
/// look like.
fn pattern<'a>(texts: impl Iterator<Item = &'a [u8]> + Clone) -> Option<String> {
    let first = texts.clone().next()?;
    let shared = texts.clone().fold(first.len(), |shared, text| {
        shared.min(text.iter().zip(first).take_while(|(a, b)| a == b).count())
    });
    // Digits and hexadecimal letters that happen to be shared belong to what varies.
    let literal = &first[..shared];
    let end = literal.iter().rposition(|byte| !byte.is_ascii_hexdigit()).map_or(0, |at| at + 1);
    let digits = literal.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
    let all = |from: usize, test: fn(&u8) -> bool| {
        texts.clone().all(|text| text.len() > from && text[from..].iter().all(test))
    };
    let (end, class) = if all(digits, u8::is_ascii_digit) {
        (digits, r"\d")
    } else if all(end, u8::is_ascii_hexdigit) {
        (end, "[0-9a-f]")
    } else {
        return None;
    };
    let literal = str::from_utf8(&first[..end]).ok()?;
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':' | '/' | '.' | '#');
    if !literal.chars().all(is_plain) || (literal.is_empty() && class == r"\d") {
        return None;
    }
    let lengths = texts.map(|text| text.len() - end);
    let (shortest, longest) =
        lengths.fold((usize::MAX, 0), |(low, high), n| (low.min(n), high.max(n)));
    match (literal.is_empty(), shortest == longest) {
        (true, _) if shortest < 8 => None,
        (_, true) => Some(format!("{literal}{class}{{{shortest}}}")),
        (_, false) => Some(format!("{literal}{class}+")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(texts: &[&str], want: Option<Meaning>) {
        assert_eq!(of_texts(texts.iter().map(|text| text.as_bytes())), want);
    }

    #[test]
    fn texts_are_told_by_their_form() {
        check(&["a@b.co", "x.y+z@example.org"], Some(Meaning::Email));
        check(&["https://a/b", "http://c"], Some(Meaning::Url));
        check(&["123e4567-e89b-12d3-a456-426614174000"], Some(Meaning::Uuid));
        check(&["1", "2.5", "-3"], Some(Meaning::NumericText));
        check(&["007", "123", "099"], Some(Meaning::ZeroPadded));
        check(&["12%", "3.5 %"], Some(Meaning::Percent));
        check(&["$1,200.50", "$3"], Some(Meaning::Currency));
        check(&["Ann", "Bob", "Cy"], None);
        check(&["2026-01-01", "2026-01-02", "2026-01-03"], None);
        check(&[], None);
    }

    #[test]
    fn ids_are_told_by_what_they_share() {
        let pattern = |text: &str| Some(Meaning::Pattern(text.to_owned()));
        check(&["deal_1", "deal_20", "deal_300"], pattern(r"deal_\d+"));
        check(&["th_8f3a", "th_00bc", "th_1234"], pattern("th_[0-9a-f]{4}"));
        check(&["ACC-0001", "ACC-0002", "ACC-0003"], pattern(r"ACC-\d{4}"));
        check(&["north", "north-east", "north-west"], None);
    }
}
