//! Bytes that are kept for tenants, as they are sampled and charged.

use serde::{Deserialize, Serialize};

/// A kind of bytes that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredKind {
    /// Files of volumes.
    Volumes,
    /// Checkpoints, and paused sandboxes that are on disk.
    Checkpoints,
    /// Layers of templates that the tenant built, without those of templates for all.
    Templates,
    /// Files that were uploaded as datasets.
    Datasets,
    /// Transcripts of runs, with outputs.
    Runs,
}

impl StoredKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Volumes => "volumes",
            Self::Checkpoints => "checkpoints",
            Self::Templates => "templates",
            Self::Datasets => "datasets",
            Self::Runs => "runs",
        }
    }
}

/// The bytes of one kind that a tenant has at one moment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StoredBytes {
    pub tenant: String,
    pub kind: StoredKind,
    pub bytes: u64,
}
