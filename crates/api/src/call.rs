//! Calls: commands in a sandbox.

use belljar_domain::{End, EndReason, Usage as Used};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::bounds::{Millis, Number, Pairs, Path, Script, Text, pairs};

/// A command to run. Give either `argv` or `script`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCall {
    /// The program and its arguments, executed without a shell.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub argv: Vec<Text<0, 131_071>>,
    /// A script for the sandbox's shell.
    #[serde(default)]
    pub script: Option<Script>,
    /// Environment variables, added to the sandbox's.
    #[serde(default)]
    #[schemars(schema_with = "pairs")]
    pub env: Pairs,
    /// Working directory. Default: the template's, or else the home directory.
    #[serde(default)]
    pub cwd: Option<Path>,
    /// User to run as. Default: the template's.
    #[serde(default)]
    pub user: Option<User>,
    /// Content of standard input, which then ends.
    #[serde(default)]
    pub stdin: Option<String>,
    /// Keep standard input open for more input.
    #[serde(default)]
    pub stdin_open: bool,
    /// Wall-clock limit. Default: the sandbox's limit, or the sandbox's lifetime for a
    /// background call.
    #[serde(default)]
    pub timeout_ms: Option<Millis>,
    /// CPU-time limit, at most the sandbox's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<Millis>,
    /// Return at once. The call continues, and so do processes that outlive it.
    #[serde(default)]
    pub background: bool,
    /// Encoding of the output.
    #[serde(default)]
    pub output: Encoding,
}

/// User inside the sandbox. Neither has any capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum User {
    /// Owns the home directory.
    User,
    /// Owns the template's files and may install packages.
    Root,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// Text. Invalid UTF-8 is replaced.
    #[default]
    Text,
    /// Base64 of the exact bytes.
    Base64,
}

/// A call.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    /// Process id of its main process inside the sandbox.
    pub id: u32,
    /// Number of the call in the sandbox's connections.
    pub number: u32,
    pub argv: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The end of the call. Absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<CallEnd>,
}

/// A finished call with its recorded output.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Finished {
    pub id: u32,
    /// Number of the call in the sandbox's connections.
    pub number: u32,
    pub stdout: Captured,
    pub stderr: Captured,
    pub end: CallEnd,
}

/// Recorded output of one stream: all of it, or its beginning and its end.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Captured {
    pub data: String,
    pub encoding: Encoding,
    /// Bytes in the middle that were not recorded. In text output, a line marks the gap.
    pub omitted_bytes: u64,
}

/// The end of a call.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CallEnd {
    /// End reason, from kernel counters and Belljar's timers, never from output.
    #[schemars(schema_with = "reasons")]
    pub reason: EndReason,
    /// Exit status, if the main process exited by itself.
    pub exit_code: Option<i32>,
    /// Signal that ended the main process.
    pub signal: Option<i32>,
    pub usage: Usage,
    /// Likely cause of a failure. Advice from the output; it never changes `reason`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Hint>,
}

/// Likely cause of a failed call, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hint {
    pub code: HintCode,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HintCode {
    /// The code tried to reach a host or a package index, and the sandbox has no network access.
    NoNetwork,
}

/// Resource usage, as counted by the kernel.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    pub wall_ms: u64,
    pub cpu_ms: u64,
    pub peak_memory_bytes: Option<u64>,
    pub written_bytes: u64,
    pub output_bytes: u64,
}

impl From<Used> for Usage {
    fn from(used: Used) -> Self {
        let millis =
            |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            wall_ms: millis(used.wall),
            // To the nearest: many short calls would else seem to cost nothing.
            cpu_ms: millis(used.cpu + std::time::Duration::from_micros(500)),
            peak_memory_bytes: used.peak_memory_bytes,
            written_bytes: used.written_bytes,
            output_bytes: used.output_bytes,
        }
    }
}

impl From<End> for CallEnd {
    fn from(end: End) -> Self {
        let End { reason, exit_code, signal, usage } = end;
        Self { reason, exit_code, signal, usage: usage.into(), hint: None }
    }
}

pub(crate) fn reasons(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": EndReason::ALL.map(EndReason::as_str) })
}

/// An event of a call, sent as a server-sent event. The event's name is its `type`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CallEvent {
    /// The call has started. `number` is its number in the sandbox's connections.
    Started {
        id: u32,
        number: u32,
    },
    Stdout(Chunk),
    Stderr(Chunk),
    /// Output at this point that was not recorded. Only for calls with an `Idempotency-Key`.
    Omitted(Omitted),
    /// The last event.
    End(CallEnd),
}

/// Bytes of output that were not recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Omitted {
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    /// Bytes of displays, results and errors.
    pub shown_bytes: u64,
}

impl std::ops::AddAssign for Omitted {
    fn add_assign(&mut self, more: Self) {
        self.stdout_bytes += more.stdout_bytes;
        self.stderr_bytes += more.stderr_bytes;
        self.shown_bytes += more.shown_bytes;
    }
}

/// A chunk of output.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Chunk {
    pub data: String,
    pub encoding: Encoding,
}

/// Running calls.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CallList {
    pub items: Vec<Call>,
}

#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalCall {
    /// Linux signal number, for example 2 (`SIGINT`) or 15 (`SIGTERM`).
    pub signal: Number<1, 64>,
}

#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteStdin {
    /// Data to write.
    #[serde(default)]
    pub data: String,
    /// Encoding of `data`.
    #[serde(default)]
    pub encoding: Encoding,
    /// Close standard input after `data`.
    #[serde(default)]
    pub close: bool,
}

/// Options for following a call.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowCall {
    #[serde(default)]
    pub output: Encoding,
}
