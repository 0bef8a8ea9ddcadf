//! Calls: commands in a sandbox.

use belljar_model::{End, EndReason, Usage as Used};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::bounds::{Millis, Number, Pairs, Path, Script, Text, pairs};

/// A command: `argv` or `script`, one of the two.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCall {
    /// The program and its arguments; nothing interprets them.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub argv: Vec<Text<0, 131_071>>,
    /// A script for the sandbox's shell.
    #[serde(default)]
    pub script: Option<Script>,
    /// Added to the sandbox's own environment.
    #[serde(default)]
    #[schemars(schema_with = "pairs")]
    pub env: Pairs,
    /// The template's own, or the home directory, if nothing is said.
    #[serde(default)]
    pub cwd: Option<Path>,
    /// The template's own if nothing is said.
    #[serde(default)]
    pub user: Option<User>,
    /// What it reads from its standard input, which then ends.
    #[serde(default)]
    pub stdin: Option<String>,
    /// Whether more input can be sent later; then it does not end.
    #[serde(default)]
    pub stdin_open: bool,
    /// How long it may take. If nothing is said: the sandbox's own limit, or as
    /// long as the sandbox in the background.
    #[serde(default)]
    pub timeout_ms: Option<Millis>,
    /// How much CPU time it may use, if the sandbox does not allow less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<Millis>,
    /// Answers at once; the call goes on, and so do processes that outlive it.
    #[serde(default)]
    pub background: bool,
    /// How output is written.
    #[serde(default)]
    pub output: Encoding,
}

/// Who the code is, inside. Neither has any capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum User {
    /// Owner of the home directory.
    User,
    /// Owner of the template's files: may install packages.
    Root,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// As text; what is not UTF-8 is replaced.
    #[default]
    Text,
    /// As base 64, to the byte.
    Base64,
}

/// One call.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    /// Its main process's pid inside the sandbox.
    pub id: u32,
    /// What rows of its traffic call it.
    pub number: u32,
    pub argv: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// How it ended; none: it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<CallEnd>,
}

/// A call that is over, with what was kept of its output.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Finished {
    pub id: u32,
    /// What rows of its traffic call it.
    pub number: u32,
    pub stdout: Captured,
    pub stderr: Captured,
    pub end: CallEnd,
}

/// What was kept of one stream: all of it, or its beginning and its end.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Captured {
    pub data: String,
    pub encoding: Encoding,
    /// Bytes in the middle that were not kept. As text, a line says so there.
    pub omitted_bytes: u64,
}

/// How a call ended.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CallEnd {
    /// From the kernel's counters and our own timers, never from what was printed.
    #[schemars(schema_with = "reasons")]
    pub reason: EndReason,
    /// The exit status, when the main process exited by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    pub usage: Usage,
}

/// What was used, as the kernel counted it.
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
        Self { reason, exit_code, signal, usage: usage.into() }
    }
}

pub(crate) fn reasons(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": EndReason::ALL.map(EndReason::as_str) })
}

/// What a call does, as server-sent events; the name of an event is its `type`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CallEvent {
    /// It runs; rows of its traffic name `number`.
    Started {
        id: u32,
        number: u32,
    },
    Stdout(Chunk),
    Stderr(Chunk),
    /// Of a call with a key: so much was said here, and is not kept.
    Omitted(Omitted),
    /// It is over; nothing follows.
    End(CallEnd),
}

/// Bytes that were said and are not kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Omitted {
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    /// Of displays, results and errors.
    pub shown_bytes: u64,
}

impl std::ops::AddAssign for Omitted {
    fn add_assign(&mut self, more: Self) {
        self.stdout_bytes += more.stdout_bytes;
        self.stderr_bytes += more.stderr_bytes;
        self.shown_bytes += more.shown_bytes;
    }
}

/// A piece of output.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Chunk {
    pub data: String,
    pub encoding: Encoding,
}

/// Calls that run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CallList {
    pub items: Vec<Call>,
}

#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalCall {
    /// A signal's number, as Linux has it: 2 interrupts, 15 asks to end.
    pub signal: Number<1, 64>,
}

#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteStdin {
    /// What to write.
    #[serde(default)]
    pub data: String,
    /// Whether `data` is base 64.
    #[serde(default)]
    pub encoding: Encoding,
    /// Whether the input ends after it.
    #[serde(default)]
    pub close: bool,
}

/// How to write the output of a call that is listened to.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowCall {
    #[serde(default)]
    pub output: Encoding,
}
