//! The words of a question. Numbers and dates stay whole, and signs that compare become words.

use ::time::{Date, Month};

use super::words::split;

/// Signs that mean something; as they are no words of any rule, those without one are not understood.
const SIGNS: [(&str, &str); 8] = [
    (">=", "at least"),
    ("<=", "at most"),
    ("≥", "at least"),
    ("≤", "at most"),
    (">", "over"),
    ("<", "under"),
    ("=", "equal"),
    ("&", "and"),
];

pub(super) fn tokens(text: &str) -> Vec<String> {
    let mut text = text.replace("!=", " ≠ ");
    for (sign, word) in SIGNS {
        text = text.replace(sign, &format!(" {word} "));
    }
    text.split_whitespace().flat_map(token).collect()
}

fn token(chunk: &str) -> Vec<String> {
    let core = chunk.trim_matches(|letter: char| "?!,.;:()[]\"'`“”".contains(letter));
    if let Some(date) = date(core) {
        return vec![iso(date)];
    }
    if let Some(number) = number(core) {
        return vec![number];
    }
    let is_percent = core.ends_with('%') && core.len() > 1;
    let is_sign = !core.is_empty() && core.chars().all(|letter| "+*/%÷≠×^".contains(letter));
    if is_percent || is_sign {
        return vec![core.to_owned()];
    }
    // "Revenue/units" is a ratio, "/api/users" is a name.
    match core.split_once('/') {
        Some((first, second)) if !first.is_empty() && !second.contains('/') => {
            [split(first), vec!["/".to_owned()], split(second)].concat()
        }
        _ => split(chunk),
    }
}

pub(super) fn iso(date: Date) -> String {
    format!("{:04}-{:02}-{:02}", date.year(), u8::from(date.month()), date.day())
}

/// A day that can be read in one way only.
fn date(text: &str) -> Option<Date> {
    let mark = text.chars().find(|letter| "-./".contains(*letter))?;
    let parts: Vec<&str> = text.split(mark).collect();
    let [first, second, third] = parts[..] else { return None };
    let numbers: Vec<i32> = parts.iter().filter_map(|part| part.parse().ok()).collect();
    let [a, b, c] = numbers[..] else { return None };
    if first.len() == 4 {
        return day(a, b, c);
    }
    if third.len() != 4 || first.len() > 2 || second.len() > 2 {
        return None;
    }
    match mark {
        '.' => day(c, b, a),
        // Days and months can be told apart if one of them is greater than 12.
        '/' if a > 12 => day(c, b, a),
        '/' if b > 12 => day(c, a, b),
        _ => None,
    }
}

pub(super) fn day(year: i32, month: i32, day: i32) -> Option<Date> {
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    Date::from_calendar_date(year, month, u8::try_from(day).ok()?).ok()
}

/// A number as code has it; none if it can be read in two ways, as 1.000 can.
fn number(text: &str) -> Option<String> {
    let body = text.trim_start_matches(['$', '€', '£']).trim_end_matches(['$', '€', '£']);
    let (sign, body) = body.strip_prefix('-').map_or(("", body), |rest| ("-", rest));
    let (whole, decimals) = body.split_once('.').map_or((body, None), |(a, b)| (a, Some(b)));
    let are_digits =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let groups: Vec<&str> = whole.split(',').collect();
    let is_grouped = groups[1..].iter().all(|group| group.len() == 3) && groups[0].len() <= 3;
    let is_whole =
        groups.iter().all(|group| are_digits(group)) && (groups.len() == 1 || is_grouped);
    let is_clear = match decimals {
        Some(decimals) => are_digits(decimals) && (decimals.len() != 3 || groups.len() > 1),
        None => true,
    };
    let decimals = decimals.map_or(String::new(), |decimals| format!(".{decimals}"));
    (is_whole && is_clear).then(|| format!("{sign}{}{decimals}", groups.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_dates_stay_whole() {
        for (text, want) in [
            ("salary over 70,000?", "salary over 70000"),
            ("salary>2.5", "salary over 2.5"),
            ("price >= $10", "price at least 10"),
            ("on 14.02.2026, please", "on 2026-02-14 please"),
            ("since 2026-02-14", "since 2026-02-14"),
            ("since 2/14/2026", "since 2026-02-14"),
            // Two ways to read it.
            ("since 2/3/2026", "since 2 3 2026"),
            ("over 1.000", "over 1 000"),
            ("over 2,5", "over 2 5"),
            // These are no plain words, so that they are not passed over.
            ("over 50%", "over 50%"),
            ("revenue / units", "revenue / unit"),
            ("revenue/units", "revenue / unit"),
            ("/api/users", "api user"),
        ] {
            assert_eq!(tokens(text).join(" "), want, "{text}");
        }
    }
}
