//! A moment of a sandbox: its interpreters and files, or its files alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_node::{Checkpoint, ContextError};

use crate::lifecycle::PauseMode;
use crate::problem::{Kind, Problem};
use crate::sandbox::Sandbox;
use crate::start::Actions;
use crate::template::Known;

#[derive(Debug)]
pub(crate) enum Taken {
    Held(Checkpoint),
    /// Files, on disk.
    Saved(PathBuf),
}

impl Taken {
    pub(super) fn mode(&self) -> PauseMode {
        match self {
            Self::Held(checkpoint) if !checkpoint.is_files_only() => PauseMode::Full,
            Self::Held(_) | Self::Saved(_) => PauseMode::Filesystem,
        }
    }

    /// How much it takes, in memory or on disk.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Held(checkpoint) => checkpoint.held_bytes(),
            Self::Saved(path) => std::fs::metadata(path).map_or(0, |about| about.len()),
        }
    }

    /// Moves files out of memory; interpreters stay there.
    pub(super) async fn kept_at(self, path: &Path) -> Result<Self, Problem> {
        match self {
            Self::Held(checkpoint) if checkpoint.is_files_only() => {
                save(&checkpoint, path).await?;
                Ok(Self::Saved(path.to_owned()))
            }
            other => Ok(other),
        }
    }
}

/// Writes files to disk, whole or not at all.
pub(crate) async fn save(files: &Checkpoint, path: &Path) -> Result<(), Problem> {
    let saved = files.save(path).await;
    saved.map(drop).map_err(|error| Problem::internal("save the files", &error))
}

/// Why a sandbox cannot be copied, for its owner.
pub(crate) fn cannot_copy(error: &ContextError) -> Problem {
    let message = format!("the sandbox cannot be copied as it is: {error}");
    Problem::new(Kind::Conflict, "cannot_checkpoint", message)
        .hint("end what it names, or leave memory out")
}

impl Actions {
    /// Takes a moment of a running sandbox, which goes on after. Where there is
    /// no interpreter there is nothing but files to be taken: other processes
    /// survive in neither form.
    pub(crate) async fn take(
        &self,
        sandbox: &Arc<Sandbox>,
        mode: PauseMode,
    ) -> Result<Taken, Problem> {
        let _changing = sandbox.changing.lock().await;
        let live = sandbox.live()?;
        let taken = match mode {
            PauseMode::Full => live.machine.checkpoint().await,
            PauseMode::Filesystem => live.machine.checkpoint_files().await,
        };
        taken.map(Taken::Held).map_err(|error| cannot_copy(&error))
    }

    /// A machine that begins with what was taken.
    pub(crate) async fn make_from(
        &self,
        taken: &Taken,
        template: &Known,
    ) -> Result<belljar_node::Sandbox, Problem> {
        let made = match taken {
            Taken::Held(checkpoint) => self.node().fork(checkpoint).await,
            Taken::Saved(path) => {
                let loaded = Checkpoint::load(path, template.spec.clone()).await;
                let loaded =
                    loaded.map_err(|error| Problem::internal("load the saved files", &error))?;
                self.node().fork(&loaded).await
            }
        };
        made.map_err(|error| Problem::internal("make a sandbox", &error))
    }
}
