//! Messages between the agents of a pipeline run, and refused checkpoints.

use belljar_domain::Sequence;
use belljar_pipeline::Message;
use serde::{Deserialize, Serialize};

/// An agent handed on a message. It fits its schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageMessage {
    /// The turn that it belongs to; 1 before the first.
    pub turn: u32,
    /// From 1; the next one begins with a human's answer.
    pub round: u32,
    /// Attempt at the round's plan, from 1.
    pub attempt: u32,
    pub message: Message,
}

/// No checkpoint could be taken: the next attempt installs again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRefused {
    pub after: Sequence,
    pub reason: String,
}
