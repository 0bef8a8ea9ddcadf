//! What the gate keeps between runs, in a folder of the cache: how long the stages of
//! its last runs took, and the last commit that passed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::cases::{Case, Slow};

/// Runs to keep.
const KEPT: usize = 20;

/// Runs to print side by side.
const SHOWN: usize = 5;

/// One run of the gate or of the nightly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) started: String,
    pub(crate) commit: String,
    pub(crate) passed: bool,
    pub(crate) seconds: f64,
    pub(crate) stages: Vec<StageTime>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) retries: Vec<Case>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StageTime {
    pub(crate) name: String,
    pub(crate) seconds: f64,
    /// The slowest cases of each suite that the stage ran.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) slowest: BTreeMap<String, Vec<Slow>>,
}

/// The folder that holds it all.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    folder: PathBuf,
}

impl Records {
    /// Opens the records of the gate (`gate`) or of the nightly (`nightly`).
    pub(crate) fn open(cache: &Path, name: &str) -> Result<Self> {
        let folder = cache.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { folder })
    }

    /// The case log of a stage.
    pub(crate) fn case_log(&self, stage: &str) -> PathBuf {
        self.folder.join(format!("cases-{stage}.jsonl"))
    }

    /// The output of a stage in the background.
    pub(crate) fn output(&self, stage: &str) -> PathBuf {
        self.folder.join(format!("output-{stage}.txt"))
    }

    fn times(&self) -> PathBuf {
        self.folder.join("times.json")
    }

    pub(crate) fn passed_commit(&self) -> Option<String> {
        let text = fs::read_to_string(self.folder.join("passed")).ok()?;
        Some(text.trim().to_owned()).filter(|commit| !commit.is_empty())
    }

    pub(crate) fn set_passed_commit(&self, commit: &str) -> Result<()> {
        let path = self.folder.join("passed");
        fs::write(&path, format!("{commit}\n"))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// The runs that are kept, oldest first. A file of an older format is no error: it only
    /// holds times.
    pub(crate) fn runs(&self) -> Vec<Run> {
        let text = fs::read(self.times()).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub(crate) fn add(&self, run: Run) -> Result<()> {
        let mut runs = self.runs();
        runs.push(run);
        let excess = runs.len().saturating_sub(KEPT);
        runs.drain(..excess);
        let (path, new) = (self.times(), self.folder.join("times.json.new"));
        fs::write(&new, serde_json::to_string_pretty(&runs)? + "\n")
            .and_then(|()| fs::rename(&new, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Prints the last runs side by side: a row for each stage, the newest run rightmost.
pub(crate) fn table(runs: &[Run]) -> String {
    let runs = &runs[runs.len().saturating_sub(SHOWN)..];
    let mut names: Vec<&str> = Vec::new();
    for run in runs.iter().rev() {
        for stage in &run.stages {
            if !names.contains(&stage.name.as_str()) {
                names.push(&stage.name);
            }
        }
    }
    let mut text = String::new();
    let mut line = |title: &str, cell: &dyn Fn(&Run) -> String| {
        let _ = write!(text, "{title:<22}");
        for run in runs {
            let _ = write!(text, "{:>18}", cell(run));
        }
        text.push('\n');
    };
    line("", &|run| run.started.chars().take(16).collect());
    line("commit", &|run| run.commit.chars().take(9).collect());
    line("result", &|run| if run.passed { "passed" } else { "FAILED" }.to_owned());
    for name in names {
        line(name, &|run| {
            let stage = run.stages.iter().find(|stage| stage.name == name);
            stage.map_or_else(|| "-".to_owned(), |stage| format!("{:.1}", stage.seconds))
        });
    }
    line("total", &|run| format!("{:.1}", run.seconds));
    line("retried cases", &|run| run.retries.len().to_string());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(commit: &str, stages: &[(&str, f64)]) -> Run {
        let stage = |(name, seconds): &(&str, f64)| StageTime {
            name: (*name).to_owned(),
            seconds: *seconds,
            slowest: BTreeMap::new(),
        };
        Run {
            started: "2026-11-17 18:00:00".to_owned(),
            commit: commit.to_owned(),
            passed: true,
            seconds: stages.iter().map(|stage| stage.1).sum(),
            stages: stages.iter().map(stage).collect(),
            retries: Vec::new(),
        }
    }

    #[test]
    fn the_newest_runs_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(dir.path(), "gate").unwrap();
        assert_eq!(records.runs(), []);
        assert_eq!(records.passed_commit(), None);
        for n in 0..KEPT + 3 {
            records.add(run(&n.to_string(), &[("unit", 1.0)])).unwrap();
        }
        let runs = records.runs();
        assert_eq!((runs.len(), runs[0].commit.as_str()), (KEPT, "3"));
        records.set_passed_commit("abc").unwrap();
        assert_eq!(records.passed_commit().as_deref(), Some("abc"));
    }

    #[test]
    fn five_runs_stand_side_by_side() {
        let runs: Vec<Run> = (0..7)
            .map(|n| run(&format!("commit{n}"), &[("unit", f64::from(n)), ("bleed", 2.0)]))
            .collect();
        let table = table(&runs);
        assert!(!table.contains("commit1"), "{table}");
        assert!(table.contains("commit6"), "{table}");
        let unit = table.lines().find(|line| line.starts_with("unit")).unwrap();
        assert_eq!(
            unit.split_whitespace().collect::<Vec<_>>()[1..],
            ["2.0", "3.0", "4.0", "5.0", "6.0"]
        );
        let total = table.lines().find(|line| line.starts_with("total")).unwrap();
        assert!(total.ends_with("8.0"), "{total}");
    }

    #[test]
    fn a_stage_that_one_run_lacks_has_a_dash() {
        let table = table(&[run("a", &[("unit", 1.0)]), run("b", &[("agents", 2.0)])]);
        let agents = table.lines().find(|line| line.starts_with("agents")).unwrap();
        assert_eq!(agents.split_whitespace().collect::<Vec<_>>(), ["agents", "-", "2.0"]);
    }
}
