//! Runs: a question and some files in, an answer out.

mod brief;
mod pipeline;

use std::collections::BTreeMap;

use belljar_domain::{Instructions, Question, RecordingName, Tier};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::{ApprovalPolicy, ApprovalSeconds};
use crate::bounds::{Count, DateTime, Name, Number, PageSize, Text};
use crate::data::Sha256;
use crate::network::{Network, OperationName};
use crate::sandbox::{ChosenLimits, TierName};

pub use brief::{
    EffortName, RunGuards, RunParameters, RunRecording, RunSkill, TemperatureNumber, WantedSkill,
};
pub use pipeline::{RunArtifact, RunModels};

/// A run to create.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRun {
    pub question: Text<1, { Question::MOST }>,
    /// Files for the run. JSON, JSON Lines, CSV and Parquet are described; code can read
    /// others too.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub data: Vec<RunData>,
    /// Template of the run's sandboxes. Default: the server's.
    #[serde(default)]
    pub template: Option<Name>,
    /// Isolation tier of the run's sandboxes. Default: the template's, or else the server's. A
    /// tier that the server does not offer, or that is below your floor, is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<TierName>,
    /// Limits of the run's sandboxes. Default: the template's.
    #[serde(default, skip_serializing_if = "ChosenLimits::is_empty")]
    pub limits: ChosenLimits,
    /// Network policy of the run's sandboxes. Default: no network, whatever the server's default
    /// for sandboxes is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Gateway operations that the run's code may call. Its sandboxes get a token for exactly
    /// these, and the model is told how to call them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub operations: Vec<OperationName>,
    /// Gateway operation that reaches the model. Default: the only one. Without any
    /// operation, fixed rules answer.
    #[serde(default)]
    pub operation: Option<OperationName>,
    /// Model to use. Default: the first one of the operation.
    #[serde(default)]
    pub model: Option<Text<1, 128>>,
    #[serde(default)]
    pub budget: RunBudget,
    /// Parameters of the model.
    #[serde(default, skip_serializing_if = "RunParameters::is_empty")]
    pub parameters: RunParameters,
    /// Text that is added to the model's prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Text<1, { Instructions::MAX_CHARS }>>,
    /// Skills for the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub skills: Vec<WantedSkill>,
    /// Name of a recording to make of the run. No two recordings have the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Text<1, { RecordingName::MAX_BYTES }>>,
    /// Recording to replay: its name, or the id of the recorded run. No model is asked; the time,
    /// the model, its parameters and the budget are the recorded ones unless you name others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Text<1, { RecordingName::MAX_BYTES }>>,
    /// Guards that are on. Switch them off only to compare runs with and without them.
    #[serde(default, skip_serializing_if = "RunGuards::is_default")]
    pub guards: RunGuards,
    /// Tool calls that wait until a human has decided, at `/v1/approvals`. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals: Option<ApprovalPolicy>,
    /// Seconds until a tool call without a decision is denied. Default: 3600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_seconds: Option<ApprovalSeconds>,
    /// Current time, as the run sees it. Default: its creation time.
    #[serde(default)]
    pub now: Option<DateTime>,
    /// Lets the model ask you. The run then pauses until `POST /v1/runs/{run}/answer`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub questions: bool,
    /// Agent of the run: `react` (default: one model that calls tools), `pipeline` (Planner, Coder,
    /// Executor and Debugger), `executor` (runs `artifact`, without a model), or a published program
    /// in the sandbox: `claude-code` or `codex`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Text<1, 64>>,
    /// Models by role, for the agent `pipeline`. Default: the run's model.
    #[serde(default, skip_serializing_if = "RunModels::is_empty")]
    pub models: RunModels,
    /// Program for the agent `executor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<RunArtifact>,
}

/// A file of a run: the digest of an uploaded file, or the content itself.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunData {
    /// File name in the sandbox, without directories. The extension selects the format.
    pub name: Text<1, 255>,
    /// Digest of a file uploaded with `POST /v1/data`.
    #[serde(default)]
    pub sha256: Option<Sha256>,
    /// The whole content, instead of `sha256`.
    #[serde(default)]
    pub content: Option<String>,
}

/// Budget of a run. An absent field is not bounded, except `turns`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunBudget {
    /// Model turns. Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<Number<1, 1000>>,
    /// Wall-clock time since the run's creation, including pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<Count>,
    /// Model tokens of all kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Count>,
    /// Cost, in billionths of a dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nano_dollars: Option<Count>,
    /// Output of all code, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<Count>,
    /// CPU time of all code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<Count>,
}

/// A new budget for an unfinished run.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRun {
    /// Bounds to change. Absent fields stay unchanged.
    pub budget: RunBudget,
}

/// A message to the model, said before its next turn.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TellRun {
    pub text: Text<1, 65_536>,
}

/// The answer to the question of a run.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerRun {
    pub text: Text<1, 65_536>,
}

/// Points before which a run pauses by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunBreakpoints {
    /// Before each request to the model.
    #[serde(default)]
    pub turns: bool,
    /// Before each tool call.
    #[serde(default)]
    pub calls: bool,
}

/// The allocation of another attempt at a run that ended without an answer.
#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryRun {
    /// Bounds to replace. `turns` counts those of earlier attempts too. Default: twice the turns
    /// if they were used up, and what is left of all other bounds.
    #[serde(default)]
    pub budget: RunBudget,
    /// Memory of the attempt's sandbox. Default: as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<Count>,
}

/// The prompt of one turn, as the model was told it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunPrompt {
    pub turn: u32,
    /// Digest and length of the request's body, in the provider's format.
    #[schemars(length(equal = 64))]
    pub sha256: String,
    pub bytes: u64,
    pub tools: Vec<Value>,
    /// The parts of the system prompt.
    pub system: Vec<String>,
    /// Messages in order: `role` and `blocks`.
    pub messages: Vec<Value>,
}

/// Filters for the list of runs, newest first.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListRuns {
    #[serde(default)]
    pub state: Option<RunState>,
    /// Maximum number of entries. Default: 20.
    #[serde(default)]
    pub limit: Option<PageSize>,
    /// `next` of the previous page.
    #[serde(default)]
    pub after: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// No worker has claimed the run yet.
    Waiting,
    Running,
    Paused,
    Finished,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunPage {
    pub items: Vec<RunLine>,
    /// Pass this as `after` to get the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A run in a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunLine {
    /// Id of the run, 26 characters.
    #[schemars(length(equal = 26))]
    pub id: String,
    pub state: RunState,
    /// The start of the question.
    pub title: String,
    pub made_at: DateTime,
    /// Number of events so far.
    pub events: u64,
}

/// A run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Id of the run, 26 characters.
    #[schemars(length(equal = 26))]
    pub id: String,
    pub state: RunState,
    pub question: String,
    pub data: Vec<RunFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Isolation tier of the run's sandbox; before there is one, the tier of the request, if it
    /// named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::sandbox::tiers")]
    pub tier: Option<Tier>,
    /// Limits of the run's sandbox; before there is one, those of the request.
    #[serde(default)]
    pub limits: ChosenLimits,
    /// Network policy of the run's sandboxes. Absent: no network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Gateway operations that the run's code may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    pub model: String,
    /// Agent of the run. Absent: `react`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Models by role.
    #[serde(default, skip_serializing_if = "RunModels::is_empty")]
    pub models: RunModels,
    /// Parameters that the run chose.
    #[serde(default, skip_serializing_if = "RunParameters::is_empty")]
    pub parameters: RunParameters,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<RunSkill>,
    /// The recording that is made of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<RunRecording>,
    /// Id of the recorded run that this one replays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
    /// Guards that are on. Absent: all of them.
    #[serde(default, skip_serializing_if = "RunGuards::is_default")]
    pub guards: RunGuards,
    /// Tool calls that wait for a human; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals: Option<ApprovalPolicy>,
    /// Current time, as the run sees it.
    pub now: DateTime,
    pub made_at: DateTime,
    /// Number of events so far.
    pub events: u64,
    pub budget: RunBudget,
    pub used: RunUsed,
    /// Pending requests to steer the run, in order: `pause`, `resume`, `step`, `cancel`,
    /// `tell`, `answer` or `budget`.
    pub asked: Vec<String>,
    #[serde(default)]
    pub breakpoints: RunBreakpoints,
    /// The question that the run waits for an answer to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question_asked: Option<String>,
    /// Id of the approval that the run waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_asked: Option<String>,
    /// The run that this one is another attempt of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
    /// Sandbox in which its code runs. Its variables, files and processes can be inspected there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Files that the run has made so far.
    pub files: Vec<RunFile>,
    /// The end of the run, with its result. Absent until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<RunEnd>,
}

/// A file that a run reads or has made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunFile {
    pub name: String,
    pub bytes: u64,
    #[schemars(length(equal = 64))]
    pub sha256: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// The usage of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunUsed {
    pub turns: u32,
    pub tokens: u64,
    pub nano_dollars: u64,
    /// Number of tool calls.
    pub calls: u64,
    pub output_bytes: u64,
    pub cpu_ms: u64,
    pub model_ms: u64,
    pub call_ms: u64,
}

/// The end of a run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunEnd {
    pub outcome: RunOutcome,
    /// The part that failed: `model`, `sandbox`, `data`, `no_result`, `runtime_crash`, `replay`
    /// or `internal`.
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
    /// A budget was used up. The partial output is the result.
    Exhausted,
    Cancelled,
    Failed,
}

/// The first event to send.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowRun {
    /// Sequence number of the first event to send. Default: 1.
    #[serde(default)]
    pub from: Option<Count>,
    /// Streams the model's words too, while they arrive, as events named `delta`
    /// without an id. They are not stored: some may be missing, and `llm_responded` has them all.
    #[serde(default)]
    pub deltas: Option<bool>,
}

/// Words of the model, sent as the server-sent event `delta`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunDelta {
    /// Always `delta`.
    pub kind: String,
    pub turn: u32,
    /// Characters of this turn before `text`. At 0 the answer begins, or begins anew.
    pub from: u64,
    pub text: String,
}

/// An event of a run, sent as a server-sent event. The event's name is its `kind` and its id
/// its `seq`. Further fields depend on the kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunEvent {
    /// Sequence number, from 1, without gaps.
    pub seq: u64,
    pub at: DateTime,
    /// For example `llm_responded`, `tool_finished` or `finished`. New kinds may be added.
    pub kind: String,
    /// Version of this kind's format.
    pub v: u32,
    #[serde(flatten)]
    pub told: BTreeMap<String, Value>,
}
