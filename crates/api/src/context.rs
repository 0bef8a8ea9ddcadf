//! Contexts: interpreters that keep their state from cell to cell.

use std::collections::BTreeMap;

use belljar_domain::EndReason;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::bounds::{Millis, Name, Pairs, Path, Script, pairs};
use crate::call::{Hint, Omitted, Usage};

/// A context to create.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateContext {
    /// `python`, `javascript`, `typescript`, `bash`, `r` or `java`, if the template has it.
    /// Default: `python`.
    #[serde(default)]
    pub language: Option<Name>,
    /// Working directory. Default: the home directory.
    #[serde(default)]
    pub cwd: Option<Path>,
}

/// A context. Every sandbox starts with one for each of the template's first languages, named
/// after the language.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Context {
    pub id: String,
    pub language: String,
    pub cwd: String,
}

/// The contexts of a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ContextList {
    pub items: Vec<Context>,
}

/// A cell to run.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCell {
    pub code: Script,
    /// Environment variables that are set while the cell runs.
    #[serde(default)]
    #[schemars(schema_with = "pairs")]
    pub env: Pairs,
    /// Wall-clock limit. Default: the sandbox's limit.
    #[serde(default)]
    pub timeout_ms: Option<Millis>,
    /// CPU-time limit, at most the sandbox's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<Millis>,
}

/// One value in several representations, by MIME type.
pub type Bundle = BTreeMap<String, Value>;

/// A finished cell with its output.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Execution count; 1 for the interpreter's first cell.
    pub count: Option<u64>,
    /// Number of the call in the sandbox's connections.
    pub number: Option<u32>,
    pub stdout: String,
    pub stderr: String,
    pub displays: Vec<Display>,
    /// The value of the last expression.
    pub result: Option<Bundle>,
    /// The uncaught exception, if any.
    pub error: Option<CellError>,
    pub end: CellEnd,
    /// Output that was not recorded. Only for cells with an `Idempotency-Key` and much output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Omitted>,
}

/// A rich output of a cell: a chart, a table or an image.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Display {
    pub data: Bundle,
    pub metadata: Map<String, Value>,
    /// Id for later updates of this display.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_id: Option<String>,
    /// True if it replaces the earlier display with the same id.
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
    /// End reason. `done` if the cell ran to its end, with or without an exception.
    #[schemars(schema_with = "crate::call::reasons")]
    pub reason: EndReason,
    /// True if the cell ended without an exception.
    pub ok: bool,
    pub usage: Usage,
    pub origin: Origin,
    /// Likely cause of a failure. Advice from the output; it never changes `reason`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Hint>,
}

/// Origin of an interpreter. It determines the state that a cell can find in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Started as a new process.
    Executed,
    /// Forked from a warm interpreter that had run no tenant's code.
    Forked,
    /// Copied from another context's memory.
    Copied,
}

/// An event of a cell, sent as a server-sent event. The event's name is its `type`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CellEvent {
    /// The cell has started. `count` is its execution count, `number` its number in the
    /// sandbox's connections.
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
    /// Output at this point that was not recorded. Only for cells with an `Idempotency-Key`.
    Omitted(Omitted),
    /// The last event.
    End(CellEnd),
}
