//! Sandboxes that an OCI runtime makes: crun, runc, and gVisor's runsc.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a runtime is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The runtime, found and judged by the engine.
    pub(crate) program: PathBuf,
    /// Where a sandbox lies that was put on disk, to be restored.
    pub(crate) from: Option<PathBuf>,
}
