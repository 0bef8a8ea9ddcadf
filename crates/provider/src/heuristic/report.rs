//! What people read: what was computed, and what was not understood. `result.md` has
//! the question, too.

use super::plan::{Plan, Puzzle};
use super::question::Question;
use super::shape::Shape;
use super::words::{is_small, likeness, split};

const LONGEST: usize = 6_000;
/// Of a message of an interpreter.
const LONGEST_FAILURE: usize = 1_500;
/// Columns of a dataset that are told to who did not know them.
const MOST_COLUMNS: usize = 20;

const MODEST: &str = "This was computed by fixed rules, without a language model. They match words of \
    the question to what the data calls things, and may have misunderstood it.";
const UNABLE: &str = "Fixed rules work on questions here, without a language model. They count rows, and \
    add up or average a column of numbers (also its median, minimum, maximum, deviation, or the \
    correlation of two), for all rows or by another column, and only for rows with a value that the \
    question names. Columns, values and datasets have to be called what the data calls them.";

/// What was found, first of all; none: the computation did not come to its end.
pub(super) fn answer(
    question: &Question,
    plan: &Plan,
    looked: &str,
    output: &str,
) -> Option<String> {
    let found = shortened(between(output)?.trim(), LONGEST);
    let mut text = format!("{}:\n\n{found}\n", capital(&plan.describe()));
    let unused = unused(question, plan);
    if !unused.is_empty() {
        let words = unused.join(", ");
        text += &format!("\nWords of the question that played no part in this: {words}.\n");
    }
    Some(format!("{text}{}\n{MODEST}\n", notes(looked)))
}

/// The same, for who finds it without the question.
pub(super) fn result(question: &Question, answer: &str) -> String {
    let text = question.text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("# Heuristic result\n\nQuestion: {}\n\n{answer}", shortened(&text, LONGEST))
}

/// Why there is no answer: the question was not understood.
pub(super) fn puzzled(puzzle: &Puzzle, shapes: &[Shape], looked: &str) -> String {
    let list = |names: &[String]| format!("`{}`", names.join("`, `"));
    let why = match puzzle {
        Puzzle::Nothing => "no word of it names anything in the data".to_owned(),
        Puzzle::Aim => "no word of it says what to compute".to_owned(),
        Puzzle::Number(columns) if columns.is_empty() => {
            "it needs a column of numbers, and there is none to add up".to_owned()
        }
        Puzzle::Number(columns) => {
            format!("it does not name enough of the columns of numbers: {}", list(columns))
        }
        Puzzle::Group(words) => format!("nothing in the data is called \"{words}\""),
    };
    let mut text = format!("The question is not understood: {why}.\n\nThere is:\n\n");
    for Shape { name, rows, columns } in shapes {
        let more = columns.len().saturating_sub(MOST_COLUMNS);
        let shown = columns.iter().take(MOST_COLUMNS).map(|column| column.0.clone());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        text += &format!("- `{name}`, {rows} rows: {}{more}\n", list(&shown.collect::<Vec<_>>()));
    }
    format!("{text}{}\n{UNABLE}\n", notes(looked))
}

/// Why there is no answer: there is nothing that could be read.
pub(super) fn without_data(looked: &str) -> String {
    let notes = notes(looked);
    let why = if notes.is_empty() { failure(looked) } else { notes };
    format!("Nothing was computed: no dataset could be read.\n{why}\n{UNABLE}\n")
}

/// Why there is no answer: the code did not come to its end.
pub(super) fn failed(plan: &Plan, output: &str) -> String {
    let aim = plan.describe();
    format!("Nothing was computed: {aim} could not be found.\n{}\n{UNABLE}\n", failure(output))
}

fn failure(output: &str) -> String {
    match output.trim() {
        "" | "(no output)" => String::new(),
        output => format!("\n```\n{}\n```\n", shortened(output, LONGEST_FAILURE)),
    }
}

/// What has to be said of the files.
fn notes(looked: &str) -> String {
    let notes = looked.lines().filter_map(|line| line.trim().strip_prefix("NOTE "));
    notes.map(|note| format!("\n{note}\n")).collect()
}

/// What the code marked as its result.
fn between(output: &str) -> Option<&str> {
    let (_, rest) = output.split_once("RESULT-BEGIN\n")?;
    rest.split_once("RESULT-END").map(|(found, _)| found)
}

/// Words that name nothing that was used.
fn unused(question: &Question, plan: &Plan) -> Vec<String> {
    let used: Vec<String> = plan.names().into_iter().flat_map(split).collect();
    let mut unused = Vec::new();
    for (at, word) in question.words.iter().enumerate() {
        let is_used = is_small(word)
            || question.is_most(at)
            || used.iter().any(|other| likeness(word, other) > 0);
        let word = format!("\"{word}\"");
        if !is_used && !unused.contains(&word) && unused.len() < 12 {
            unused.push(word);
        }
    }
    unused
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn shortened(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most.min(text.len()))].to_owned()
}
