//! `belljar dataset`: what is in files, found out by a process that can reach
//! nothing but these files.

use std::fs::{self, File, Metadata};
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use anyhow::Context as _;
use belljar_dataset::Description;
use belljar_dataset::worker::{
    self, Refusal, WorkerError, describe_sealed, describe_those_that_can_be,
};
use belljar_domain::units::format_size;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::{Dataset, DatasetAction, Describe};
use crate::config::Config;
use crate::output::{Hint as _, Printer, hinted};
use crate::page::Page;

/// What a worker may have for itself; files of any size need a tenth of it.
const MEMORY: u64 = 256 << 20;

/// Smaller files are read before a progress bar is seen.
const WATCHED: u64 = 256 << 20;

/// Becomes a worker if this process was started as one.
pub(crate) fn hook() -> Option<ExitCode> {
    worker::hook(|| belljar_engine::seal::reader(MEMORY))
}

pub(crate) fn run(options: &Dataset, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    match &options.action {
        DatasetAction::Describe(options) => describe(options, config, printer),
    }
}

fn describe(options: &Describe, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    let files = options.files.iter().map(|path| open(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let total = files.iter().filter_map(|(_, file)| Some(file.metadata().ok()?.len())).sum();
    let threads = match options.threads {
        Some(threads) => threads.into(),
        None => thread::available_parallelism().map_or(1, Into::into),
    };
    let executable = std::env::current_exe().context("cannot find this executable")?;
    let bar = bar(total, printer);
    let described = describe_sealed(&executable, &files, threads, |passed| {
        if let Some(bar) = &bar {
            // Keys are proven in further passes: it may be more than the files hold.
            bar.set_position(passed.min(total));
            bar.set_message(if passed > total { "checking keys" } else { "" });
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let description = described.map_err(explained)?;
    if let Some(path) = &options.svg {
        let written = fs::write(path, description.to_svg());
        let written = written.with_context(|| format!("cannot write `{}`", path.display()));
        written.hint("choose a file in an existing directory")?;
    }
    if options.json {
        printer.document(&description)?;
    } else {
        let text = description.to_text(options.tokens);
        match Page::of_terminal(config) {
            Some(page) => printer.data(page.wrapped(text.trim_end()).trim_end())?,
            None => printer.data(text.trim_end())?,
        }
    }
    Ok(0)
}

/// What is in files, and what is wrong with those that cannot be described. It is an error if no
/// file has anything in it.
pub(super) fn profile(
    paths: &[PathBuf],
) -> anyhow::Result<(Option<Description>, Vec<anyhow::Error>)> {
    let known = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        belljar_agent::Format::of(&name) != belljar_agent::Format::Other
    };
    let files = paths.iter().filter(known).map(|path| open(path));
    let files = files.collect::<anyhow::Result<Vec<_>>>()?;
    let threads = thread::available_parallelism().map_or(1, Into::into);
    let executable = std::env::current_exe().context("cannot find this executable")?;
    let mut sorted = describe_those_that_can_be(&executable, files, threads).map_err(explained)?;
    let is_empty = |(_, error): &(String, WorkerError)| {
        matches!(error, WorkerError::Refused { refusal: Refusal::Empty, .. })
    };
    let only_empty = sorted.refused.len() == paths.len() && sorted.refused.iter().all(is_empty);
    if only_empty && let Some((_, error)) = sorted.refused.pop() {
        return Err(explained(error));
    }
    let refused = sorted.refused.into_iter().map(|(_, error)| explained(error)).collect();
    Ok((sorted.description, refused))
}

fn open(path: &Path) -> anyhow::Result<(String, File)> {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let file = File::open(path).with_context(|| format!("cannot open `{}`", path.display()))?;
    check(path, &file.metadata()?)?;
    Ok((name, file))
}

/// Refuses what is no file with something in it.
pub(super) fn check(path: &Path, meta: &Metadata) -> anyhow::Result<()> {
    let shown = path.display();
    if meta.is_dir() {
        let error = anyhow::anyhow!("`{shown}` is a directory");
        let files = path.join("*");
        return Err(hinted(error, format!("name the files in it: {}", files.display())));
    }
    if !meta.is_file() {
        let error = anyhow::anyhow!("`{shown}` is not a regular file");
        return Err(hinted(error, "pipes and devices are not supported: save it to a file first"));
    }
    if meta.len() == 0 {
        return Err(hinted(anyhow::anyhow!("`{shown}` is empty"), EMPTY));
    }
    Ok(())
}

const EMPTY: &str = "there is nothing in it to describe; look at how the file was written";

/// What the worker said, with the next thing to try.
fn explained(error: WorkerError) -> anyhow::Error {
    let hint = match &error {
        WorkerError::Refused { refusal: Refusal::Empty, .. } => EMPTY,
        WorkerError::Refused { refusal: Refusal::Packed, .. } => {
            "it may be cut short: `gzip -t FILE` or `zstd -t FILE` checks it"
        }
        WorkerError::Refused { refusal: Refusal::Excel, .. } => "save it as .xlsx, or as CSV",
        WorkerError::Refused { refusal: Refusal::Other, .. } => {
            "the first lines show what it is: head -c 300 FILE"
        }
        WorkerError::TooMany(_) => "describe those that belong together",
        WorkerError::Died(_) => {
            "a file made it fail; describe the files one by one to see which, and report it"
        }
        _ => return error.into(),
    };
    let causes = match &error {
        WorkerError::Refused { causes, .. } => causes.clone(),
        _ => Vec::new(),
    };
    let mut chain = causes.into_iter().rev().chain([error.to_string()]);
    let first = anyhow::anyhow!(chain.next().unwrap_or_default());
    hinted(chain.fold(first, anyhow::Error::context), hint)
}

fn bar(total: u64, printer: &Printer) -> Option<ProgressBar> {
    if total < WATCHED || printer.is_quiet() {
        return None;
    }
    if !io::stderr().is_terminal() {
        printer.note(format_args!("reading {} …", format_size(total)));
        return None;
    }
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let template = "{spinner} {bytes} of {total_bytes} ({bytes_per_sec}, {eta} left) {wide_msg}";
    // The template is fixed and known to be right.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    Some(bar)
}
