//! One trial of the grid: a run, its score and its figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The place of a trial in the grid.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TrialKey {
    pub task: String,
    pub model: String,
    /// Empty if the evaluation has no variants.
    pub variant: String,
    /// From 1.
    pub repeat: u32,
}

/// A run that is over, scored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    #[serde(flatten)]
    pub key: TrialKey,
    pub run: String,
    /// The address of the run on its server; none: it is a run of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// `answered`, `exhausted`, `cancelled` or `failed`.
    pub outcome: String,
    /// The part that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The beginning of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// From 0 to 1; none: the checker or the judge gave no verdict.
    pub score: Option<f64>,
    pub passed: bool,
    pub reason: String,
    #[serde(default)]
    pub figures: TrialFigures,
    /// The judge's runs, and what they cost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judged_by: Vec<String>,
    #[serde(default)]
    pub judge_nano_dollars: u64,
}

/// The figures of one run, from its journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrialFigures {
    pub nano_dollars: u64,
    /// From the first event to the last.
    pub wall_ms: u64,
    pub model_ms: u64,
    pub turns: u64,
    pub tokens: u64,
    pub calls: u64,
    /// Calls that went wrong, and reports of guards, by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub guards: BTreeMap<String, u64>,
}

impl Trial {
    /// The category of an answer that did not pass: the error or the outcome of its run, or
    /// `wrong`. Trials without a score are `unscored`.
    pub fn category(&self) -> Option<&str> {
        match (self.passed, self.score, &self.error) {
            (true, ..) => None,
            (false, None, _) => Some("unscored"),
            (false, _, Some(error)) => Some(error),
            (false, ..) if self.outcome == "answered" => Some("wrong"),
            _ => Some(&self.outcome),
        }
    }
}
