//! Copies of live sandboxes.

use std::sync::Arc;
use std::time::Duration;

use belljar_domain::{ChosenLimits, SandboxId};

use super::Taken;
use crate::clock::now;
use crate::events::EventKind;
use crate::keys::Tenant;
use crate::lifecycle::PauseMode;
use crate::problem::Problem;
use crate::profile::Processes;
use crate::sandbox::{Facts, Sandbox};
use crate::secret::Secret;
use crate::start::Actions;

/// The most copies that one request makes.
pub const MOST_FORKS: usize = 20;

/// How long a copy lives when nobody says.
const FORK_LIFE: Duration = Duration::from_secs(15);

impl Actions {
    /// Makes copies of a sandbox as it is now; it goes on. One answer for each.
    /// Called as `ids` say, where somebody else decides that.
    pub async fn fork(
        &self,
        tenant: &Tenant,
        id: &str,
        count: usize,
        life: Option<Duration>,
        ids: &[SandboxId],
    ) -> Result<Vec<Result<Arc<Sandbox>, Problem>>, Problem> {
        self.refuse_when_draining()?;
        if count == 0 || count > MOST_FORKS {
            return Err(Problem::invalid(format!("count must be between 1 and {MOST_FORKS}")));
        }
        self.require_ids(ids, count)?;
        let sandbox = self.registry().find(tenant, id)?;
        self.keep_tier(tenant, None, sandbox.facts().tier)?;
        let Facts { profile, limits, .. } = sandbox.facts();
        self.keep_profile(None, *profile, Processes::RunOn)?;
        self.keep_limits(ChosenLimits::default(), *limits, sandbox.template())?;
        let life = self.life(Some(life.unwrap_or(FORK_LIFE)))?;
        let (taken, _room) = self.take(&sandbox, PauseMode::Full, None).await?;
        let mut copies = Vec::new();
        for nth in 0..count {
            copies.push(self.copy(&sandbox, &taken, life, ids.get(nth)).await);
        }
        self.tell(&sandbox, EventKind::Forked, Some(count.to_string()));
        Ok(copies)
    }

    async fn copy(
        &self,
        original: &Arc<Sandbox>,
        taken: &Taken,
        life: Duration,
        id: Option<&SandboxId>,
    ) -> Result<Arc<Sandbox>, Problem> {
        let facts = original.facts();
        let (most, slots) = (self.config().quota.sandboxes, self.config().slots);
        let place = self.registry().reserve(&facts.tenant, most, slots)?;
        let machine = self.make_from(taken, original.spec(facts.tier)).await?;
        let id = id.unwrap_or_else(|| machine.id()).clone();
        let (network, rows) = ((*original.network()).clone(), self.rows_for(&id));
        self.connect_or_end(&machine, &facts.tenant, &network, &rows).await?;
        let token =
            || Secret::random().map_err(|error| Problem::internal("generate a token", &error));
        let traffic_token = facts.traffic_token.as_ref().map(|_| token()).transpose()?;
        let facts = Facts { started_at: now(), token: token()?, traffic_token, ..facts.clone() };
        let (template, out) = (original.template().clone(), (network, rows));
        let copy = self.enter(id, machine, facts, template, life, out, place)?;
        if !taken.is_whole(copy.facts().tier) {
            self.begin(&copy).await;
        }
        Ok(copy)
    }
}
