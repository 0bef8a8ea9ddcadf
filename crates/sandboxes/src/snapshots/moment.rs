//! A moment of a sandbox: its interpreters and files, or its files alone.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_domain::{Limits, Spec, Tier};
use belljar_node::{Checkpoint, ContextError};

use super::room::{Room, Wanted};
use crate::keys::Tenant;
use crate::lifecycle::PauseMode;
use crate::problem::{Kind, Problem};
use crate::sandbox::Sandbox;
use crate::start::Actions;
use crate::tier::not_made;

#[derive(Debug)]
pub(crate) enum Taken {
    Held(Box<Checkpoint>),
    /// Files, on disk.
    Saved(PathBuf),
    /// All of it, in a directory.
    Whole(PathBuf),
}

impl Taken {
    pub(super) fn mode(&self) -> PauseMode {
        match self {
            Self::Held(checkpoint) if !checkpoint.is_files_only() => PauseMode::Full,
            Self::Whole(_) => PauseMode::Full,
            Self::Held(_) | Self::Saved(_) => PauseMode::Filesystem,
        }
    }

    /// Whether it holds every process, so that what its template starts with runs
    /// in what is made of it. The memory of interpreters is all that there is of
    /// a sandbox that shares the host's kernel.
    pub(crate) fn is_whole(&self, tier: Tier) -> bool {
        tier.can_be_saved() && self.mode() == PauseMode::Full
    }

    /// How much it takes, in memory or on disk.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Held(checkpoint) => checkpoint.held_bytes(),
            Self::Saved(path) => file_bytes(path),
            Self::Whole(dir) => on_disk(dir),
        }
    }

    /// Moves what can be on disk there: files, or a whole sandbox. Interpreters
    /// stay in memory.
    pub(super) async fn kept_at(self, files: &Path, memory: &Path) -> Result<Self, Problem> {
        match self {
            Self::Held(checkpoint) if checkpoint.is_files_only() => {
                save(&checkpoint, files).await?;
                Ok(Self::Saved(files.to_owned()))
            }
            Self::Held(checkpoint) if checkpoint.can_be_saved() => {
                save(&checkpoint, memory).await?;
                Ok(Self::Whole(memory.to_owned()))
            }
            other => Ok(other),
        }
    }
}

/// Bytes of a file; 0 if it is gone.
pub(crate) fn file_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |about| about.len())
}

/// Bytes of all files below a directory, holes not counted. Nobody but the server
/// writes there.
pub(crate) fn on_disk(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(about) if about.is_dir() => on_disk(&entry.path()),
        Ok(about) => about.blocks() * 512,
        Err(_) => 0,
    });
    bytes.sum()
}

/// Writes it to disk, complete or not at all.
pub(crate) async fn save(files: &Checkpoint, path: &Path) -> Result<(), Problem> {
    let saved = files.save(path).await;
    saved.map(drop).map_err(|error| Problem::internal("save the sandbox", &error))
}

/// Why a sandbox cannot be copied, for its owner.
pub(crate) fn cannot_copy(error: &ContextError) -> Problem {
    let message = format!("cannot copy the sandbox: {error}");
    Problem::new(Kind::Conflict, "cannot_checkpoint", message)
        .hint("end the part that the message names; a checkpoint or a pause can keep files only")
}

/// The most that a moment of a sandbox can take.
fn wanted(limits: &Limits, tier: Tier, mode: PauseMode, quota: Option<(Tenant, u64)>) -> Wanted {
    let is_full = mode == PauseMode::Full;
    let memory = if is_full { limits.memory_bytes } else { 0 };
    let in_memory = !(is_full && tier.can_be_saved());
    Wanted { bytes: memory.saturating_add(limits.disk_bytes), in_memory, quota }
}

impl Actions {
    /// Takes a moment of a running sandbox, which goes on after. Where there is
    /// no interpreter there is nothing but files to be taken: other processes
    /// survive in neither form.
    /// Room for it is promised first, and is free again when the answer is dropped; it counts
    /// among a tenant's snapshots if `quota` says so.
    pub(crate) async fn take(
        &self,
        sandbox: &Arc<Sandbox>,
        mode: PauseMode,
        quota: Option<(Tenant, u64)>,
    ) -> Result<(Taken, Room<'_>), Problem> {
        let taken = Box::pin(async {
            let _changing = sandbox.changing.lock().await;
            let live = sandbox.live()?;
            let wanted = wanted(live.machine.limits(), sandbox.facts().tier, mode, quota);
            let mut promised = Err(Problem::gone());
            let room = async {
                promised = self.snapshots().room(&wanted).await;
                promised.as_ref().map_or(0, Room::bytes)
            };
            let taken = match mode {
                PauseMode::Full => live.machine.checkpoint_within(room).await,
                PauseMode::Filesystem => live.machine.checkpoint_files_within(room).await,
            };
            match taken {
                Ok(taken) => Ok((Taken::Held(Box::new(taken)), promised?)),
                Err(error @ ContextError::TooLarge { .. }) => {
                    let room = promised?;
                    Err(room.refusal().unwrap_or_else(|| cannot_copy(&error)))
                }
                Err(error) => Err(cannot_copy(&error)),
            }
        });
        sandbox.ending.unless_due(taken).await
    }

    /// A machine that begins with what was taken of one like `spec`.
    pub(crate) async fn make_from(
        &self,
        taken: &Taken,
        spec: Spec,
    ) -> Result<belljar_node::Sandbox, Problem> {
        let made = match taken {
            Taken::Held(checkpoint) => self.node().fork_confined(checkpoint, spec.profile).await,
            Taken::Saved(path) | Taken::Whole(path) => {
                let loaded = Checkpoint::load(path, spec).await;
                let loaded =
                    loaded.map_err(|error| Problem::internal("load the checkpoint", &error))?;
                self.node().fork(&loaded).await
            }
        };
        made.map_err(|error| not_made(&error))
    }
}
