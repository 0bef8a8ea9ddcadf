//! The events of a workflow.

use std::collections::BTreeMap;

use belljar_domain::OperationCaps;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::definition::StepKind;

/// A file by its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRef {
    pub sha256: String,
    pub bytes: u64,
}

/// An input as its caller gave it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepValue {
    File(FileRef),
    Value(Value),
}

/// One attempt at one item of a step.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptKey {
    pub step: String,
    /// 0 in a step without `for_each`.
    pub item: usize,
    /// Counted from 0.
    pub attempt: u32,
}

/// Tokens and money.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptUsage {
    #[serde(default)]
    pub tokens: u64,
    #[serde(default)]
    pub nano_dollars: u64,
}

/// The beginning of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepStarted {
    #[serde(flatten)]
    pub key: AttemptKey,
    pub of: StepKind,
    /// The share of the workflow's budget, which the attempt holds until its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nano_dollars: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Failed attempts before: each grows the allocation by the factors of `retry`.
    #[serde(default)]
    pub grown: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    Done,
    Failed,
    /// Its sandbox went away with its node.
    Lost,
    Cancelled,
}

impl AttemptOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Everything that an attempt made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outputs {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, FileRef>,
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepEnded {
    #[serde(flatten)]
    pub key: AttemptKey,
    pub outcome: AttemptOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default)]
    pub outputs: Outputs,
    #[serde(default)]
    pub used: AttemptUsage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowOutcome {
    Done,
    Failed,
    /// A bound of the workflow was used up.
    Exhausted,
    Cancelled,
}

impl WorkflowOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Exhausted => "exhausted",
            Self::Cancelled => "cancelled",
        }
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    Created {
        /// The format of these events.
        v: u32,
        /// The file, as it came.
        definition: String,
        inputs: BTreeMap<String, StepValue>,
        /// Caps of the API key that created it. They hold for each step.
        #[serde(default)]
        caps: OperationCaps,
        /// Digest of the request, for its idempotency key.
        request: String,
    },
    /// A step has so many items.
    Expanded {
        step: String,
        items: usize,
    },
    StepSkipped {
        step: String,
        reason: String,
    },
    /// A step cannot be executed at all.
    StepRefused {
        step: String,
        error: String,
    },
    StepStarted(StepStarted),
    /// The run or the sandbox of an attempt.
    StepPlaced {
        #[serde(flatten)]
        key: AttemptKey,
        id: String,
    },
    StepEnded(StepEnded),
    Ended {
        outcome: WorkflowOutcome,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        #[serde(default)]
        outputs: BTreeMap<String, StepValue>,
    },
}
