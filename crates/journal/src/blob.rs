//! What is too long for an event: kept beside the run, under its SHA-256.

use belljar_objects::Digest;
use serde::{Deserialize, Serialize};

use crate::event::Body;

/// A body that is longer, as JSON, goes to a blob; the event names it.
pub const MOST_INLINE_BYTES: usize = 8 << 10;
/// What one blob may hold, and so one event.
pub const MOST_BLOB_BYTES: usize = 64 << 20;

/// Names a blob of a run, and says how much to expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BlobRef {
    pub sha256: Digest,
    pub bytes: u64,
}

impl BlobRef {
    pub fn of(content: &[u8]) -> Self {
        Self { sha256: Digest::of(content), bytes: content.len() as u64 }
    }
}

/// A body on its way into a journal, or out of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    Inline(String),
    Spilled { blob: BlobRef, content: String },
}

impl Stored {
    /// Decides where a body goes.
    pub fn of(body: &Body) -> serde_json::Result<Self> {
        let content = serde_json::to_string(body)?;
        if content.len() <= MOST_INLINE_BYTES {
            return Ok(Self::Inline(content));
        }
        Ok(Self::Spilled { blob: BlobRef::of(content.as_bytes()), content })
    }

    pub fn bytes(&self) -> usize {
        match self {
            Self::Inline(content) | Self::Spilled { content, .. } => content.len(),
        }
    }
}
