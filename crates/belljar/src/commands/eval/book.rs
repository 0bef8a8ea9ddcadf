//! The trials' file: one line of JSON for each fact, only ever added to.
//!
//! A line names a run as soon as there is one, so that a grid that was broken off pays for no run
//! twice.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use belljar_eval::{Trial, TrialKey};
use serde::{Deserialize, Serialize};

use super::grid::Grid;
use crate::cli::Eval;
use crate::commands::runs;
use crate::output::{Hint as _, hinted};

const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BookHead {
    version: u32,
    /// Names the grid's runs: keys of requests and recordings begin with it.
    pub(super) id: String,
    digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Head(BookHead),
    Begun { trial: TrialKey, run: String },
    Done(Box<Trial>),
}

#[derive(Debug)]
pub(super) struct Book {
    pub(super) head: BookHead,
    path: PathBuf,
    /// None: the file is only read.
    file: Option<File>,
    pub(super) done: BTreeMap<TrialKey, Trial>,
    /// Runs of trials that are not done.
    pub(super) begun: BTreeMap<TrialKey, String>,
}

impl Book {
    pub(super) fn open(grid: &Grid, options: &Eval) -> anyhow::Result<Self> {
        let path = options.trials.clone();
        let path = path.unwrap_or_else(|| PathBuf::from(format!("{}.eval.jsonl", grid.stem)));
        let is_known = options.resume || options.replay;
        match (path.exists(), is_known) {
            (true, false) => {
                let error = anyhow!("`{}` has the trials of an earlier grid", path.display());
                let hint =
                    "--resume continues it, --replay scores it again; --trials takes another file";
                return Err(hinted(error, hint));
            }
            (false, true) => {
                let error = anyhow!("there is no file of trials `{}`", path.display());
                return Err(hinted(error, "--trials takes the file of an earlier grid"));
            }
            _ => {}
        }
        let mut book = match is_known {
            true => Self::read(&path)?,
            false => Self::new(path, grid, options)?,
        };
        if is_known {
            book.agrees(grid, options)?;
        }
        if !options.replay {
            book.write(is_known)?;
        }
        Ok(book)
    }

    fn new(path: PathBuf, grid: &Grid, options: &Eval) -> anyhow::Result<Self> {
        let id = runs::random()?.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let digest = grid.digest.clone();
        let head = BookHead { version: VERSION, id, digest, server: options.server.clone() };
        Ok(Self { head, path, file: None, done: BTreeMap::new(), begun: BTreeMap::new() })
    }

    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read `{}`", path.display()))?;
        let failed = || anyhow!("`{}` is no file of trials", path.display());
        let mut lines = text.lines();
        let first = lines.next().and_then(|line| serde_json::from_str(line).ok());
        let Some(Line::Head(head)) = first else { return Err(failed()) };
        if head.version != VERSION {
            return Err(anyhow!("`{}` was written by another version of belljar", path.display()));
        }
        let mut book = Self {
            head,
            path: path.to_owned(),
            file: None,
            done: BTreeMap::new(),
            begun: BTreeMap::new(),
        };
        for line in lines {
            match serde_json::from_str(line) {
                Ok(Line::Begun { trial, run }) => drop(book.begun.insert(trial, run)),
                Ok(Line::Done(trial)) => drop(book.done.insert(trial.key.clone(), *trial)),
                Ok(Line::Head(_)) => return Err(failed()),
                // The process ended while it wrote this one.
                Err(_) => {}
            }
        }
        // A trial without a score has its run: only the verdict is missing.
        let (done, unscored): (BTreeMap<_, _>, BTreeMap<_, _>) =
            book.done.into_iter().partition(|(_, trial)| trial.score.is_some());
        for (key, trial) in unscored {
            book.begun.insert(key, trial.run);
        }
        Ok(Self { done, ..book })
    }

    fn agrees(&self, grid: &Grid, options: &Eval) -> anyhow::Result<()> {
        // A replay may score by other rules. One that asks something else diverges.
        if self.head.digest != grid.digest && !options.replay {
            let error =
                anyhow!("the tasks have changed since the grid of `{}`", self.path.display());
            return Err(hinted(error, "start a new grid with another --trials"));
        }
        if self.head.server != options.server {
            let error = anyhow!("the grid of `{}` is of another server", self.path.display());
            let was = self
                .head
                .server
                .as_deref()
                .map_or("omit --server".to_owned(), |server| format!("pass --server {server}"));
            return Err(hinted(error, was));
        }
        Ok(())
    }

    /// Opens the file for more lines.
    fn write(&mut self, is_known: bool) -> anyhow::Result<()> {
        let mut open = OpenOptions::new();
        let file = open.append(true).create_new(!is_known).open(&self.path);
        let file = file.with_context(|| format!("cannot write `{}`", self.path.display()));
        self.file = Some(file.hint("choose another file with --trials")?);
        match is_known {
            // The last line may be half of one.
            true => self.add("\n"),
            false => self.put(&Line::Head(self.head.clone())),
        }
    }

    pub(super) fn begin(&mut self, trial: &TrialKey, run: &str) -> anyhow::Result<()> {
        self.put(&Line::Begun { trial: trial.clone(), run: run.to_owned() })
    }

    pub(super) fn finish(&mut self, trial: &Trial) -> anyhow::Result<()> {
        self.put(&Line::Done(Box::new(trial.clone())))
    }

    fn put(&mut self, line: &Line) -> anyhow::Result<()> {
        self.add(&(serde_json::to_string(line)? + "\n"))
    }

    fn add(&mut self, text: &str) -> anyhow::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let written: io::Result<()> = file.write_all(text.as_bytes());
        written.with_context(|| format!("cannot write `{}`", self.path.display()))
    }
}
