//! `belljar eval`: a grid of runs, scored.
//!
//! ```text
//!   grid.rs: the file, and the trials to run ──► work.rs: some at a time, within the money
//!                                                 │
//!          local.rs: `belljar ask` for each run ◄─┼─► remote.rs: POST /v1/runs
//!                                                 │
//!   book.rs: the trials' file ◄── scoring.rs ◄─────┘──► table.rs, JSON, HTML
//! ```

mod asked;
mod book;
mod grid;
mod import;
mod local;
mod remote;
mod scoring;
mod table;
mod work;

use std::path::Path;

use anyhow::{Context as _, anyhow};
use belljar_eval::{Report, page};

use self::book::Book;
use self::grid::Grid;
use self::scoring::Scorer;
use self::work::{Ended, Work};
use crate::cli::{Eval, EvalAction};
use crate::config::Config;
use crate::output::{Hint as _, Printer, hinted};
use crate::page::Page;
use crate::session::Interrupt;

/// The exit status if `--min-score` is not reached.
const TOO_LOW: u8 = 6;
/// The exit status if trials are missing or have no score.
const INCOMPLETE: u8 = 7;
const INTERRUPTED: u8 = 130;

pub(crate) async fn run(options: &Eval, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    if let Some(EvalAction::Import(options)) = &options.action {
        import::import(options, printer)?;
        return Ok(0);
    }
    let file = options.file.as_deref().context("the file of tasks is missing")?;
    let mut grid = Grid::read(file, options)?;
    for path in [&options.json, &options.html].into_iter().flatten() {
        // Before anything is paid for.
        writable(path)?;
    }
    let book = Book::open(&grid, options)?;
    if options.replay && options.models.is_empty() {
        grid.take_recorded(book.done.keys().chain(book.begun.keys()));
    }
    let interrupt = Interrupt::new()?;
    let scorer = Scorer::new(&grid, options, config)?;
    let work = Work::new(&grid, &scorer, options, printer);
    let (trials, ended) = work.run(book, interrupt).await?;
    let mut head = grid.head(options);
    head.incomplete = ended.reason();
    let report = Report::new(head, trials);
    if let Some(path) = options.json.as_deref().filter(|_| !options.prints_json()) {
        write(path, &(serde_json::to_string_pretty(&report)? + "\n"))?;
    }
    if let Some(path) = &options.html {
        write(path, &page(&report))?;
    }
    if options.prints_json() {
        printer.document(&report)?;
    } else {
        table::print(&report, Page::of_terminal(config), printer)?;
    }
    Ok(status(&report, &ended, options, printer))
}

fn status(report: &Report, ended: &Ended, options: &Eval, printer: &Printer) -> u8 {
    if let Some(why) = ended.reason() {
        let again = "--resume continues the grid";
        printer.always(format_args!("stopped: {why}\nhint: {again}"));
    }
    if matches!(ended, Ended::Interrupted) {
        return INTERRUPTED;
    }
    let unscored = report.unscored();
    if unscored > 0 {
        printer.always(format_args!("stopped: {unscored} trials have no score"));
    }
    if unscored > 0 || ended.reason().is_some() {
        return INCOMPLETE;
    }
    match (options.min_score, report.lowest_score()) {
        (Some(wanted), found) if found.is_none_or(|found| found < wanted) => {
            let found = found.unwrap_or_default();
            printer.always(format_args!(
                "stopped: the lowest mean score is {found:.3}, --min-score is {wanted}"
            ));
            TOO_LOW
        }
        _ => 0,
    }
}

/// Refuses a path whose directory does not exist.
fn writable(path: &Path) -> anyhow::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match parent {
        Some(parent) if !parent.is_dir() => {
            let error = anyhow!("there is no directory `{}`", parent.display());
            Err(hinted(error, "--json and --html take files"))
        }
        _ => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = std::fs::write(path, text);
    let written = written.with_context(|| format!("cannot write `{}`", path.display()));
    written.hint("--json and --html take files")
}
