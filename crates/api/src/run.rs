//! Runs: a question and some files in, an answer out.

use std::collections::BTreeMap;

use belljar_model::Question;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bounds::{DateTime, Name, Number, PageSize, Text};
use crate::data::Sha256;
use crate::network::OperationName;

/// What JavaScript can tell apart.
type Count = Number<0, 9_007_199_254_740_991>;

/// A run to be made.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRun {
    pub question: Text<1, { Question::MOST }>,
    /// Files that it is about: JSON, JSON Lines, CSV, Parquet. Others can be read by code.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub data: Vec<RunData>,
    /// What its sandboxes are made of; what the server says, if nothing is said.
    #[serde(default)]
    pub template: Option<Name>,
    /// The gateway's operation that reaches the model; the only one, if nothing is said.
    /// Where there is none, fixed rules answer.
    #[serde(default)]
    pub operation: Option<OperationName>,
    /// The first of the operation, if nothing is said.
    #[serde(default)]
    pub model: Option<Text<1, 128>>,
    #[serde(default)]
    pub budget: RunBudget,
    /// What "now" means in this run; the moment of its creation, if nothing is said.
    #[serde(default)]
    pub now: Option<DateTime>,
}

/// A file of a run: one that was brought before, or its text.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunData {
    /// What it is called in the sandbox, without directories; its ending says how it is
    /// read.
    pub name: Text<1, 255>,
    /// Of what `POST /v1/data` answered.
    #[serde(default)]
    pub sha256: Option<Sha256>,
    /// All of it, instead.
    #[serde(default)]
    pub content: Option<String>,
}

/// How much a run may use; what is left out has no bound, except for turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunBudget {
    /// Answers of the model with tools; 30 if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<Number<1, 1000>>,
    /// Since its creation, pauses included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<Count>,
    /// Of all kinds together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Count>,
    /// Billionths of a dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nano_dollars: Option<Count>,
    /// Of all code together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<Count>,
    /// Of all code together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<Count>,
}

/// Another budget for a run that is not over.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRun {
    /// What is left out stays as it is.
    pub budget: RunBudget,
}

/// Which runs to show: the newest first.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListRuns {
    #[serde(default)]
    pub state: Option<RunState>,
    /// At most as many; 20 if nothing is said.
    #[serde(default)]
    pub limit: Option<PageSize>,
    /// `next` of the page before.
    #[serde(default)]
    pub after: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Nobody has worked on it yet.
    Waiting,
    Running,
    Paused,
    Finished,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunPage {
    pub items: Vec<RunLine>,
    /// Where the next page begins; none: this was the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A run, from afar.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunLine {
    /// 26 characters.
    #[schemars(length(equal = 26))]
    pub id: String,
    pub state: RunState,
    /// The beginning of the question.
    pub title: String,
    pub made_at: DateTime,
    /// How many events it has.
    pub events: u64,
}

/// One run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// 26 characters.
    #[schemars(length(equal = 26))]
    pub id: String,
    pub state: RunState,
    pub question: String,
    pub data: Vec<RunFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    pub model: String,
    /// What "now" means in it.
    pub now: DateTime,
    pub made_at: DateTime,
    /// How many events it has.
    pub events: u64,
    pub budget: RunBudget,
    pub used: RunUsed,
    /// What somebody wants of it that was not done yet, in order: `pause`, `resume`,
    /// `cancel`, `budget`.
    pub asked: Vec<String>,
    /// Where its code runs; its variables, files and processes can be looked at there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// What it made so far.
    pub files: Vec<RunFile>,
    /// How it ended; there is always a result then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<RunEnd>,
}

/// A file that a run works on, or made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunFile {
    pub name: String,
    pub bytes: u64,
    #[schemars(length(equal = 64))]
    pub sha256: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// What a run has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunUsed {
    pub turns: u32,
    pub tokens: u64,
    pub nano_dollars: u64,
    /// Tool calls.
    pub calls: u64,
    pub output_bytes: u64,
    pub cpu_ms: u64,
    pub model_ms: u64,
    pub call_ms: u64,
}

/// How a run ended.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunEnd {
    pub outcome: RunOutcome,
    /// What failed: `model`, `sandbox`, `data`, `no_result`, `runtime_crash`, `internal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    Answered,
    /// A budget ended before the work did; what there was is the result.
    Exhausted,
    Cancelled,
    Failed,
}

/// From where to tell a run's events.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowRun {
    /// The first one to be told; 1 if nothing is said.
    #[serde(default)]
    pub from: Option<Count>,
}

/// One thing that happened in a run, as a server-sent event; its name is its `kind`, its
/// id its `seq`. What it tells besides depends on the kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunEvent {
    /// 1, 2, 3, without gaps.
    pub seq: u64,
    pub at: DateTime,
    /// For example `llm_responded`, `tool_finished`, `finished`; more may come.
    pub kind: String,
    /// Which shape of this kind it is.
    pub v: u32,
    #[serde(flatten)]
    pub told: BTreeMap<String, Value>,
}
