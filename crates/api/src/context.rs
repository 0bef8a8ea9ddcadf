//! Contexts: interpreters that keep their state from cell to cell.

use std::collections::BTreeMap;

use belljar_model::EndReason;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::bounds::{Millis, Name, Pairs, Path, Script, pairs};
use crate::call::{Omitted, Usage};

/// A context to be made.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateContext {
    /// `python`, `javascript`, `typescript`, `bash`, `r` or `java`, as far as the
    /// template has it; Python if nothing is said.
    #[serde(default)]
    pub language: Option<Name>,
    /// The home directory if nothing is said.
    #[serde(default)]
    pub cwd: Option<Path>,
}

/// One context. Those of a template's first languages are there from the start,
/// under the names of the languages.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Context {
    pub id: String,
    pub language: String,
    pub cwd: String,
}

/// Contexts of a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ContextList {
    pub items: Vec<Context>,
}

/// A cell.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCell {
    pub code: Script,
    /// Variables that are set while it runs.
    #[serde(default)]
    #[schemars(schema_with = "pairs")]
    pub env: Pairs,
    /// How long it may take, instead of the sandbox's own limit.
    #[serde(default)]
    pub timeout_ms: Option<Millis>,
    /// How much CPU time it may use, if the sandbox does not allow less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<Millis>,
}

/// One value in several representations, by MIME type.
pub type Bundle = BTreeMap<String, Value>;

/// A cell that is over, with everything it showed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The so-manieth that its interpreter ran.
    pub count: Option<u64>,
    /// What rows of its traffic call it.
    pub number: Option<u32>,
    pub stdout: String,
    pub stderr: String,
    pub displays: Vec<Display>,
    /// The value of the last expression.
    pub result: Option<Bundle>,
    /// An exception that nothing caught.
    pub error: Option<CellError>,
    pub end: CellEnd,
    /// What of it is not kept, if it was run with a key and said too much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Omitted>,
}

/// Something shown: a chart, a table, an image.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Display {
    pub data: Bundle,
    pub metadata: Map<String, Value>,
    /// Under which id it may be shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_id: Option<String>,
    /// Whether it replaces what was shown under the same id.
    pub update: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CellError {
    pub name: String,
    pub value: String,
    pub traceback: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CellEnd {
    /// `done` when the cell came to its end, with an exception or without.
    #[schemars(schema_with = "crate::call::reasons")]
    pub reason: EndReason,
    /// Whether it ended without an exception.
    pub ok: bool,
    pub usage: Usage,
    pub origin: Origin,
}

/// How an interpreter came to be: what a cell may find in it depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A program that was executed.
    Executed,
    /// Forked from a warm interpreter that nobody's code had run in.
    Forked,
    /// A copy of another context's memory.
    Copied,
}

/// What a cell does, as server-sent events; the name of an event is its `type`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CellEvent {
    /// It has begun, as the so-manieth of its interpreter; rows of its traffic
    /// name `number`.
    Begun {
        count: u64,
        number: u32,
    },
    Stdout {
        data: String,
    },
    Stderr {
        data: String,
    },
    Display(Display),
    /// The value of the last expression.
    Result {
        data: Bundle,
    },
    Error(CellError),
    /// Of a cell with a key: so much was said here, and is not kept.
    Omitted(Omitted),
    /// It is over; nothing follows.
    End(CellEnd),
}
