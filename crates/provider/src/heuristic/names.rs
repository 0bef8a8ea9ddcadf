//! What words of a question name in the data: datasets, columns, and values.

use super::question::Question;
use super::shape::{Column, Kind, Shape};
use super::words::{is_small, likeness, meant, split};

/// A name that is meant by less than this, in hundredths, is not meant.
const ENOUGH: u32 = 50;

/// A column that may be meant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'s> {
    pub(super) shape: &'s Shape,
    pub(super) column: &'s Column,
    score: u32,
}

/// A value that the question names, and the column that has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named<'s> {
    pub(super) shape: &'s Shape,
    pub(super) column: &'s Column,
    pub(super) value: &'s str,
    /// Of its words in the question.
    at: usize,
    words: usize,
}

/// Columns that words of the question name, the best first.
pub(super) fn columns<'s>(
    question: &Question,
    shapes: &'s [Shape],
    fits: impl Fn(&Shape, &Column) -> bool,
) -> Vec<Candidate<'s>> {
    scored(question, shapes, fits, |name| meant(name, &question.words))
}

/// Columns that these words name, which stand where groups are named: the best first,
/// and of equals those that are no numbers.
pub(super) fn groups<'s>(
    question: &Question,
    shapes: &'s [Shape],
    words: &[&str],
    fits: impl Fn(&Shape, &Column) -> bool,
) -> Vec<Candidate<'s>> {
    // The first word is what was asked for; the second may say more of it.
    let best = |name: &str| {
        let own = split(name);
        let like = |word: &str| own.iter().map(|part| likeness(part, word)).max().unwrap_or(0);
        let whole = meant(name, &question.words);
        let scores = words.iter().zip([20, 0]).map(|(word, more)| match like(word) {
            0 => 0,
            like => like + more + whole,
        });
        scores.max().unwrap_or(0)
    };
    let mut found = scored(question, shapes, fits, best);
    found.sort_by_key(|candidate| candidate.column.1 == Kind::Number);
    found
}

fn scored<'s>(
    question: &Question,
    shapes: &'s [Shape],
    fits: impl Fn(&Shape, &Column) -> bool,
    score: impl Fn(&str) -> u32,
) -> Vec<Candidate<'s>> {
    let mut found = Vec::new();
    for shape in shapes {
        for column in shape.columns.iter().filter(|column| fits(shape, column)) {
            let score = score(&column.0);
            if score >= ENOUGH {
                // Of equals, that of the dataset that is named.
                let score = score * 10 + meant(&shape.name, &question.words) / 20;
                found.push(Candidate { shape, column, score });
            }
        }
    }
    found.sort_by_key(|candidate| std::cmp::Reverse(candidate.score));
    found
}

/// Columns that name the rows of a dataset which these words name.
pub(super) fn subjects<'s>(words: &[&str], shapes: &'s [Shape]) -> Vec<Candidate<'s>> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let named = shapes.iter().filter(|shape| meant(&shape.name, &words) >= ENOUGH);
    let names = |shape: &'s Shape| {
        let usual = ["name", "title", "id", "key"];
        let column = usual.into_iter().find_map(|name| shape.column(name))?;
        Some(Candidate { shape, column, score: 0 })
    };
    named.filter_map(names).collect()
}

/// The dataset that is meant: by its name, by a column or a value of it, or because
/// there is no other.
pub(super) fn dataset<'s>(
    question: &Question,
    shapes: &'s [Shape],
    values: &[Named<'_>],
) -> Option<&'s Shape> {
    let score = |shape: &Shape| {
        let columns = shape.columns.iter().map(|column| meant(&column.0, &question.words));
        let columns = columns.max().filter(|score| *score >= ENOUGH).unwrap_or(0);
        let values = values.iter().filter(|named| named.shape.name == shape.name).count();
        (meant(&shape.name, &question.words), columns, values)
    };
    let best = shapes.iter().max_by_key(|shape| (score(shape), shape.rows))?;
    let is_only = shapes.len() == 1 && question.counts_rows();
    (score(best) != (0, 0, 0) || is_only).then_some(best)
}

/// Values of columns that the question names.
pub(super) fn values<'s>(question: &Question, shapes: &'s [Shape]) -> Vec<Named<'s>> {
    if question.is_negative() {
        return Vec::new();
    }
    let mut found: Vec<Named<'s>> = Vec::new();
    for shape in shapes {
        for column in &shape.columns {
            let named = column.3.iter().filter_map(|value| {
                let words = split(value);
                let at = place(&question.words, &words)?;
                let is_name = words.len() == 1 && is_named(shapes, &words[0]);
                let is_plain = words.iter().all(|word| is_small(word));
                let words = words.len();
                (!is_name && !is_plain).then_some(Named { shape, column, value, at, words })
            });
            found.extend(named);
        }
    }
    found
}

/// One column for each word: that of this dataset, or else the one with the fewest
/// values. Longer values come first.
pub(super) fn settled<'s>(values: &[Named<'s>], home: &Shape) -> Vec<Named<'s>> {
    let mut values = values.to_vec();
    values.sort_by_key(|named| {
        (std::cmp::Reverse(named.words), named.shape.name != home.name, named.column.2)
    });
    let mut kept: Vec<Named<'s>> = Vec::new();
    for named in values {
        // "Anna" and "ANNA" of one column are both meant.
        let is_free = |other: &Named<'_>| {
            let is_apart = other.at + other.words <= named.at || named.at + named.words <= other.at;
            is_apart || (std::ptr::eq(other.column, named.column) && other.at == named.at)
        };
        if kept.iter().all(is_free) {
            kept.push(named);
        }
    }
    kept
}

/// Where words stand in others, one after the other.
fn place(all: &[String], words: &[String]) -> Option<usize> {
    let is_there = |window: &[String]| window == words;
    if words.is_empty() { None } else { all.windows(words.len()).position(is_there) }
}

/// Whether a word is one of a column's or a dataset's name.
fn is_named(shapes: &[Shape], word: &String) -> bool {
    let names = |shape: &Shape| {
        let columns = shape.columns.iter().map(|column| column.0.as_str());
        columns.chain([shape.name.as_str()]).any(|name| split(name).contains(word))
    };
    shapes.iter().any(names)
}

/// How rows of one dataset find theirs in another: by a column of the same name, or
/// by `deal_id` and the `id` of `deals`.
pub(super) fn bridge(from: &Shape, to: &Shape) -> Option<(String, String)> {
    let is_key = |column: &Column| to.is_key(column);
    let same = from
        .columns
        .iter()
        .filter(|column| column.1 != Kind::Date)
        .find(|column| to.column(&column.0).is_some_and(is_key) && column.0 != "id");
    if let Some(column) = same {
        return Some((column.0.clone(), column.0.clone()));
    }
    let key = to.columns.iter().find(|column| is_key(column) && split(&column.0) == ["id"])?;
    let want: Vec<String> = split(&to.name).into_iter().chain(["id".to_owned()]).collect();
    let left = from.columns.iter().find(|column| split(&column.0) == want)?;
    Some((left.0.clone(), key.0.clone()))
}
