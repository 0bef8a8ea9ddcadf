//! What a server was asked. Names and digests, not values: a test that prints a
//! record prints no credential.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// SHA-256, in hex.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    pub method: String,
    pub target: String,
    pub version: String,
    /// Names of the headers, in order.
    pub headers: Vec<String>,
    pub body_bytes: u64,
    /// SHA-256 of the body, in hex.
    pub body_digest: String,
    /// Whether the credential came, and no other.
    pub credential: bool,
    /// Which of the texts that are watched for came with it.
    pub watched: Vec<String>,
    /// The model that was asked for.
    pub model: Option<String>,
    pub stream: bool,
    /// Types and names of the tools that were offered, as `type` or `type:name`.
    pub tools: Vec<String>,
    /// Tool results in the conversation.
    pub results: usize,
    pub status: u16,
    /// The body itself, if the server keeps them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// All requests so far.
#[derive(Debug, Clone, Default)]
pub struct Record(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    count: AtomicU64,
    asked: Mutex<Vec<Asked>>,
}

impl Record {
    pub(crate) fn add(&self, asked: Asked) {
        self.count();
        self.0.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    }

    /// Counts a request of which nothing is kept.
    pub(crate) fn count(&self) {
        self.0.count.fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests there were, kept or not.
    pub fn total(&self) -> u64 {
        self.0.count.load(Ordering::Relaxed)
    }

    pub fn all(&self) -> Vec<Asked> {
        self.0.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn clear(&self) {
        self.0.asked.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
