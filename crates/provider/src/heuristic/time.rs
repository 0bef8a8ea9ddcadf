//! Words about time: "in March 2026", "since Q2", "the last 30 days", "by month".

use std::collections::BTreeSet;

use super::lexer;
use super::words::is_filler;

/// What a question says about time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Time {
    /// Groups are made of these.
    pub(super) unit: Option<Unit>,
    pub(super) spans: Vec<Span>,
    /// Places of the words that say so.
    pub(super) used: BTreeSet<usize>,
    /// Places of those that name the unit of groups.
    unit_at: BTreeSet<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Day,
    Weekday,
    Week,
    Month,
    Quarter,
    Year,
}

/// A part of the calendar, and which side of it is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    first: Part,
    /// The end of "from March to May".
    last: Option<Part>,
    side: Side,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A year; with months counted from 0, the first and how many.
    Calendar { year: Option<i32>, month: i32, months: i32 },
    /// With months counted from 0, too.
    Day { year: Option<i32>, month: i32, day: i32 },
    /// So many units before the last date of the data.
    Last { count: u32, unit: Unit },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Within,
    Since,
    After,
    Before,
    Until,
}

/// Rows whose date is in this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Period {
    /// From the first day on, up to the last one, which is not included.
    Days { from: Option<String>, to: Option<String> },
    /// So many units, the last of which ends with the data.
    Last { count: u32, unit: Unit },
}

impl Period {
    /// For people.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Days { from: Some(from), to: Some(to) } => format!("from {from} to before {to}"),
            Self::Days { from: Some(from), to: None } => format!("from {from} on"),
            Self::Days { from: None, to: Some(to) } => format!("before {to}"),
            Self::Days { from: None, to: None } => "any date".to_owned(),
            Self::Last { count, unit } => {
                format!("in the last {count} {}s of the data", unit.word())
            }
        }
    }
}

const BY: [&str; 6] = ["by", "per", "each", "every", "which", "across"];
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
/// What comes before a time. "May" and "march" alone are other words.
const BEFORE: [&str; 13] = [
    "in", "during", "for", "of", "since", "after", "before", "until", "till", "through", "from",
    "to", "between",
];
const ORDINALS: [&str; 4] = ["first", "second", "third", "fourth"];

impl Unit {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "day" | "date" | "daily" => Self::Day,
            "weekday" => Self::Weekday,
            "week" | "weekly" => Self::Week,
            "month" | "monthly" => Self::Month,
            "quarter" | "quarterly" => Self::Quarter,
            "year" | "yearly" | "annual" | "annually" => Self::Year,
            _ => return None,
        })
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Weekday => "weekday",
            Self::Week => "week",
            Self::Month => "month",
            Self::Quarter => "quarter",
            Self::Year => "year",
        }
    }
}

impl Time {
    pub(super) fn read(words: &[String]) -> Self {
        let mut time = Self::default();
        let mut spans: Vec<(usize, usize, Part)> = Vec::new();
        let mut at = 0;
        while at < words.len() {
            if let Some((part, end)) = part(words, at) {
                spans.push((at, end, part));
                at = end;
                continue;
            }
            time.unit(words, at);
            at += 1;
        }
        let mut rest = spans.as_slice();
        while let [(start, end, first), more @ ..] = rest {
            let (mut last, mut end) = (None, *end);
            rest = more;
            if let [(next, stop, second), more @ ..] = more
                && joins(words, *start, end, *next)
            {
                time.used.extend(end..*next);
                (last, end, rest) = (Some(*second), *stop, more);
            }
            let (side, from) = side(words, *start);
            time.used.extend(from..end);
            time.spans.push(Span { first: *first, last, side });
        }
        time
    }

    /// "By month", "each week", "monthly".
    fn unit(&mut self, words: &[String], at: usize) {
        let word = words[at].as_str();
        let Some(unit) = Unit::of(word) else { return };
        let is_adverb = word.ends_with("ly") || word == "annual";
        let before = words[..at].iter().rposition(|word| !is_filler(word));
        let by = before.filter(|before| BY.contains(&words[*before].as_str()));
        // "By region and month".
        let is_by = |word: &String| BY.contains(&word.as_str());
        let is_second =
            at > 0 && words[at - 1] == "and" && words[at.saturating_sub(5)..at].iter().any(is_by);
        // "By day of the week".
        let rest: Vec<&str> = words[at + 1..].iter().map(String::as_str).take(3).collect();
        let (unit, end) = match rest[..] {
            ["of", "week", ..] if unit == Unit::Day => (Unit::Weekday, at + 3),
            ["of", "the", "week"] if unit == Unit::Day => (Unit::Weekday, at + 4),
            _ => (unit, at + 1),
        };
        if self.unit.is_none() && (is_adverb || by.is_some() || is_second) {
            self.unit = Some(unit);
            self.unit_at.extend((at..end).chain(by));
            self.used.extend(&self.unit_at);
        }
    }

    /// The words name a column of the data instead.
    pub(super) fn forget_unit(&mut self) {
        self.unit = None;
        self.used = self.used.difference(&self.unit_at).copied().collect();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unit.is_none() && self.spans.is_empty()
    }

    /// The word of the unit, where it is one.
    pub(super) fn unit_word<'w>(&self, words: &'w [String]) -> Option<&'w str> {
        let mut named = self.unit_at.iter().map(|at| words[*at].as_str());
        named.find(|word| Unit::of(word).is_some())
    }
}

impl Span {
    /// The period that is meant, in data from one date to another. An error: several may be.
    pub(super) fn resolve(self, from: &str, to: &str) -> Result<Period, Vec<String>> {
        if let Part::Last { count, unit } = self.first {
            return match (self.side, self.last) {
                (Side::Within, None) => Ok(Period::Last { count, unit }),
                _ => Err(vec![]),
            };
        }
        let last = self.last.unwrap_or(self.first);
        let year = last.year().or(self.first.year());
        let (first, last) = (self.first.or_year(year), last.or_year(year));
        let years = years(from).zip(years(to)).map_or(0..=0, |(first, last)| first..=last);
        let mut possible = Vec::new();
        for year in years {
            let (first, last) = (first.or_year(Some(year)), last.or_year(Some(year)));
            let Some((begin, end)) = first.first_day().zip(last.last_day()) else { continue };
            let is_known = self.first.year().is_some() || self.last.is_some();
            if (is_known || (begin.as_str() <= to && end.as_str() > from))
                && !possible.contains(&(begin.clone(), end.clone()))
            {
                possible.push((begin, end));
            }
        }
        let [(begin, end)] = possible.as_slice() else {
            return Err(possible.iter().map(|(begin, _)| begin[..7].to_owned()).collect());
        };
        let (begin, end) = (Some(begin.clone()), Some(end.clone()));
        Ok(match self.side {
            Side::Within => Period::Days { from: begin, to: end },
            Side::Since => Period::Days { from: begin, to: None },
            Side::After => Period::Days { from: end, to: None },
            Side::Before => Period::Days { from: None, to: begin },
            Side::Until => Period::Days { from: None, to: end },
        })
    }
}

impl Part {
    fn year(self) -> Option<i32> {
        match self {
            Self::Calendar { year, .. } | Self::Day { year, .. } => year,
            Self::Last { .. } => None,
        }
    }

    fn or_year(self, other: Option<i32>) -> Self {
        match self {
            Self::Calendar { year: None, month, months } => {
                Self::Calendar { year: other, month, months }
            }
            Self::Day { year: None, month, day } => Self::Day { year: other, month, day },
            known => known,
        }
    }

    fn first_day(self) -> Option<String> {
        match self {
            Self::Calendar { year: Some(year), month, .. } => Some(day(year, month)),
            Self::Day { year: Some(year), month, day } => {
                lexer::day(year, month + 1, day).map(lexer::iso)
            }
            _ => None,
        }
    }

    /// The first day that is not in it.
    fn last_day(self) -> Option<String> {
        match self {
            Self::Calendar { year: Some(year), month, months } => Some(day(year, month + months)),
            Self::Day { year: Some(year), month, day } => {
                lexer::day(year, month + 1, day)?.next_day().map(lexer::iso)
            }
            _ => None,
        }
    }
}

fn day(year: i32, month: i32) -> String {
    format!("{:04}-{:02}-01", year + month / 12, month % 12 + 1)
}

fn years(date: &str) -> Option<i32> {
    date.get(..4)?.parse().ok()
}

/// A part of the calendar that begins here, and where it ends.
fn part(words: &[String], at: usize) -> Option<(Part, usize)> {
    let word = |at: usize| words.get(at).map(String::as_str);
    let with_year = |month, months, end: usize| {
        let skip = usize::from(word(end) == Some("of"));
        match word(end + skip).and_then(year) {
            Some(year) => (Part::Calendar { year: Some(year), month, months }, end + skip + 1),
            None => (Part::Calendar { year: None, month, months }, end),
        }
    };
    let here = word(at)?;
    if ["last", "past", "latest", "previous"].contains(&here) {
        let count = word(at + 1)?.parse().ok().filter(|count| (1..=10_000).contains(count))?;
        let unit = Unit::of(word(at + 2)?).filter(|unit| *unit != Unit::Weekday)?;
        return Some((Part::Last { count, unit }, at + 3));
    }
    if let [year, month, day] = here.split('-').collect::<Vec<_>>()[..]
        && let (Ok(year), Ok(month), Ok(day)) = (year.parse(), month.parse::<i32>(), day.parse())
    {
        return Some((Part::Day { year: Some(year), month: month - 1, day }, at + 1));
    }
    if let Some(found) = day_of_month(words, at) {
        return Some(found);
    }
    if let Some(year) = year(here) {
        return Some((Part::Calendar { year: Some(year), month: 0, months: 12 }, at + 1));
    }
    let quarter = here.strip_prefix('q').and_then(|digit| digit.parse().ok());
    if let Some(quarter) = quarter.filter(|quarter| (1..=4).contains(quarter)) {
        return Some(with_year((quarter - 1) * 3, 3, at + 1));
    }
    if word(at + 1) == Some("quarter")
        && let Some(quarter) = ORDINALS.iter().position(|ordinal| *ordinal == here)
    {
        return Some(with_year(i32::try_from(quarter * 3).ok()?, 3, at + 2));
    }
    let month = month(here)?;
    let is_announced = at > 0 && BEFORE.contains(&words[at - 1].as_str());
    let has_year = word(at + 1).and_then(year).is_some();
    let is_plain = here.len() > 5 || ["april", "june", "july"].contains(&here);
    (is_plain || is_announced || has_year).then(|| with_year(month, 1, at + 1))
}

fn month(word: &str) -> Option<i32> {
    let is_brief = word.len() == 3 || word == "sept";
    let is_month = |month: &&str| *month == word || (is_brief && month.starts_with(word));
    i32::try_from(MONTHS.iter().position(is_month)?).ok()
}

/// "3 May 2026", "May 3rd", "the 3rd of May".
fn day_of_month(words: &[String], at: usize) -> Option<(Part, usize)> {
    let word = |at: usize| words.get(at).map(String::as_str);
    let number = |at: usize| {
        let digits = word(at)?.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let ending = &word(at)?[digits.len()..];
        let day = digits.parse().ok().filter(|day| (1..=31).contains(day) && digits.len() < 3)?;
        ["", "st", "nd", "rd", "th"].contains(&ending).then_some(day)
    };
    let (month, day, end) = match (number(at), word(at).and_then(month)) {
        (Some(day), _) => {
            let skip = usize::from(word(at + 1) == Some("of"));
            (word(at + 1 + skip).and_then(month)?, day, at + 2 + skip)
        }
        (None, Some(month)) => (month, number(at + 1)?, at + 2),
        (None, None) => return None,
    };
    let year = word(end).and_then(year);
    Some((Part::Day { year, month, day }, end + usize::from(year.is_some())))
}

fn year(word: &str) -> Option<i32> {
    let is_year = word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|year| is_year && (1900..=2100).contains(year))
}

/// Which side of a time is meant, and where the words begin that say so.
fn side(words: &[String], start: usize) -> (Side, usize) {
    let mut at = start;
    while at > 0 {
        at -= 1;
        let side = match words[at].as_str() {
            "the" | "of" | "in" | "during" | "for" | "on" | "from" | "between" => continue,
            "since" => Side::Since,
            "after" => Side::After,
            "before" => Side::Before,
            "until" | "till" | "through" => Side::Until,
            _ => break,
        };
        return (side, at);
    }
    // "Between" counts only with what it is between, and "over" is "over the last 30 days".
    match words[..start] {
        [.., ref word] if word == "between" => (Side::Within, start - 1),
        [.., ref word, ref the] if word == "over" && the == "the" => (Side::Within, start - 2),
        _ => (Side::Within, start),
    }
}

/// "From March to May", "between March and May".
fn joins(words: &[String], start: usize, end: usize, next: usize) -> bool {
    let begins = |word: &str| start > 0 && words[start - 1] == word;
    match words.get(end..next).unwrap_or_default() {
        [word] if word == "and" => begins("between"),
        [word] => begins("from") && ["to", "until", "till", "through"].contains(&word.as_str()),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
