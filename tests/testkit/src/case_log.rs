//! The case log: one JSON line for each case that a suite ran.
//!
//! The gate names a file in `BELLJAR_CASE_LOG` and reads it afterwards, for the slowest
//! cases and for every attempt that was thrown away. Without that variable nothing is
//! written. Suites of one run append to the same file, so each line is one write.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

const VARIABLE: &str = "BELLJAR_CASE_LOG";

/// The end of a case that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaseOutcome {
    Passed,
    Failed,
    /// The case cannot run on this host or this tier.
    Skipped,
}

impl CaseOutcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// Appends the cases of one suite.
#[derive(Debug)]
pub struct CaseLog {
    suite: String,
    /// Opened for each line: suites count the descriptors that an engine leaves open.
    path: Option<PathBuf>,
}

impl CaseLog {
    /// Opens the file that the environment names; without one, nothing is written.
    pub fn open(suite: impl Into<String>) -> io::Result<Self> {
        let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        Self::at(named.as_ref().map(Path::new), suite)
    }

    pub(crate) fn at(path: Option<&Path>, suite: impl Into<String>) -> io::Result<Self> {
        path.map(open).transpose()?;
        Ok(Self { suite: suite.into(), path: path.map(Path::to_owned) })
    }

    /// Appends the last attempt at a case.
    pub fn ended(&self, case: &str, took: Duration, outcome: CaseOutcome) -> io::Result<()> {
        self.append(&self.line(case, took, outcome.as_str()))
    }

    /// Appends an attempt that is thrown away, because the host stole this share of the
    /// CPU during it. Of `why`, the first line is kept.
    pub fn retried(&self, case: &str, took: Duration, steal: f64, why: &str) -> io::Result<()> {
        let mut line = self.line(case, took, "retried");
        line["steal"] = json!((steal * 100.0).round() / 100.0);
        line["why"] = json!(why.lines().next().unwrap_or_default());
        self.append(&line)
    }

    fn line(&self, case: &str, took: Duration, outcome: &str) -> Value {
        let seconds = (took.as_secs_f64() * 1000.0).round() / 1000.0;
        json!({ "suite": self.suite, "case": case, "seconds": seconds, "outcome": outcome })
    }

    fn append(&self, line: &Value) -> io::Result<()> {
        let Some(path) = self.path.as_deref() else { return Ok(()) };
        open(path)?.write_all(format!("{line}\n").as_bytes())
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot open the case log: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn each_case_is_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cases.jsonl");
        let log = CaseLog::at(Some(&path), "attacks").unwrap();
        let took = Duration::from_micros(1_234_567);
        log.ended("KRN-04", took, CaseOutcome::Passed).unwrap();
        log.ended("KRN-05", took, CaseOutcome::Skipped).unwrap();
        log.retried("RES-01", took, 0.3149, "too late\n    by 3 s").unwrap();
        log.ended("RES-01", took, CaseOutcome::Failed).unwrap();
        let row = |case: &str, outcome: &str| json!({ "suite": "attacks", "case": case, "seconds": 1.235, "outcome": outcome });
        let mut retried = row("RES-01", "retried");
        retried["steal"] = json!(0.31);
        retried["why"] = json!("too late");
        let want = vec![
            row("KRN-04", "passed"),
            row("KRN-05", "skipped"),
            retried,
            row("RES-01", "failed"),
        ];
        assert_eq!(lines(&path), want);
    }

    #[test]
    fn suites_share_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cases.jsonl");
        for suite in ["conformance/jail", "bleed"] {
            let log = CaseLog::at(Some(&path), suite).unwrap();
            log.ended("a", Duration::ZERO, CaseOutcome::Passed).unwrap();
        }
        let suites: Vec<_> = lines(&path).iter().map(|line| line["suite"].clone()).collect();
        assert_eq!(suites, ["conformance/jail", "bleed"]);
    }

    #[test]
    fn without_a_file_nothing_is_written() {
        let log = CaseLog::at(None, "attacks").unwrap();
        log.ended("KRN-04", Duration::ZERO, CaseOutcome::Passed).unwrap();
        log.retried("KRN-04", Duration::ZERO, 0.5, "late").unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let error = CaseLog::at(Some(dir.path()), "attacks").unwrap_err();
        assert!(error.to_string().contains("case log"), "{error}");
    }
}
