//! What people read: what was computed, and what was not understood. `result.md` has
//! the question, too.

use super::plan::{Plan, Puzzle};
use super::question::Question;
use super::shape::Shape;
use super::words::{likeness, split};

const LONGEST: usize = 6_000;
/// Of a message of an interpreter.
const LONGEST_FAILURE: usize = 1_500;
/// Columns of a dataset that are told to who did not know them.
const MOST_COLUMNS: usize = 20;
/// Names that may have been meant.
const MOST_NEAR: usize = 3;

const MODEST: &str = "This was computed by fixed rules, without a language model.";
const UNABLE: &str = "Fixed rules answer questions here, without a language model. They count rows, and \
    add up or average a column of numbers (also its median, minimum, maximum, standard deviation, or \
    the correlation of two), for all rows or by one or two columns or by month, for rows with a value, \
    a number over or under another, or in a time that the question names, and show the top rows by a \
    number. Columns, values and datasets have to be called what the data calls them. A question is \
    answered only if every word of it is understood; --model NAME asks a model instead.";

/// What was found, first of all; none: the computation did not come to its end.
pub(super) fn answer(plan: &Plan, looked: &str, output: &str) -> Option<String> {
    let found = shortened(between(output)?.trim(), LONGEST);
    let text = format!("{}:\n\n{found}\n", capital(&plan.describe()));
    Some(format!("{text}{}\n{MODEST}\n", notes(looked)))
}

/// The same, for who finds it without the question.
pub(super) fn result(question: &Question, answer: &str) -> String {
    let text = question.text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("# Heuristic result\n\nQuestion: {}\n\n{answer}", shortened(&text, LONGEST))
}

/// Why there is no answer: the question was not understood, or could mean several things.
pub(super) fn puzzled(
    puzzle: &Puzzle,
    question: &Question,
    shapes: &[Shape],
    looked: &str,
) -> String {
    let list = |names: &[String]| format!("`{}`", names.join("`, `"));
    let or = |names: &[String]| format!("`{}`", names.join("` or `"));
    let why = match puzzle {
        Puzzle::Nothing => {
            let nothing = "no word of it names anything in the data";
            let mut names: Vec<String> =
                question.words.iter().flat_map(|word| near(word, shapes)).collect();
            names.truncate(MOST_NEAR);
            match names.is_empty() {
                true => nothing.to_owned(),
                false => format!("{nothing}. Did you mean {}", or(&names)),
            }
        }
        Puzzle::Aim => "no word of it says what to compute. Try \"how many\", \"total\" or \
                        \"average\""
            .to_owned(),
        Puzzle::Number(columns) if columns.is_empty() => {
            "it needs a column of numbers, and there is none to add up".to_owned()
        }
        Puzzle::Number(columns) => format!("which number? Did you mean {}", or(columns)),
        Puzzle::Group(words) => match (apart(words, shapes), near(words, shapes)) {
            (Some(why), _) => why,
            (None, names) if names.is_empty() => {
                format!("nothing in the data is called \"{words}\"")
            }
            (None, names) => format!("nothing is called \"{words}\". Did you mean {}", or(&names)),
        },
        Puzzle::Doubt(names) => format!("it can mean several columns. Did you mean {}", or(names)),
        Puzzle::Measure(column) => format!(
            "what of `{column}`? Say \"average {column}\", \"maximum {column}\" or \"total {column}\""
        ),
        Puzzle::NoDate => "it names a time, and the data has no column of dates".to_owned(),
        Puzzle::When(months) if months.is_empty() => {
            "the time in it is not understood. Try \"in March 2026\", \"since 2025\" or \"the last \
             30 days\""
                .to_owned()
        }
        Puzzle::When(months) => format!("which year? Did you mean {}", or(months)),
        Puzzle::Unclear(words) => unclear(words, shapes),
    };
    let end = if why.contains("Did you mean") || why.starts_with("which") { "?" } else { "." };
    let mut text = format!("The question is not understood: {why}{end}\n\nThere is:\n\n");
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

/// Words that were not understood, and what they may be meant for.
fn unclear(words: &[String], shapes: &[Shape]) -> String {
    if let Some(why) = words.iter().find_map(|word| apart(word, shapes)) {
        return why;
    }
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let mut names: Vec<String> = words.iter().flat_map(|word| near(word, shapes)).collect();
    names.dedup();
    names.truncate(MOST_NEAR);
    let unknown = format!("these words are not understood: {}", quoted.join(", "));
    if names.is_empty() {
        unknown
    } else {
        format!("{unknown}. Did you mean `{}`", names.join("` or `"))
    }
}

/// Says that a column of this very name does not go with the rest of the question.
fn apart(words: &str, shapes: &[Shape]) -> Option<String> {
    let is_called = |shape: &&Shape| {
        shape.columns.iter().any(|column| column.0.eq_ignore_ascii_case(words.trim()))
    };
    let name = &shapes.iter().find(is_called)?.name;
    let why =
        format!("`{words}` is a column of `{name}`, and does not go with the rest of the question");
    Some(match shapes {
        [_] => why,
        _ => format!("{why}. Two datasets are joined by a key that both have"),
    })
}

/// Columns whose names are spelled like these words.
fn near(words: &str, shapes: &[Shape]) -> Vec<String> {
    let words = split(words);
    let columns = shapes.iter().flat_map(|shape| shape.columns.iter().map(|column| &column.0));
    let is_near = |name: &&String| {
        let parts = split(name);
        words.iter().any(|word| parts.iter().any(|part| is_typo(word, part)))
    };
    let mut found: Vec<String> = columns.filter(is_near).cloned().collect();
    found.truncate(MOST_NEAR);
    found
}

/// Whether two words differ in one or two letters, as misspelled ones do.
fn is_typo(first: &str, second: &str) -> bool {
    if likeness(first, second) > 0 {
        return true;
    }
    let (first, second): (Vec<char>, Vec<char>) =
        (first.chars().collect(), second.chars().collect());
    let longest = first.len().max(second.len());
    if first.len().min(second.len()) < 4 || longest > 40 {
        return false;
    }
    let mut row: Vec<usize> = (0..=second.len()).collect();
    for (i, a) in first.iter().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, b) in second.iter().enumerate() {
            let change = corner + usize::from(a != b);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[second.len()] <= longest / 3
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn shortened(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most.min(text.len()))].to_owned()
}
