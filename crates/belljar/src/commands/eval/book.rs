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
    Begun {
        trial: TrialKey,
        run: String,
        /// The most that the trial can cost. Files of older versions do not have it.
        #[serde(default)]
        nano_dollars: u64,
    },
    /// A judge is asked about a trial, for no more than this.
    Judging {
        trial: TrialKey,
        nano_dollars: u64,
    },
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
    pub(super) begun: BTreeMap<TrialKey, BegunTrial>,
    /// The cost of judges that led to no score, in billionths of a dollar. One that was broken off
    /// counts as the most that it can cost.
    pub(super) lost_nano_dollars: u64,
}

/// A trial that is not done, and has a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct BegunTrial {
    pub(super) run: String,
    /// The most that the trial can cost.
    pub(super) nano_dollars: u64,
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
        Ok(Self::empty(head, path))
    }

    fn empty(head: BookHead, path: PathBuf) -> Self {
        let (done, begun) = (BTreeMap::new(), BTreeMap::new());
        Self { head, path, file: None, done, begun, lost_nano_dollars: 0 }
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
        let mut book = Self::empty(head, path.to_owned());
        // Judges that were asked since the trial's last line.
        let mut judging: BTreeMap<TrialKey, u64> = BTreeMap::new();
        let mut lost = 0_u64;
        for line in lines {
            match serde_json::from_str(line) {
                Ok(Line::Begun { trial, run, nano_dollars }) => {
                    book.begun.insert(trial, BegunTrial { run, nano_dollars });
                }
                Ok(Line::Judging { trial, nano_dollars }) => {
                    let asked = judging.entry(trial).or_default();
                    *asked = asked.saturating_add(nano_dollars);
                }
                Ok(Line::Done(trial)) => {
                    judging.remove(&trial.key);
                    if trial.score.is_none() {
                        lost = lost.saturating_add(trial.judge_nano_dollars);
                    }
                    book.done.insert(trial.key.clone(), *trial);
                }
                Ok(Line::Head(_)) => return Err(failed()),
                // The process ended while it wrote this one.
                Err(_) => {}
            }
        }
        // A trial without a score has its run: only the verdict is missing.
        let (done, unscored): (BTreeMap<_, _>, BTreeMap<_, _>) =
            book.done.into_iter().partition(|(_, trial)| trial.score.is_some());
        for (key, trial) in unscored {
            book.begun.entry(key).or_default().run = trial.run;
        }
        book.begun.retain(|key, _| !done.contains_key(key));
        let lost_nano_dollars = judging.into_values().fold(lost, u64::saturating_add);
        Ok(Self { done, lost_nano_dollars, ..book })
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

    /// Writes that a trial has a run. It costs no more than `nano_dollars`, with its judge.
    pub(super) fn begin(
        &mut self,
        trial: &TrialKey,
        run: &str,
        nano_dollars: u64,
    ) -> anyhow::Result<()> {
        self.put(&Line::Begun { trial: trial.clone(), run: run.to_owned(), nano_dollars })
    }

    /// Writes that a judge is asked, which costs no more than `nano_dollars`.
    pub(super) fn judge(&mut self, trial: &TrialKey, nano_dollars: u64) -> anyhow::Result<()> {
        self.put(&Line::Judging { trial: trial.clone(), nano_dollars })
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

#[cfg(test)]
mod tests {
    use belljar_eval::TrialFigures;

    use super::*;

    fn key(task: &str) -> TrialKey {
        let (model, variant) = ("m".to_owned(), String::new());
        TrialKey { task: task.to_owned(), model, variant, repeat: 1 }
    }

    fn done(task: &str, score: Option<f64>) -> Line {
        Line::Done(Box::new(Trial {
            key: key(task),
            run: format!("run-{task}"),
            link: None,
            outcome: "answered".into(),
            error: None,
            answer: None,
            score,
            passed: false,
            reason: String::new(),
            figures: TrialFigures::default(),
            judged_by: Vec::new(),
            judge_nano_dollars: 20,
        }))
    }

    fn read(lines: &[Line]) -> Book {
        let head = BookHead { version: VERSION, id: "i".into(), digest: "d".into(), server: None };
        let mut text = serde_json::to_string(&Line::Head(head)).unwrap();
        for line in lines {
            text.push('\n');
            text.push_str(&serde_json::to_string(line).unwrap());
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Book::read(file.path()).unwrap()
    }

    fn begun(task: &str) -> Line {
        Line::Begun { trial: key(task), run: format!("run-{task}"), nano_dollars: 70 }
    }

    fn judging(task: &str) -> Line {
        Line::Judging { trial: key(task), nano_dollars: 50 }
    }

    #[test]
    fn judges_that_led_to_no_score_are_paid_for() {
        let book = read(&[begun("a"), judging("a"), done("a", Some(1.0))]);
        assert_eq!((book.done.len(), book.begun.len(), book.lost_nano_dollars), (1, 0, 0));
        // The verdict could not be read: what the judge cost is known.
        let book = read(&[begun("a"), judging("a"), done("a", None)]);
        let trial = BegunTrial { run: "run-a".into(), nano_dollars: 70 };
        assert_eq!((book.begun.get(&key("a")), book.lost_nano_dollars), (Some(&trial), 20));
        // The command was killed while the judge was asked again.
        let book = read(&[begun("a"), judging("a"), done("a", None), judging("a")]);
        assert_eq!((book.done.len(), book.lost_nano_dollars), (0, 70));
        let book = read(&[begun("a"), done("a", None), judging("a"), done("a", Some(0.0))]);
        assert_eq!((book.done.len(), book.lost_nano_dollars), (1, 20));
    }

    #[test]
    fn a_line_of_an_older_version_is_read() {
        let line =
            r#"{"begun":{"trial":{"task":"a","model":"m","variant":"","repeat":1},"run":"r"}}"#;
        let Line::Begun { nano_dollars, run, .. } = serde_json::from_str(line).unwrap() else {
            panic!("{line}")
        };
        assert_eq!((run.as_str(), nano_dollars), ("r", 0));
    }
}
