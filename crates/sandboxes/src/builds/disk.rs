//! Where a step of a build writes.
//!
//! A file system of a fixed size, if the host can make one: then the kernel refuses what
//! is too much, whatever it is called. Else a plain directory that is looked at now and
//! then. The space that is left on the host is watched in both cases, since it belongs to
//! everybody.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use belljar_domain::Disk;
use belljar_engine::BuildDisk;
use belljar_template::Store;
use belljar_template::file;
use belljar_template::measure::{Amount, measure};
use belljar_template::oci::Caps;
use belljar_template::store::{Layer, StoreError, Workspace};
use belljar_template::tree::Kind as Tree;

use super::StepError;
use super::network::StepNetwork;
use crate::config::{BuildDisks, BuildLimits};
use crate::problem::Problem;

/// Between two looks at what a step has written.
const MEASURE_INTERVAL: Duration = Duration::from_millis(300);
/// Between two looks at the space that is left.
const FREE_SPACE_INTERVAL: Duration = Duration::from_millis(50);

/// The disk of one step, with the workspace that holds it.
#[derive(Debug)]
pub(super) struct StepDisk {
    place: Place,
    most: Amount,
    spare: u64,
    // Dropped last: the disk is in it.
    work: Workspace,
}

#[derive(Debug)]
enum Place {
    Sized(BuildDisk),
    Watched(PathBuf),
}

impl StepDisk {
    /// Makes an empty disk in a workspace of the store. Blocks.
    pub(super) fn make(store: &Store, limits: &BuildLimits) -> Result<Self, StoreError> {
        let work = store.workspace()?;
        let most = limits.written;
        let place = match limits.disks {
            BuildDisks::Sized => sized(work.path(), &most),
            BuildDisks::Watched => None,
        };
        let place = match place {
            Some(disk) => Place::Sized(disk),
            None => {
                let path = work.path().join("disk");
                for directory in [path.join("upper"), path.join("work")] {
                    std::fs::create_dir_all(&directory).map_err(|source| {
                        StoreError::File(file::Error { action: "create", path: directory, source })
                    })?;
                }
                Place::Watched(path)
            }
        };
        Ok(Self { place, most, spare: limits.spare_bytes, work })
    }

    /// The disk of the step's sandbox.
    pub(super) fn disk(&self) -> Disk {
        match &self.place {
            Place::Sized(disk) => disk.disk(),
            Place::Watched(path) => {
                Disk::Directory { path: path.clone(), file_bytes: Some(self.most.bytes) }
            }
        }
    }

    fn upper(&self) -> PathBuf {
        match &self.place {
            Place::Sized(disk) => disk.upper(),
            Place::Watched(path) => path.join("upper"),
        }
    }

    /// Waits until the step uses more than it may, or the host has too little left.
    pub(super) async fn exhausted(&self) -> StepError {
        tokio::select! {
            error = self.too_much() => error,
            error = scarce(self.work.path(), self.spare) => error,
        }
    }

    async fn too_much(&self) -> StepError {
        let Place::Watched(path) = &self.place else { return std::future::pending().await };
        let upper = path.join("upper");
        loop {
            tokio::time::sleep(MEASURE_INTERVAL).await;
            let (upper, most) = (upper.clone(), self.most);
            let found = tokio::task::spawn_blocking(move || measure(&upper, &most)).await;
            match found {
                Ok(Ok(found)) if found.exceeds(&self.most) => return self.exceeded(),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return unmeasured(&error),
                Err(error) => return unmeasured(&error),
            }
        }
    }

    /// The step's failure in words of ours, if it is that the disk is full.
    pub(super) fn is_full(&self) -> Option<StepError> {
        match &self.place {
            Place::Sized(disk) if disk.is_full() => Some(self.exceeded()),
            Place::Sized(_) | Place::Watched(_) => None,
        }
    }

    fn exceeded(&self) -> StepError {
        KeepError::Exceeded(self.most).into()
    }

    /// Seals what the step has written into a layer, without the files of its network. Blocks;
    /// nothing writes any more.
    pub(super) fn keep(self, store: &Store, network: &StepNetwork) -> Result<Layer, KeepError> {
        let upper = self.upper();
        network.remove_from(&upper).map_err(KeepError::Network)?;
        let found = measure(&upper, &self.most).map_err(KeepError::Measure)?;
        if found.exceeds(&self.most) {
            return Err(KeepError::Exceeded(self.most));
        }
        match &self.place {
            Place::Watched(_) => Ok(store.add_layer(&upper, Tree::Upper)?),
            Place::Sized(_) => {
                if free_bytes(self.work.path()).is_ok_and(|free| free < found.bytes + self.spare) {
                    return Err(KeepError::Scarce);
                }
                let Amount { bytes, entries } = self.most;
                let caps = Caps { bytes, entries, ..Caps::default() };
                Ok(store.copy_layer(&upper, Tree::Upper, caps)?)
            }
        }
    }
}

/// Why what a step wrote does not become a layer.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeepError {
    #[error("cannot remove the files of the network")]
    Network(#[source] std::io::Error),
    #[error("cannot measure the output of the step")]
    Measure(#[source] std::io::Error),
    #[error(
        "the step wrote more than {} bytes or {} files, or nested directories too deep",
        _0.bytes, _0.entries
    )]
    Exceeded(Amount),
    #[error("{SCARCE}")]
    Scarce,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<KeepError> for StepError {
    fn from(error: KeepError) -> Self {
        match error {
            KeepError::Exceeded(_) | KeepError::Scarce => Self::Told(error.to_string()),
            KeepError::Network(_) | KeepError::Measure(_) | KeepError::Store(_) => {
                Problem::internal("store the layer of a step", &error).into()
            }
        }
    }
}

const SCARCE: &str = "the server is short of disk space";

fn sized(dir: &Path, most: &Amount) -> Option<BuildDisk> {
    static TOLD: Once = Once::new();
    match BuildDisk::make(dir, most.bytes, most.entries) {
        Ok(disk) => Some(disk),
        Err(error) => {
            TOLD.call_once(|| {
                tracing::warn!(%error, "no sized disks for template builds; watching steps");
            });
            // What was begun of it takes space.
            let _ = std::fs::remove_file(dir.join("disk.img"));
            None
        }
    }
}

fn unmeasured(error: &(dyn std::error::Error + 'static)) -> StepError {
    Problem::internal("measure the output of a step", error).into()
}

/// Waits until the file system at `path` has less than `spare` bytes left.
async fn scarce(path: &Path, spare: u64) -> StepError {
    loop {
        if free_bytes(path).is_ok_and(|free| free < spare) {
            return StepError::Told(SCARCE.to_owned());
        }
        tokio::time::sleep(FREE_SPACE_INTERVAL).await;
    }
}

/// Space that is left on the file system at `path`.
pub(super) fn free_bytes(path: &Path) -> std::io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}
