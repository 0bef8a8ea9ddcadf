//! Sandboxes of which only the files are kept.

use std::sync::Arc;

use crate::problem::Problem;
use crate::sandbox::{Live, Paused, Sandbox};
use crate::start::Actions;

impl Actions {
    /// Saves the files of a sandbox that stands still, and ends its machine.
    pub(super) async fn put_away(
        &self,
        sandbox: &Arc<Sandbox>,
        live: &Live,
    ) -> Result<Paused, Problem> {
        let _ = (sandbox, live);
        Err(Problem::unsupported("pausing without memory is not there yet"))
    }

    /// A new machine with the files that were saved.
    pub(super) async fn bring_back(&self, sandbox: &Arc<Sandbox>) -> Result<Arc<Live>, Problem> {
        let _ = sandbox;
        Err(Problem::unsupported("resuming from files is not there yet"))
    }

    /// Removes what was saved of a sandbox that runs again.
    pub(super) fn forget_saved(&self, sandbox: &Sandbox) {
        let path = self.journal().saved_files(sandbox.id());
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(sandbox.id = %sandbox.id(), %error, "cannot remove saved files");
            }
            _ => {}
        }
    }
}
