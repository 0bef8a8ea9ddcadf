//! The sandbox in which a build step runs, as this crate sees it.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use belljar_model::{End, RootFs};

/// Runs one command in a fresh sandbox: as its root, without capabilities,
/// without network.
///
/// A trait, because the engine is in a layer that this crate may not import.
pub trait Runner {
    /// Everything that the command writes to either output stream goes to
    /// `output`. The sandbox is gone, and nothing writes to the job's
    /// directories any more, when this returns.
    fn run(
        &self,
        job: &Job<'_>,
        output: &mut dyn FnMut(&[u8]),
    ) -> Result<End, Box<dyn Error + Send + Sync>>;
}

/// What a [`Runner`] is asked to do.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    pub root: &'a RootFs,
    /// The writable layer: an empty directory that becomes an overlay's
    /// `upperdir`, and that the builder seals afterwards.
    pub upper: &'a Path,
    /// An empty directory beside `upper` for the overlay's `workdir`.
    pub work: &'a Path,
    pub argv: &'a [String],
    pub env: &'a BTreeMap<String, String>,
    pub timeout: Duration,
}
