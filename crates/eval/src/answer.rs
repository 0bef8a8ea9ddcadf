//! Scores of answers that need neither code nor a model.
//!
//! `@name[value]` is read as DABench's own evaluation reads it, with the differences that
//! `tests/eval/judge.py` explains. Both are held to the cases of `tests/eval/cases.json`.

use std::collections::BTreeMap;

use crate::suite::{Expectation, NumberRule};

/// Between a value and its label, if both are numbers.
const LABEL_TOLERANCE: f64 = 1e-6;
/// Signs before and behind a number that do not change it.
const BEFORE: &[char] = &['$', '€', '£', '*', '`', '"', '\'', '('];
const BEHIND: &[char] = &['$', '€', '%', '*', '`', '"', '\'', ')', '.', ',', ';', ':', '!'];

/// A score from 0 to 1, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    pub score: f64,
    pub reason: String,
}

impl Score {
    fn of(is_right: bool, reason: impl Into<String>) -> Self {
        Self { score: if is_right { 1.0 } else { 0.0 }, reason: reason.into() }
    }
}

/// Scores an answer; none: that takes a checker or a judge.
pub fn score(expect: &Expectation, answer: &str) -> Option<Score> {
    match expect {
        Expectation::Exact(wanted) => {
            let is_right = answer.trim() == wanted.trim();
            let reason = if is_right { "the expected answer" } else { "another answer" };
            Some(Score::of(is_right, reason))
        }
        Expectation::Contains(wanted) => {
            let is_right = answer.contains(wanted.trim());
            let reason = if is_right { "holds" } else { "does not hold" };
            Some(Score::of(is_right, format!("the answer {reason} `{}`", wanted.trim())))
        }
        Expectation::Number(wanted) => Some(number(wanted, answer)),
        Expectation::Values(labels) => Some(values(labels, answer)),
        Expectation::Checker(_) | Expectation::Judge(_) => None,
    }
}

fn number(wanted: &NumberRule, answer: &str) -> Score {
    let found = numbers(answer);
    let [found] = found[..] else {
        let reason = match found.len() {
            0 => "the answer has no number".to_owned(),
            count => format!("the answer has {count} different numbers"),
        };
        return Score::of(false, reason);
    };
    let tolerance = wanted.absolute.max(wanted.relative * wanted.value.abs());
    let distance = (found - wanted.value).abs();
    // One unit in the last place is the cost of binary fractions.
    let is_right = distance <= tolerance + f64::EPSILON * wanted.value.abs();
    Score::of(is_right, format!("{found}, expected {}", wanted.value))
}

/// The different numbers of a text. Thousands may have commas; words and dates with digits in
/// them are no numbers.
fn numbers(text: &str) -> Vec<f64> {
    let mut found: Vec<f64> = Vec::new();
    for word in text.split(|letter: char| letter.is_whitespace() || matches!(letter, '|' | '=')) {
        let word = word.trim_start_matches(BEFORE).trim_end_matches(BEHIND);
        // The signs stand before or behind a currency.
        let (sign, digits) = match word.strip_prefix(['-', '\u{2212}']) {
            Some(digits) => (-1.0, digits.trim_start_matches(BEFORE)),
            None => (1.0, word),
        };
        let Some(digits) = without_separators(digits) else { continue };
        let Some(value) = parsed(&digits) else { continue };
        let value = sign * value;
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// Digits without the commas between thousands; none: there are commas elsewhere.
fn without_separators(text: &str) -> Option<String> {
    let Some((first, rest)) = text.split_once(',') else { return Some(text.to_owned()) };
    let (rest, decimals) = match rest.split_once('.') {
        Some((rest, decimals)) => (rest, format!(".{decimals}")),
        None => (rest, String::new()),
    };
    let are_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_first = (1..=3).contains(&first.len()) && are_digits(first);
    let are_groups = rest.split(',').all(|group| group.len() == 3 && are_digits(group));
    (is_first && are_groups).then(|| format!("{first}{}{decimals}", rest.replace(',', "")))
}

fn values(labels: &BTreeMap<String, String>, answer: &str) -> Score {
    let given = given(answer);
    let wrong: Vec<String> = labels
        .iter()
        .filter_map(|(name, label)| {
            let values = given.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
            let why = mistake(values, label)?;
            Some(format!("@{name}: {why}"))
        })
        .collect();
    let is_right = wrong.is_empty() && !labels.is_empty();
    Score::of(is_right, if is_right { "every value is right".to_owned() } else { wrong.join("; ") })
}

/// The reason why the values of a name are not its label's; none: they are.
fn mistake(values: &[&str], label: &str) -> Option<String> {
    match values {
        [] => Some("the answer does not give it".into()),
        [value] if is_same(value, label) => None,
        [value] => Some(format!("`{value}`, expected `{label}`")),
        values => Some(format!("given more than once: `{}`", values.join("`, `"))),
    }
}

/// All values of `@name[value]`, by name, in their order and without repetition.
fn given(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut rest = text;
    while let Some(at) = rest.find('@') {
        rest = &rest[at + 1..];
        let is_other = |letter: char| !letter.is_alphanumeric() && letter != '_';
        let name = &rest[..rest.find(is_other).unwrap_or(rest.len())];
        let Some(after) = rest[name.len()..].strip_prefix('[') else { continue };
        // A value ends with its line.
        let line = after.split('\n').next().unwrap_or_default();
        let Some(end) = line.find(']').filter(|_| !name.is_empty()) else { continue };
        let value = line[..end].trim();
        let seen = values.entry(name).or_default();
        if !seen.contains(&value) {
            seen.push(value);
        }
        rest = &after[end + 1..];
    }
    values
}

/// Compares lists item by item.
fn is_same(value: &str, label: &str) -> bool {
    let (values, labels): (Vec<&str>, Vec<&str>) =
        (value.split(',').collect(), label.split(',').collect());
    let is_same = |(value, label): (&&str, &&str)| is_same_item(value.trim(), label.trim());
    values.len() == labels.len() && values.iter().zip(&labels).all(is_same)
}

fn is_same_item(value: &str, label: &str) -> bool {
    value == label
        || parsed(value)
            .zip(parsed(label))
            .is_some_and(|(value, label)| (value - label).abs() < LABEL_TOLERANCE)
}

/// A number of digits; `nan` and `1_0` are text.
fn parsed(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_begun = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    let is_number = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    (is_begun && text.bytes().all(is_number)).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Case {
        answer: String,
        labels: BTreeMap<String, String>,
        right: bool,
    }

    /// The same cases as those of the suite that plays DABench.
    #[test]
    fn values_are_judged_as_the_suite_judges_them() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/eval/cases.json");
        let cases: Vec<Case> =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(cases.len() > 30);
        for case in cases {
            let score = values(&case.labels, &case.answer);
            assert_eq!(score.score == 1.0, case.right, "{}: {}", case.answer, score.reason);
        }
    }

    #[track_caller]
    fn check(answer: &str, want: &[f64]) {
        assert_eq!(numbers(answer), want, "{answer}");
    }

    #[test]
    fn numbers_are_found_in_sentences() {
        check("The total is **$5,800.50**.", &[5800.5]);
        check("-12", &[-12.0]);
        check("\u{2212}12 %", &[-12.0]);
        check("-$3", &[-3.0]);
        check("42, that is 42.0", &[42.0]);
        check("1.5e3", &[1500.0]);
        check("| north | 7 |", &[7.0]);
        check("Q3 of 2026-03-20 in room B12", &[]);
        check("1,23", &[]);
        check(".5 or (0.5)", &[0.5]);
        check("3 of 12", &[3.0, 12.0]);
    }

    #[test]
    fn a_number_is_right_within_its_tolerance() {
        let scored = |answer: &str, absolute: f64, relative: f64| {
            let wanted = NumberRule { value: 200.0, absolute, relative };
            number(&wanted, answer).score
        };
        assert_eq!([scored("200", 0.0, 0.0), scored("200.5", 0.0, 0.0)], [1.0, 0.0]);
        assert_eq!([scored("200.5", 0.5, 0.0), scored("200.6", 0.5, 0.0)], [1.0, 0.0]);
        assert_eq!([scored("202", 0.0, 0.01), scored("202.1", 0.0, 0.01)], [1.0, 0.0]);
        assert_eq!(scored("200 or 300", 1.0, 0.0), 0.0);
        let tenth = NumberRule { value: 0.3, absolute: 0.0, relative: 0.0 };
        assert_eq!(number(&tenth, "0.3").score, 1.0);
    }

    #[test]
    fn texts_are_compared_without_the_spaces_around_them() {
        let scored = |expect: Expectation, answer: &str| score(&expect, answer).unwrap().score;
        assert_eq!(scored(Expectation::Exact("north".into()), " north\n"), 1.0);
        assert_eq!(scored(Expectation::Exact("north".into()), "North"), 0.0);
        assert_eq!(scored(Expectation::Contains("`North` has".into()), "So `North` has it."), 1.0);
        assert_eq!(scored(Expectation::Contains("south".into()), "north"), 0.0);
    }
}
