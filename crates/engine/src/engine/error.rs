//! The reasons that an engine or a sandbox did not start.

use std::io;
use std::path::PathBuf;

use belljar_domain::Tier;

use crate::enforcement::WeakLimit;
use crate::jail::Failure;

/// The reason that an engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("cannot use the state directory `{dir}`")]
    State { dir: PathBuf, source: io::Error },
    #[error("cannot clean up after an earlier belljar, or lease user ids")]
    Lease(#[source] io::Error),
    #[error(
        "cannot create cgroups for sandboxes; in a container or a delegated group, the tree must \
         be writable and its root group must have no other processes"
    )]
    Groups(#[source] io::Error),
    #[error("cannot prepare the guest program")]
    Guest(#[source] io::Error),
    #[error("cannot start the spawner process")]
    Spawner(#[source] io::Error),
}

/// The reason that a sandbox did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the limits are out of range")]
    Limits(#[source] belljar_domain::limits::OutOfRange),
    #[error("cannot {doing}")]
    Step { doing: String, source: io::Error },
    #[error("this host cannot run the `{tier}` tier: {why}")]
    Unsupported { tier: Tier, why: String },
    #[error("the spawner process has ended")]
    SpawnerGone,
    #[error(
        "cannot keep the limits on memory, processes and CPU: there are no cgroups, and this host \
         does not show the processes of a sandbox to its owner"
    )]
    Unwatched(#[source] io::Error),
    #[error("cannot keep the limit `{}`: {}", .0.limit.as_str(), .0.why)]
    Weak(WeakLimit),
    #[error("the files were saved by a server that runs as root, and this one does not")]
    SavedAsRoot,
    #[error("the files were saved by a server that does not run as root, and this one does")]
    SavedWithoutRoot,
}

impl From<Failure> for StartError {
    fn from(failure: Failure) -> Self {
        let source = io::Error::from_raw_os_error(failure.errno);
        Self::Step { doing: failure.doing, source }
    }
}
