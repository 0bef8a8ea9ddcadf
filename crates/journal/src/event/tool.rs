//! What was done in the sandbox, and what came of it.

use belljar_domain::{EndReason, ExecId, Generation, RunId, SandboxId, Sequence};
use belljar_objects::Digest;
use serde::{Deserialize, Serialize};

use crate::blob::BlobRef;
use crate::event::Environment;

/// Which call is meant. Models may use an id again in a later turn, so the turn is
/// part of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallRef {
    pub turn: u32,
    /// As the model named it.
    pub id: String,
}

impl CallRef {
    /// The name under which a sandbox does this once: the same for whoever works on
    /// the run.
    pub fn exec(&self, run: &RunId, attempt: u32) -> ExecId {
        let text = format!("{run}\n{}\n{attempt}\n{}", self.turn, self.id);
        let mut bits = [0; 16];
        bits.copy_from_slice(&Digest::of(text.as_bytes()).as_bytes()[..16]);
        ExecId::from_bits(bits)
    }
}

/// The run has this sandbox from here on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxAttached {
    pub sandbox: SandboxId,
    /// Counts the run's sandboxes, from 1.
    pub number: u32,
    pub template: String,
    /// The snapshot it was made from, and which event that was taken after: what
    /// happened later did not happen in here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<SnapshotTaken>,
    /// How data came into it; none: there was none, or nobody wrote it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Brought>,
    /// The tier and the limits that it has; none: an older version wrote this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
}

/// How data comes into a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Brought {
    /// The sandbox is shown the host's files; nothing of them is in it.
    Mounted,
    /// They were written into it.
    Copied,
}

/// It was decided to do it; nothing has been done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolIntended {
    pub call: CallRef,
    pub name: String,
    /// Of the arguments, which are in the model's answer.
    pub arguments: Digest,
}

/// Written before the sandbox is asked: from here on it may have been done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolStarted {
    pub call: CallRef,
    pub exec: ExecId,
    /// From 1; another one only after the sandbox was lost.
    pub attempt: u32,
    pub sandbox: SandboxId,
    /// The lease under which the sandbox is asked; it refuses older ones.
    pub generation: Generation,
    /// How long it may take: asked again, it has to be asked for the same. None: as
    /// long as the sandbox allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How much CPU time it may use, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
}

/// What a call used, as the kernel counted it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    pub wall_micros: u64,
    pub cpu_micros: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Growth of the sandbox's disk.
    pub written_bytes: u64,
    pub output_bytes: u64,
}

/// All that came out of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// `stdout`, `stderr`, `result`.
    pub stream: String,
    pub content: BlobRef,
    /// Where the code finds it again, inside the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// What the model was not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    pub shown_chars: u64,
    pub total_chars: u64,
}

/// What was wrong with the code, so that it can be counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFault {
    /// `missing_module`, `syntax`, `type`, `timeout`, `memory`.
    pub category: String,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFinished {
    pub call: CallRef,
    /// None: the call was refused before any sandbox saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecId>,
    pub reason: EndReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What the model is told.
    pub shown: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<Output>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<ToolFault>,
    pub used: Used,
}

/// The sandbox as it was after an event can be had again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotTaken {
    pub snapshot: String,
    pub after: Sequence,
}
