//! One turn of a run: what the model asked for, what it did, and what it took.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bounds::DateTime;
use crate::network::{Charge, Decision, Kind, Transferred};
use crate::run::RunFile;

/// A turn of a run: one answer of the model, and its calls.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// Id of the run.
    pub run: String,
    pub turn: u32,
    /// Requests to the model, in order. Every request but the last failed.
    pub requests: Vec<TurnRequest>,
    /// The text of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Calls of the answer, in order.
    pub calls: Vec<TurnCall>,
    /// Connections out of the sandbox that belong to this turn, in order. They arrive a moment
    /// after the call, and are kept for as long as the operator sets.
    pub connections: Vec<TurnConnection>,
    /// Connections of the requests to the model, as the gateway saw them.
    pub model_connections: Vec<TurnConnection>,
    /// True if the turn has more connections than are listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub connections_truncated: bool,
    /// Files of the run that this turn made.
    pub files: Vec<RunFile>,
    pub used: TurnUsed,
}

/// A request to the model.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TurnRequest {
    /// From 1.
    pub attempt: u32,
    pub model: String,
    /// Digest of the request's body.
    #[schemars(length(equal = 64))]
    pub prompt_sha256: String,
    pub at: DateTime,
    /// `answered`, `lost`, `refused`, `overloaded`, `broken` or `out_of_budget`. Absent while
    /// there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The reason that the request failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    pub tokens: TurnTokens,
    pub nano_dollars: u64,
    pub ms: u64,
}

/// Tokens by kind. Kinds never overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnTokens {
    pub input: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub output: u64,
}

/// A tool call of the model.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TurnCall {
    /// Id of the call, as the model named it.
    pub id: String,
    /// Execution id: `call` of its connections. Absent if no sandbox was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Name of the tool.
    pub name: String,
    /// Arguments of the tool. The code of `execute_python` is `code`, that of `shell` is
    /// `command`.
    pub input: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// The end of the call. Absent until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<TurnCallEnd>,
    /// Files that changed in the sandbox during the call.
    pub changes: Vec<TurnFileChange>,
    /// True if more files changed than are listed, or if they could not be listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_truncated: bool,
}

/// The end of a tool call.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TurnCallEnd {
    /// End reason, for example `done`, `exit` or `timeout_wall`.
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// All output. The model may have been shown less.
    pub output: String,
    /// True if `output` is not all: the output of the turn is larger than 8 MiB.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub output_truncated: bool,
    /// Category of a mistake in the code, for example `syntax` or `memory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    pub ms: u64,
    pub cpu_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    pub output_bytes: u64,
}

/// A file that changed during a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnFileChange {
    pub path: String,
    /// `created`, `modified` or `removed`.
    pub change: String,
    /// Size of the file. Absent if it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// A connection of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnConnection {
    /// Execution id of the call. Absent if unknown, and for requests to the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    pub sandbox: String,
    /// Sequence number within the sandbox.
    pub sequence: u64,
    pub kind: Kind,
    pub decision: Decision,
    /// Stable reason code; `docs/network.md` explains each.
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path without the query string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    pub bytes: Transferred,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charge: Option<Charge>,
    /// True if the call had already ended and a process it left behind made the connection.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_late: bool,
    /// Start time, in microseconds since 1970 (UTC).
    pub began: u64,
    pub micros: u64,
}

/// The usage of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnUsed {
    pub tokens: u64,
    /// Cost of the model, in billionths of a dollar.
    pub nano_dollars: u64,
    pub model_ms: u64,
    pub call_ms: u64,
    pub cpu_ms: u64,
    pub output_bytes: u64,
    /// Bytes of the listed connections out of the sandbox and into it.
    pub network: TurnNetwork,
}

/// Bytes of connections of a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnNetwork {
    pub out: u64,
    #[serde(rename = "in")]
    pub into: u64,
    /// Number of connections that were denied.
    pub denied: u64,
}
