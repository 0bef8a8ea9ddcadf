//! Sandboxes that are virtual machines: QEMU's `microvm`, inside a jail of ours.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What the machine monitor is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The monitor, found and judged by the engine.
    pub(crate) program: PathBuf,
    /// Where a machine lies that was put on disk, to be restored.
    pub(crate) from: Option<PathBuf>,
}
