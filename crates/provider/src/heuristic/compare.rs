//! Rows that are chosen by comparing a number: "salary over 70000", "longer than 500 ms".

use std::ops::Range;

use super::question::Question;
use super::shape::{Column, Kind, Shape};
use super::words::{is_filler, is_small, likeness, meant};

/// A comparison as the question has it, before its column is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) operator: Operator,
    /// As text; there are two if a number is to be between them.
    pub(super) numbers: Vec<String>,
    /// Places of its words, without those of the column.
    pub(super) at: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Over,
    AtLeast,
    Under,
    AtMost,
    Equal,
    Between,
}

impl Operator {
    /// As the code calls it, and for people.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Over => "over",
            Self::AtLeast => "at least",
            Self::Under => "under",
            Self::AtMost => "at most",
            Self::Equal => "equal to",
            Self::Between => "between",
        }
    }
}

/// A comparison of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) column: String,
    pub(super) operator: Operator,
    pub(super) numbers: Vec<String>,
}

impl Limit {
    pub(super) fn describe(&self) -> String {
        format!("`{}` is {} {}", self.column, self.operator.word(), self.numbers.join(" and "))
    }
}

/// All comparisons in a question.
pub(super) fn read(words: &[String]) -> Vec<Comparison> {
    let mut found: Vec<Comparison> = Vec::new();
    for at in 0..words.len() {
        let is_free = found.last().is_none_or(|last| last.at.end <= at);
        found.extend(comparison(words, at).filter(|_| is_free));
    }
    found
}

fn comparison(words: &[String], at: usize) -> Option<Comparison> {
    let rest: Vec<&str> = words[at..].iter().map(String::as_str).take(4).collect();
    let (operator, length) = match rest[..] {
        ["over" | "above" | "exceeding" | "exceed", ..] => (Operator::Over, 1),
        ["under" | "below", ..] => (Operator::Under, 1),
        ["more" | "greater" | "higher" | "larger" | "bigger" | "longer", "than", ..] => {
            (Operator::Over, 2)
        }
        ["less" | "fewer" | "lower" | "smaller" | "shorter", "than", ..] => (Operator::Under, 2),
        ["at", "least", ..] => (Operator::AtLeast, 2),
        ["at", "most", ..] => (Operator::AtMost, 2),
        ["equal" | "exactly", "to", ..] => (Operator::Equal, 2),
        ["equal" | "exactly", ..] => (Operator::Equal, 1),
        ["of" | "is" | "are", _, ..] if at > 0 && !is_small(&words[at - 1]) => (Operator::Equal, 1),
        ["between", first, "and", second] if is_number(first) && is_number(second) => {
            let is_time = is_year(first) && is_year(second);
            let numbers = vec![first.to_owned(), second.to_owned()];
            let found = Comparison { operator: Operator::Between, numbers, at: at..at + 4 };
            return (!is_time).then_some(found);
        }
        _ => return None,
    };
    let number = words.get(at + length).filter(|word| is_number(word))?;
    // "Revenue of 2025" is that of a year.
    if operator == Operator::Equal && is_year(number) {
        return None;
    }
    Some(Comparison { operator, numbers: vec![number.clone()], at: at..at + length + 1 })
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit() || b".-".contains(&byte))
        && word.parse::<f64>().is_ok()
}

fn is_year(word: &str) -> bool {
    word.len() == 4 && word.parse().is_ok_and(|year: u32| (1900..=2100).contains(&year))
}

impl Comparison {
    /// The column that is compared: the one that is named right before, or as a unit right after.
    pub(super) fn column<'s>(&self, question: &Question, home: &'s Shape) -> Option<&'s Column> {
        let before = question.words[..self.at.start].iter().rposition(|word| !is_filler(word));
        let before = before.and_then(|last| {
            let words = &question.words[..=last];
            let near = words.iter().rev().take_while(|word| !is_small(word)).take(3).count();
            named(home, &words[words.len() - near..], <[String]>::last)
        });
        let rest = &question.words[self.at.end..];
        let length = rest.iter().take_while(|word| !is_small(word)).take(2).count();
        let after = named(home, &rest[..length], <[String]>::first);
        match (before, after) {
            (Some(before), Some(after)) => std::ptr::eq(before, after).then_some(before),
            (before, after) => before.or(after),
        }
    }
}

/// The only column of numbers that these words name, of which the nearest one has to be a part.
fn named<'s>(
    home: &'s Shape,
    words: &[String],
    nearest: impl Fn(&[String]) -> Option<&String>,
) -> Option<&'s Column> {
    let nearest = nearest(words)?;
    let is_near = |column: &&Column| {
        let parts = super::words::split(&column.0);
        parts.iter().any(|part| likeness(part, nearest) > 0)
    };
    let numbers = home.columns.iter().filter(|it| it.1 == Kind::Number && !it.is_id());
    let found: Vec<&Column> = numbers.filter(is_near).collect();
    let most = found.iter().map(|column| meant(&column.0, words)).max()?;
    let mut best = found.into_iter().filter(|column| meant(&column.0, words) == most);
    best.next().filter(|_| best.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::super::lexer::tokens;
    use super::*;

    #[test]
    fn comparisons_are_told_by_their_words() {
        for (text, want) in [
            ("salary over 70000", "over 70000"),
            ("salary > 70,000.5", "over 70000.5"),
            ("took longer than 500 ms", "over 500"),
            ("with at least 3 units", "at least 3"),
            ("units between 3 and 7", "between 3 7"),
            ("a quantity of 0", "equal to 0"),
            ("revenue of 2025", ""),
            ("revenue between 2024 and 2025", ""),
            ("total of 3", ""),
            ("revenue over 50%", ""),
            ("revenue over time", ""),
        ] {
            let found = read(&tokens(text));
            let shown =
                found.iter().map(|it| format!("{} {}", it.operator.word(), it.numbers.join(" ")));
            assert_eq!(shown.collect::<Vec<_>>().join(", "), want, "{text}");
        }
    }
}
