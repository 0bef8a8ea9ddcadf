//! Sandboxes of which only the files are kept.

use std::io;
use std::sync::Arc;

use crate::problem::Problem;
use crate::sandbox::{Live, Paused, Sandbox};
use crate::snapshots::{Taken, cannot_copy, save};
use crate::start::Actions;

impl Actions {
    /// Saves the files of a sandbox that stands still, and ends its machine.
    /// Until they are on disk nothing is lost.
    pub(super) async fn put_away(
        &self,
        sandbox: &Arc<Sandbox>,
        live: &Live,
    ) -> Result<Paused, Problem> {
        let path = self.journal().saved_files(sandbox.id());
        let files = live.machine.checkpoint_files().await;
        save(&files.map_err(|error| cannot_copy(&error))?, &path).await?;
        self.remove_machine(sandbox, live).await;
        Ok(Paused::Saved(path))
    }

    /// A new machine with the files that were saved.
    pub(super) async fn bring_back(
        &self,
        sandbox: &Arc<Sandbox>,
        paused: Paused,
    ) -> Result<Arc<Live>, Problem> {
        let saved = match paused {
            Paused::Saved(path) => Taken::Saved(path),
            Paused::Frozen(live) => return Ok(live),
        };
        let machine = self.make_from(&saved, sandbox.template()).await?;
        Ok(Arc::new(Live::new(machine)))
    }

    /// Removes what was saved of a sandbox that runs again.
    pub(super) fn forget_saved(&self, sandbox: &Sandbox) {
        match std::fs::remove_file(self.journal().saved_files(sandbox.id())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(sandbox.id = %sandbox.id(), %error, "cannot remove saved files");
            }
            _ => {}
        }
    }
}
