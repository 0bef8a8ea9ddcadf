//! The sandbox in which a build step runs, as this crate sees it.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use belljar_domain::{End, RootFs};

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
    /// Where the writable layer lives: it holds the empty directories `upper`
    /// and `work`, for an overlay. The builder seals `upper` afterwards.
    pub disk: &'a Path,
    pub argv: &'a [String],
    pub env: &'a BTreeMap<String, String>,
    pub timeout: Duration,
}
