//! A description as text for a model's prompt, under a budget of tokens.
//!
//! What is said first is what joins and dates need: keys, relationships, date
//! ranges. Then come enums, numbers, samples, and optional fields deep inside.
//! What is left out is counted where it would have been.

mod field;

use std::fmt::Write as _;

use belljar_domain::units::format_size;

use crate::coding::Encoding;
use crate::describe::{Dataset, Description, Field};
use crate::problem::Problem;
use crate::relate::{Because, Cardinality, Checked, Key, NearMiss, Relationship, RepeatedId};
use field::{Detail, LADDER};

/// Characters that one token is taken for. Models differ; names and digits take
/// more tokens than prose.
const CHARS: usize = 3;

impl Description {
    /// The same for the same description. Detail is left out until it fits into
    /// `tokens`; the least that is said may still be longer.
    pub fn to_text(&self, tokens: usize) -> String {
        let fits = |text: &String| text.chars().count() <= tokens.saturating_mul(CHARS);
        let texts = LADDER.iter().map(|detail| self.with(detail));
        let mut last = String::new();
        for text in texts {
            if fits(&text) {
                return text;
            }
            last = text;
        }
        last
    }

    fn with(&self, detail: &Detail) -> String {
        let mut out = String::new();
        if let Some(day) = &self.as_of {
            line(&mut out, format_args!("Data as of {day} (the latest date in it; not today).\n"));
        }
        for dataset in &self.datasets {
            head(&mut out, dataset);
            let referring = self.paths_of(&dataset.name);
            field::records(&mut out, dataset, &referring, detail);
            keys(&mut out, &dataset.keys);
            repeated_ids(&mut out, &dataset.repeated_ids);
            problems(&mut out, &dataset.problems);
            out.push('\n');
        }
        if !self.relationships.is_empty() {
            out.push_str("Relationships (proven on the data):\n");
            self.relationships.iter().for_each(|one| relationship(&mut out, self, one));
        }
        if !self.near_misses.is_empty() {
            out.push_str("These do not join as they are:\n");
            self.near_misses.iter().for_each(|one| near_miss(&mut out, self, one));
        }
        if self.relationships.is_empty() && self.datasets.len() > 1 {
            out.push_str(
                "No relationship between the datasets was found: do not assume join keys.\n",
            );
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        out
    }

    /// Paths of a dataset that are part of a relationship.
    fn paths_of(&self, dataset: &str) -> Vec<&str> {
        let sides = self.relationships.iter().flat_map(|one| [&one.from, &one.to]);
        sides.filter(|side| side.dataset == dataset).map(|side| side.path.as_str()).collect()
    }

    fn variable<'a>(&'a self, dataset: &'a str) -> &'a str {
        let found = self.datasets.iter().find(|one| one.name == dataset);
        found.map_or(dataset, |one| &one.variable)
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{text}");
}

fn head(out: &mut String, dataset: &Dataset) {
    let Dataset { variable, name, format, bytes, rows, pandas_bytes, .. } = dataset;
    let (size, loaded) = (format_size(*bytes), format_size(*pandas_bytes));
    let records =
        if *rows == 1 { "1 record".to_owned() } else { format!("{} records", thousands(*rows)) };
    let name = printable(name);
    let packed = dataset.compression.map_or_else(String::new, |by| format!(", {by}"));
    let encoded = match dataset.encoding {
        Encoding::Utf8 => String::new(),
        other => format!(", {other}"),
    };
    let _ = write!(
        out,
        "{variable} ({name}, {format}{packed}{encoded}, {size}, about {loaded} in pandas): {records}."
    );
    if let Some(sheet) = &dataset.sheet {
        let of =
            if sheet.sheets > 1 { format!(", one of {}", sheet.sheets) } else { String::new() };
        let _ = write!(out, " They are in the sheet \"{}\"{of}.", printable(&sheet.name));
    }
    let has_header = dataset.dialect.is_none_or(|dialect| dialect.has_header)
        && dataset.sheet.as_ref().is_none_or(|sheet| sheet.header_row.is_some());
    if !has_header {
        out.push_str(" The file has no header; load_data() gives the columns the names below.");
    }
}

fn keys(out: &mut String, keys: &[Key]) {
    for key in keys {
        let columns: Vec<String> = key.columns.iter().map(|column| printable(column)).collect();
        let of =
            if key.of.is_empty() { String::new() } else { format!(" of {}", printable(&key.of)) };
        let together = if columns.len() > 1 { " (only together)" } else { "" };
        let checked = checked(key.checked);
        line(out, format_args!("  key{of}: {}{together}{checked}", columns.join(" + ")));
    }
}

fn repeated_ids(out: &mut String, repeated: &[RepeatedId]) {
    for RepeatedId { column, distinct, rows, checked } in repeated {
        let (column, checked) = (printable(column), self::checked(*checked));
        let (distinct, rows) = (thousands(*distinct), thousands(*rows));
        line(
            out,
            format_args!(
                "  no key: {column} comes again, {distinct} different values in {rows} records{checked}"
            ),
        );
    }
}

fn problems(out: &mut String, problems: &[Problem]) {
    for problem in problems {
        line(out, format_args!("  problem: {problem}"));
    }
}

fn relationship(out: &mut String, all: &Description, one: &Relationship) {
    let (from, to) = (all.variable(&one.from.dataset), all.variable(&one.to.dataset));
    let (from_path, to_path) = (printable(&one.from.path), printable(&one.to.path));
    let (matched, covered) = (percent(one.matched), percent(one.covered));
    let many = match one.cardinality {
        Cardinality::OneToOne => "1:1".to_owned(),
        Cardinality::ManyToOne => format!("N:1, {} each on average", short(one.mean)),
    };
    let checked = checked(one.checked);
    line(
        out,
        format_args!(
            "  {from}.{from_path} → {to}.{to_path}: {matched} of its values are there, {covered} of {to} referred to; {many}{checked}"
        ),
    );
}

fn near_miss(out: &mut String, all: &Description, one: &NearMiss) {
    let (from, to) = (all.variable(&one.from.dataset), all.variable(&one.to.dataset));
    let (from_path, to_path) = (printable(&one.from.path), printable(&one.to.path));
    let (matched, mended) = (percent(one.matched), percent(one.mended));
    let how = match one.because {
        Because::Case => "ignoring case",
        Because::Whitespace => "without the space around the values",
        Because::ZeroPadding => "without leading zeros",
        Because::Type => "once both are strings (one side is numbers)",
        Because::Prefix => "by the digits at their end",
    };
    line(
        out,
        format_args!(
            "  {from}.{from_path} and {to}.{to_path}: {matched} of the values match, {mended} {how}"
        ),
    );
}

fn checked(checked: Checked) -> String {
    match checked {
        Checked::All => String::new(),
        Checked::OneIn(every) => format!(" (checked on one value in {every})"),
    }
}

/// On one line, and not endless.
fn printable(text: &str) -> String {
    crate::summarize::shown(text.as_bytes())
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p > 99.0 && p < 100.0 => format!("{p:.2} %"),
        p if p > 0.0 && p < 1.0 => format!("{p:.2} %"),
        p => format!("{p:.0} %"),
    }
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number as short as it can be said.
fn short(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    let size = value.abs();
    match () {
        () if !(1e-4..1e15).contains(&size) => format!("{value:.3e}"),
        () if size >= 100.0 => format!("{value:.1}"),
        () if size >= 1.0 => trimmed(format!("{value:.2}")),
        () => trimmed(format!("{value:.4}")),
    }
}

fn trimmed(text: String) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Where a dataset's records are, and whether these are items of an array.
fn records(dataset: &Dataset) -> &Field {
    match &dataset.root.item {
        Some(item) if dataset.root.types.array == 1 && dataset.root.types.total() == 1 => item,
        _ => &dataset.root,
    }
}
