//! Workflows: steps that are runs or calls, with data between them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bounds::{DateTime, Number, Text};
use crate::data::Sha256;

/// A workflow to create.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateWorkflow {
    /// The workflow's file, in TOML or JSON. `docs/workflows.md` describes it.
    pub definition: Text<1, 262_144>,
    /// A file or a value for each input of the workflow.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, WorkflowInput>,
}

/// An input of a workflow: one of `sha256`, `content` and `value`.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowInput {
    /// Digest of a file uploaded with `POST /v1/data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
    /// The whole content of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// A JSON value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// A workflow.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Workflow {
    /// Id of the workflow: `wf_` and 32 digits.
    pub id: String,
    pub name: String,
    pub made_at: DateTime,
    /// `running`, `done`, `failed`, `exhausted` or `cancelled`.
    pub state: String,
    /// Reason for a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// True after a request to cancel it.
    pub is_cancelled: bool,
    pub steps: Vec<WorkflowStep>,
    /// Results: files by digest, and values. Empty until the end.
    pub outputs: BTreeMap<String, WorkflowOutput>,
    /// Model tokens of all steps that ended.
    pub tokens: u64,
    /// Cost of the models of all steps that ended, in billionths of a dollar.
    pub nano_dollars: u64,
}

/// A step of a workflow.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowStep {
    pub name: String,
    /// `run` or `call`.
    pub kind: String,
    /// `waiting`, `running`, `done`, `failed` or `skipped`.
    pub state: String,
    /// Reason for a failure or a skip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub attempts: Vec<WorkflowAttempt>,
}

/// One attempt at one item of a step.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowAttempt {
    pub item: u64,
    pub attempt: u64,
    /// Id of the run, or of the call's sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `done`, `failed`, `lost` or `cancelled`. Absent while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub files: BTreeMap<String, WorkflowFile>,
}

/// A file by its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowFile {
    #[schemars(length(equal = 64))]
    pub sha256: String,
    pub bytes: u64,
}

/// A result: a file or a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowOutput {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<WorkflowFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// A workflow in a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowLine {
    pub id: String,
    pub name: String,
    pub made_at: DateTime,
    /// `running`, `done`, `failed`, `exhausted` or `cancelled`.
    pub state: String,
    /// Number of events so far.
    pub events: u64,
}

/// Your newest workflows.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowList {
    pub items: Vec<WorkflowLine>,
}

/// The length of the list.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListWorkflows {
    /// Maximum number of entries. Default: 20.
    #[serde(default)]
    pub limit: Option<Number<1, 1000>>,
}
