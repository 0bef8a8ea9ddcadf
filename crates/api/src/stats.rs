//! Figures of runs: what they did within the last minute, hour and day.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::DateTime;

/// Figures of your runs. Each event counts in the windows that it is in, so a run counts as
/// started in one window and as ended in another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// Time of these figures.
    pub made_at: DateTime,
    /// Runs that have not ended, now.
    pub alive: AliveRuns,
    pub minute: StatsWindow,
    pub hour: StatsWindow,
    pub day: StatsWindow,
}

/// Number of runs that have not ended, by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AliveRuns {
    pub total: u64,
    pub waiting: u64,
    pub running: u64,
    pub paused: u64,
}

/// Figures of runs since a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatsWindow {
    /// Start of the window: at a full ten seconds, so up to ten seconds earlier than its name
    /// says.
    pub since_at: DateTime,
    /// Runs that a worker claimed for the first time.
    pub started: u64,
    pub started_per_second: f64,
    pub ended: EndedRuns,
    /// Failed runs by error category, as in `end.error` of a run.
    pub failures: BTreeMap<String, u64>,
    /// Answers of models.
    pub turns: u64,
    /// Tool calls that ended.
    pub calls: u64,
    /// Tool calls that failed, by fault: `missing_module`, `syntax`, `timeout` …
    pub faults: BTreeMap<String, u64>,
    /// Mistakes that guards found: `temporal` or `join`.
    pub guards: BTreeMap<String, u64>,
    pub tokens: StatsTokens,
    /// Share of prompt tokens that were read from the provider's cache, from 0 to 1. Absent
    /// without prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_share: Option<f64>,
    /// Cost of models, in billionths of a dollar.
    pub nano_dollars: u64,
    /// Time for which runs had a sandbox. Counted when a run ends, or gets another sandbox.
    pub sandbox_ms: u64,
}

/// Number of runs that ended, by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndedRuns {
    pub answered: u64,
    pub exhausted: u64,
    pub cancelled: u64,
    pub failed: u64,
}

/// Model tokens. The kinds do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatsTokens {
    pub input: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub output: u64,
}
