//! What every benchmark does with its figures: a table, a document, a drawing.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use super::plot::Figure;
use super::stats::Summary;
use crate::cli::BenchOutput;
use crate::output::Printer;

/// Prints the table or the document, and writes the files that were asked for.
pub(super) fn publish(
    report: &impl Serialize,
    table: &str,
    figure: &Figure,
    output: &BenchOutput,
    printer: &Printer,
) -> anyhow::Result<()> {
    if let Some(path) = &output.json_file {
        save(path, &(serde_json::to_string_pretty(report)? + "\n"))?;
    }
    if let Some(path) = &output.svg {
        save(path, &figure.svg())?;
    }
    if output.json {
        return printer.document(report);
    }
    Ok(printer.data(table.trim_end())?)
}

fn save(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))
}

/// One contestant.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    #[serde(flatten)]
    pub(super) summary: Option<Summary>,
    /// Why there is no figure.
    pub(super) absent: Option<String>,
}

/// The line above the lines of [`row`].
pub(super) fn header(text: &mut String) {
    let _ = writeln!(text, "{:<24}{:>9}{:>9}{:>9}{:>9}", "", "p50", "p95", "p99", "mean");
}

/// One line of a table of times.
pub(super) fn row(text: &mut String, name: &str, summary: Option<Summary>, note: &str) {
    let line = match summary {
        Some(s) => format!(
            "{name:<24}{:>9.2}{:>9.2}{:>9.2}{:>9.2}  {note}",
            s.p50_ms, s.p95_ms, s.p99_ms, s.mean_ms
        ),
        None => format!("{name:<24}{:>36}  {note}", "-"),
    };
    let _ = writeln!(text, "{}", line.trim_end());
}

/// What was hoped for, and what came of it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Aim {
    pub(super) what: String,
    pub(super) aim: f64,
    pub(super) measured: Option<f64>,
    pub(super) met: bool,
}

impl Aim {
    pub(super) fn at_most(what: &str, aim: f64, measured: Option<f64>) -> Self {
        let met = measured.is_some_and(|measured| measured <= aim);
        Self { what: what.to_owned(), aim, measured, met }
    }

    pub(super) fn at_least(what: &str, aim: f64, measured: Option<f64>) -> Self {
        let met = measured.is_some_and(|measured| measured >= aim);
        Self { what: what.to_owned(), aim, measured, met }
    }
}

pub(super) fn aims(text: &mut String, aims: &[Aim]) {
    for Aim { what, aim, measured, met } in aims {
        let measured = measured.map_or("not measured".to_owned(), |m| format!("{m:.2}"));
        let verdict = if *met { "met" } else { "NOT met" };
        let _ = writeln!(text, "aim: {what} {aim}: {measured} ({verdict})");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aim_says_whether_it_is_met() {
        let mut text = String::new();
        let met = Aim::at_most("p50 at most", 10.0, Some(9.5));
        let missed = Aim::at_least("a second, at least", 11.6, Some(9.5));
        aims(&mut text, &[met, missed, Aim::at_most("p99 at most", 1.0, None)]);
        assert_eq!(
            text,
            "aim: p50 at most 10: 9.50 (met)\n\
             aim: a second, at least 11.6: 9.50 (NOT met)\n\
             aim: p99 at most 1: not measured (NOT met)\n"
        );
    }
}
