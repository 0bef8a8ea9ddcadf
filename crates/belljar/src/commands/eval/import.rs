//! `belljar eval import`: a benchmark as a file of tasks.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, anyhow};

use crate::cli::{EvalBenchmark, EvalImport};
use crate::output::{Hint as _, Printer, hinted};

/// The names of DABench's files, here and in its own repository.
const QUESTIONS: [&str; 2] = ["questions.jsonl", "da-dev-questions.jsonl"];
const LABELS: [&str; 2] = ["labels.jsonl", "da-dev-labels.jsonl"];

pub(super) fn import(options: &EvalImport, printer: &Printer) -> anyhow::Result<()> {
    let EvalBenchmark::Dabench = options.benchmark;
    let place = &options.directory;
    let tables = match &options.tables {
        Some(tables) => tables.clone(),
        None => place.join("tables").to_string_lossy().into_owned(),
    };
    let (questions, labels) = (read(place, QUESTIONS)?, read(place, LABELS)?);
    let text = belljar_eval::import(&questions, &labels, &tables, options.limit);
    let text = text.with_context(|| format!("cannot import `{}`", place.display()))?;
    Ok(printer.data(text.trim_end())?)
}

fn read(place: &Path, names: [&str; 2]) -> anyhow::Result<String> {
    let found = names.iter().map(|name| place.join(name)).find(|path| path.is_file());
    let found = found.ok_or_else(|| {
        let error = anyhow!("`{}` has no {} and no {}", place.display(), names[0], names[1]);
        hinted(error, "name the directory with DABench's questions, labels and tables")
    })?;
    let text = fs::read_to_string(&found);
    text.with_context(|| format!("cannot read `{}`", found.display())).hint("it has to be text")
}
