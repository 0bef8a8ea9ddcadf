//! Sandboxes that are on disk: all of them, or their files.

use std::path::Path;
use std::sync::Arc;

use belljar_domain::{ChosenLimits, Tier};
use belljar_node::ContextError;

use crate::problem::Problem;
use crate::profile::Processes;
use crate::sandbox::{Facts, Live, Paused, Sandbox};
use crate::snapshots::{Taken, cannot_copy, save};
use crate::start::Actions;
use crate::tier::not_made;

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
            Paused::Suspended(dir) => return self.awaken(sandbox, &dir).await,
            Paused::Frozen(live) => return Ok(live),
        };
        let tier = self.allow_return(sandbox)?;
        self.wait_until_warm(sandbox.template(), tier).await;
        let machine = self.make_from(&saved, sandbox.spec(tier)).await?;
        self.reconnect(sandbox, machine).await
    }

    /// The tier of a sandbox that comes back from disk. Refused if its tier, its profile or its
    /// limits are not offered any more.
    fn allow_return(&self, sandbox: &Sandbox) -> Result<Tier, Problem> {
        let Facts { tenant, tier, profile, limits, .. } = sandbox.facts();
        self.keep_profile(None, *profile, Processes::RunOn)?;
        self.keep_limits(ChosenLimits::default(), *limits, sandbox.template())?;
        self.keep_tier(tenant, None, *tier)
    }

    /// Gives a new machine of a sandbox the way out that the last one had.
    async fn reconnect(
        &self,
        sandbox: &Arc<Sandbox>,
        machine: belljar_node::Sandbox,
    ) -> Result<Arc<Live>, Problem> {
        let (tenant, network) = (&sandbox.facts().tenant, sandbox.network());
        self.connect_or_end(&machine, tenant, &network, &sandbox.rows).await?;
        Ok(Arc::new(Live::new(machine)))
    }

    /// Puts all of a sandbox on disk; its machine is gone after. One that cannot
    /// be put there runs on, if it still can.
    pub(super) async fn suspend(
        &self,
        sandbox: &Arc<Sandbox>,
        live: &Live,
    ) -> Result<Paused, Problem> {
        self.forget_saved(sandbox);
        let dir = self.journal().memory(sandbox.id());
        let suspended = live.machine.suspend(&dir).await;
        suspended.map_err(|error| match error {
            ContextError::Copy(_) | ContextError::TooLarge { .. } if !live.machine.is_gone() => {
                cannot_copy(&error)
            }
            _ => sandbox.failed(live, "save the sandbox to disk", &error),
        })?;
        Ok(Paused::Suspended(dir))
    }

    /// A machine that goes on where the one was that was put on disk.
    pub(super) async fn awaken(
        &self,
        sandbox: &Arc<Sandbox>,
        dir: &Path,
    ) -> Result<Arc<Live>, Problem> {
        let tier = self.allow_return(sandbox)?;
        let made = self.node().resume_from(dir, sandbox.spec(tier)).await;
        let machine = made.map_err(|error| not_made(&error))?;
        self.reconnect(sandbox, machine).await
    }

    /// Removes what was saved of a sandbox that runs again.
    pub(super) fn forget_saved(&self, sandbox: &Sandbox) {
        if let Err(error) = self.journal().forget_saved(sandbox.id()) {
            tracing::warn!(sandbox.id = %sandbox.id(), %error, "cannot remove saved sandbox state");
        }
    }
}
