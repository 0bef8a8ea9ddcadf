//! The case log: a line of JSON for each case that a suite ran.
//!
//! Suites append to the file that `BELLJAR_CASE_LOG` names. The gate takes the
//! slowest cases and all retries from it, and the nightly its counts.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The environment variable that names the case log.
pub(crate) const VARIABLE: &str = "BELLJAR_CASE_LOG";

/// Cases to keep of each suite.
const SLOWEST: usize = 10;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Case {
    pub(crate) suite: String,
    pub(crate) case: String,
    pub(crate) seconds: f64,
    pub(crate) outcome: Outcome,
    /// Of a retry: the share of CPU time that the host stole during the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) steal: Option<f64>,
    /// Of a retry: the first line of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Passed,
    Failed,
    Skipped,
    Retried,
}

impl Case {
    /// Appends the case to a log.
    pub(crate) fn append(&self, log: &Path) -> Result<()> {
        let mut line = serde_json::to_string(self)?;
        line.push('\n');
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot open {}", log.display()))?;
        file.write_all(line.as_bytes()).with_context(|| format!("cannot write {}", log.display()))
    }
}

/// Everything that the suites of one stage logged.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Cases(Vec<Case>);

/// A case and its seconds.
pub(crate) type Slow = (String, f64);

impl Cases {
    /// Reads a log. A missing file is an empty log; a line that cannot be read is an error,
    /// because a suite that writes one is broken.
    pub(crate) fn read(log: &Path) -> Result<Self> {
        let text = match fs::read_to_string(log) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", log.display()));
            }
        };
        let parse = |(number, line)| {
            serde_json::from_str(line)
                .with_context(|| format!("{} line {}: {line}", log.display(), number + 1))
        };
        text.lines().enumerate().map(parse).collect::<Result<_>>().map(Self)
    }

    pub(crate) fn count(&self, outcome: Outcome) -> usize {
        self.0.iter().filter(|case| case.outcome == outcome).count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn failed(&self) -> impl Iterator<Item = &Case> {
        self.0.iter().filter(|case| case.outcome == Outcome::Failed)
    }

    pub(crate) fn retries(&self) -> impl Iterator<Item = &Case> {
        self.0.iter().filter(|case| case.outcome == Outcome::Retried)
    }

    /// The slowest cases of each suite, slowest first.
    pub(crate) fn slowest(&self) -> BTreeMap<String, Vec<Slow>> {
        let mut suites: BTreeMap<String, Vec<Slow>> = BTreeMap::new();
        for case in &self.0 {
            suites.entry(case.suite.clone()).or_default().push((case.case.clone(), case.seconds));
        }
        for cases in suites.values_mut() {
            cases.sort_by(|a, b| b.1.total_cmp(&a.1));
            cases.truncate(SLOWEST);
        }
        suites
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(suite: &str, name: &str, seconds: f64, outcome: Outcome) -> Case {
        let (suite, case) = (suite.to_owned(), name.to_owned());
        Case { suite, case, seconds, outcome, steal: None, why: None }
    }

    #[test]
    fn a_log_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("cases.jsonl");
        let retried = Case {
            steal: Some(0.5),
            why: Some("too late".to_owned()),
            ..case("tenants", "API-01", 3.0, Outcome::Retried)
        };
        let all = [retried.clone(), case("tenants", "API-01", 1.0, Outcome::Passed)];
        all.iter().for_each(|case| case.append(&log).unwrap());
        let read = Cases::read(&log).unwrap();
        assert_eq!(read, Cases(all.to_vec()));
        assert_eq!(read.retries().collect::<Vec<_>>(), [&retried]);
        assert_eq!(read.count(Outcome::Passed), 1);
    }

    #[test]
    fn a_missing_log_is_empty_and_a_broken_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("cases.jsonl");
        assert!(Cases::read(&log).unwrap().is_empty());
        fs::write(&log, "{\"suite\":\n").unwrap();
        assert!(Cases::read(&log).unwrap_err().to_string().contains("line 1"));
    }

    #[test]
    fn the_slowest_of_each_suite_come_first() {
        let mut cases: Vec<Case> =
            (0..20).map(|n| case("unit", &n.to_string(), f64::from(n), Outcome::Passed)).collect();
        cases.push(case("bleed", "pairs", 0.5, Outcome::Passed));
        let slowest = Cases(cases).slowest();
        assert_eq!(slowest["unit"].len(), SLOWEST);
        assert_eq!(slowest["unit"][0], ("19".to_owned(), 19.0));
        assert_eq!(slowest["bleed"].len(), 1);
    }
}
