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
    pub(super) score: u32,
}

/// A value that the question names, and the column that has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named<'s> {
    pub(super) shape: &'s Shape,
    pub(super) column: &'s Column,
    pub(super) value: &'s str,
    /// Of its words in the question.
    pub(super) at: usize,
    pub(super) words: usize,
}

/// Columns that words of the question name, the best first.
pub(super) fn columns<'s>(
    question: &Question,
    shapes: &'s [Shape],
    fits: impl Fn(&Shape, &Column) -> bool,
) -> Vec<Candidate<'s>> {
    scored(question, shapes, fits, |name| meant(name, &question.words))
}

/// Columns that these words name, which stand where groups are named: first those that
/// account for most of the words, also by the name of their dataset.
pub(super) fn groups<'s>(
    question: &Question,
    shapes: &'s [Shape],
    words: &[&str],
    fits: impl Fn(&Shape, &Column) -> bool,
) -> Vec<Candidate<'s>> {
    let mut found = Vec::new();
    for shape in shapes {
        let around = split(&shape.name);
        for column in shape.columns.iter().filter(|column| fits(shape, column)) {
            let own = split(&column.0);
            let like = |parts: &[String], word: &str| {
                parts.iter().map(|part| likeness(part, word)).max().unwrap_or(0)
            };
            if words.iter().all(|word| like(&own, word) == 0) {
                continue;
            }
            let told = words.iter().map(|word| like(&own, word).max(like(&around, word) * 9 / 10));
            let told: u32 = told.sum();
            let whole = meant(&column.0, &question.words);
            let is_number = u32::from(column.1 == Kind::Number);
            found.push(Candidate { shape, column, score: (told * 1000 + whole) * 2 - is_number });
        }
    }
    found.sort_by_key(|candidate| std::cmp::Reverse(candidate.score));
    found
}

/// Whether words name one column of a dataset wholly.
pub(super) fn is_whole(shape: &Shape, words: &[&str]) -> bool {
    let is_like = |part: &String| words.iter().any(|word| likeness(part, word) == 100);
    shape.columns.iter().any(|column| split(&column.0).iter().all(is_like))
}

/// Whether words name a column wholly, but for what says that it names something: `customer_id`.
pub(super) fn is_named_by(column: &Column, words: &[String]) -> bool {
    let labels = ["id", "name", "key", "code", "number", "title"];
    let is_told = |part: &String| {
        labels.contains(&part.as_str()) || words.iter().any(|word| likeness(part, word) == 100)
    };
    split(&column.0).iter().all(is_told)
}

/// The best of these; several: they are all as good.
pub(super) fn best<'s>(found: &[Candidate<'s>]) -> Vec<Candidate<'s>> {
    let most = found.first().map_or(0, |first| first.score);
    found.iter().filter(|candidate| candidate.score == most).copied().collect()
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
        // Two of one name would be taken for one.
        let usual = ["name", "title", "id", "key"];
        let mut columns = usual.into_iter().filter_map(|name| shape.column(name));
        let column = columns.find(|column| column.2 == shape.rows)?;
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
    let groups: Vec<&str> = question.grouping().unwrap_or_default().concat();
    let is_free = |word: &&String| !groups.contains(&word.as_str());
    let subject: Vec<String> = question.words.iter().filter(is_free).cloned().collect();
    let score = |shape: &Shape| {
        let columns = shape.columns.iter().map(|column| meant(&column.0, &question.words));
        let columns = columns.max().filter(|score| *score >= ENOUGH).unwrap_or(0);
        let values = values.iter().filter(|named| named.shape.name == shape.name).count();
        // "Items per supplier" are items.
        let is_subject = meant(&shape.name, &subject) >= ENOUGH;
        (is_subject, meant(&shape.name, &question.words), columns, values)
    };
    let best = shapes.iter().max_by_key(|shape| (score(shape), shape.rows))?;
    let is_only = shapes.len() == 1 && question.counts_rows();
    (score(best) != (false, 0, 0, 0) || is_only).then_some(best)
}

/// Values of columns that the question names.
pub(super) fn values<'s>(question: &Question, shapes: &'s [Shape]) -> Vec<Named<'s>> {
    let mut found: Vec<Named<'s>> = Vec::new();
    for shape in shapes {
        for column in shape.columns.iter().filter(|column| column.1 == Kind::Word) {
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

/// Columns of one dataset that have the same value, none of which the question names.
pub(super) fn doubtful<'s>(
    question: &Question,
    values: &[Named<'s>],
    chosen: &Named<'s>,
) -> Vec<&'s Column> {
    let role = role(question, chosen.at);
    if role.is_some_and(|role| role.other().names(chosen.column)) {
        return vec![chosen.column];
    }
    let is_told = role.is_some_and(|role| role.names(chosen.column));
    if is_told || meant(&chosen.column.0, &question.words) >= ENOUGH {
        return Vec::new();
    }
    let others = values.iter().filter(|other| {
        (other.at, other.words) == (chosen.at, chosen.words)
            && other.shape.name == chosen.shape.name
            && !std::ptr::eq(other.column, chosen.column)
    });
    others.map(|other| other.column).collect()
}

/// One column for each word: that of this dataset, or else the one with the fewest
/// values. Longer values come first.
pub(super) fn settled<'s>(question: &Question, all: &[Named<'s>], home: &Shape) -> Vec<Named<'s>> {
    let mut values = all.to_vec();
    values.retain(|named| {
        // "From JFK" is an origin, if there is one.
        let Some(role) = role(question, named.at) else { return true };
        let is_same = |other: &Named<'_>| (other.at, other.words) == (named.at, named.words);
        let others = all.iter().filter(|other| is_same(other) && other.shape.name == home.name);
        let has_role = others.into_iter().any(|other| role.names(other.column));
        !has_role || role.names(named.column)
    });
    let is_named = |column: &Column| meant(&column.0, &question.words) >= ENOUGH;
    values.sort_by_key(|named| {
        let is_away = named.shape.name != home.name;
        (std::cmp::Reverse(named.words), is_away, !is_named(named.column), named.column.2)
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

/// Which end of a way a column names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    From,
    To,
}

impl Role {
    fn names(self, column: &Column) -> bool {
        let words: &[&str] = match self {
            Self::From => &["from", "origin", "source", "src", "departure", "sender", "start"],
            Self::To => {
                &["to", "destination", "dest", "target", "arrival", "recipient", "receiver"]
            }
        };
        split(&column.0).iter().any(|word| words.contains(&word.as_str()))
    }

    fn other(self) -> Self {
        match self {
            Self::From => Self::To,
            Self::To => Self::From,
        }
    }
}

/// Which end of a way is meant by the value here.
fn role(question: &Question, at: usize) -> Option<Role> {
    let before = question.words[..at].iter().rev().find(|word| *word != "the")?;
    match before.as_str() {
        "from" => Some(Role::From),
        "to" | "into" | "toward" => Some(Role::To),
        _ => None,
    }
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
