//! Snapshots: moments of sandboxes, kept to make others from.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belljar_node::Checkpoint;

use crate::clock::{Moment, now};
use crate::events::EventKind;
use crate::keys::Tenant;
use crate::lifecycle::PauseMode;
use crate::list::Page;
use crate::problem::{Kind, Problem};
use crate::sandbox::{Facts, Sandbox};
use crate::secret::Secret;
use crate::start::Actions;
use crate::template::Known;

/// A moment of a sandbox that was kept.
#[derive(Debug)]
pub struct Snapshot {
    pub id: String,
    pub tenant: Tenant,
    pub name: Option<String>,
    /// Of which sandbox.
    pub sandbox: String,
    pub taken_at: Moment,
    pub(crate) checkpoint: Arc<Checkpoint>,
    pub(crate) template: Arc<Known>,
}

#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    known: Mutex<BTreeMap<String, Arc<Snapshot>>>,
}

impl Snapshots {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Snapshot>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By id, or by name: then the newest of that name.
    pub(crate) fn find(&self, tenant: &Tenant, name: &str) -> Option<Arc<Snapshot>> {
        let known = self.lock();
        let own = || known.values().filter(|snapshot| snapshot.tenant == *tenant);
        let by_id = own().find(|snapshot| snapshot.id == name);
        let named = || own().filter(|snapshot| snapshot.name.as_deref() == Some(name));
        by_id.or_else(|| named().max_by_key(|snapshot| snapshot.taken_at)).cloned()
    }
}

/// The most copies that one request makes.
pub const MOST_FORKS: usize = 20;

/// How long a copy lives when nobody says.
const FORK_LIFE: Duration = Duration::from_secs(15);

impl Actions {
    /// Keeps a sandbox as it is now; it goes on.
    pub async fn snapshot(
        &self,
        tenant: &Tenant,
        id: &str,
        name: Option<&str>,
        mode: PauseMode,
    ) -> Result<Arc<Snapshot>, Problem> {
        let _ = mode;
        let name = name.map(str::to_owned);
        let sandbox = self.registry().find(tenant, id)?;
        let most = self.config().quota.snapshots;
        if self.snapshots().lock().values().filter(|other| other.tenant == *tenant).count() >= most
        {
            let message = format!("you have reached the maximum of {most} snapshots");
            return Err(Problem::new(Kind::TooMany, "too_many_snapshots", message));
        }
        let checkpoint = self.checkpoint(&sandbox).await?;
        let random = Secret::random().map_err(|error| Problem::internal("make an id", &error))?;
        let snapshot = Arc::new(Snapshot {
            id: format!("snap{}", &random.expose()[..20]),
            tenant: tenant.clone(),
            name,
            sandbox: sandbox.id().to_string(),
            taken_at: now(),
            checkpoint: Arc::new(checkpoint),
            template: sandbox.template().clone(),
        });
        self.snapshots().lock().insert(snapshot.id.clone(), snapshot.clone());
        self.tell(&sandbox, EventKind::Snapshot, Some(snapshot.id.clone()));
        Ok(snapshot)
    }

    async fn checkpoint(&self, sandbox: &Arc<Sandbox>) -> Result<Checkpoint, Problem> {
        let _changing = sandbox.changing.lock().await;
        let live = sandbox.live()?;
        live.machine.checkpoint().await.map_err(|error| {
            let message = format!("the sandbox cannot be copied as it is: {error}");
            Problem::new(Kind::Conflict, "cannot_checkpoint", message)
                .hint("end what it names, or leave memory out")
        })
    }

    pub fn list_snapshots(
        &self,
        tenant: &Tenant,
        sandbox: Option<&str>,
        name: Option<&str>,
        limit: usize,
        after: Option<&str>,
    ) -> Result<Page<Arc<Snapshot>>, Problem> {
        let mut own: Vec<_> = self.snapshots().lock().values().cloned().collect();
        own.retain(|snapshot| {
            snapshot.tenant == *tenant
                && sandbox.is_none_or(|id| snapshot.sandbox == id)
                && name.is_none_or(|name| snapshot.name.as_deref() == Some(name))
        });
        let key = |snapshot: &Arc<Snapshot>| (snapshot.taken_at.unix_micros(), snapshot.id.clone());
        own.sort_by_key(|snapshot| std::cmp::Reverse(key(snapshot)));
        crate::list::page(own, limit, after, key, true)
    }

    pub fn delete_snapshot(&self, tenant: &Tenant, id: &str) -> Result<(), Problem> {
        let found = self.snapshots().find(tenant, id);
        let found = found.ok_or_else(|| Problem::not_found("snapshot", id))?;
        self.snapshots().lock().remove(&found.id);
        Ok(())
    }

    /// Makes copies of a sandbox as it is now; it goes on. One answer for each.
    pub async fn fork(
        &self,
        tenant: &Tenant,
        id: &str,
        count: usize,
        life: Option<Duration>,
    ) -> Result<Vec<Result<Arc<Sandbox>, Problem>>, Problem> {
        self.refuse_when_draining()?;
        if count == 0 || count > MOST_FORKS {
            return Err(Problem::invalid(format!("count must be between 1 and {MOST_FORKS}")));
        }
        let sandbox = self.registry().find(tenant, id)?;
        let life = self.life(Some(life.unwrap_or(FORK_LIFE)))?;
        let checkpoint = self.checkpoint(&sandbox).await?;
        let mut copies = Vec::new();
        for _ in 0..count {
            copies.push(self.copy(&sandbox, &checkpoint, life).await);
        }
        self.tell(&sandbox, EventKind::Forked, Some(count.to_string()));
        Ok(copies)
    }

    async fn copy(
        &self,
        original: &Arc<Sandbox>,
        checkpoint: &Checkpoint,
        life: Duration,
    ) -> Result<Arc<Sandbox>, Problem> {
        let facts = original.facts();
        let place = self.registry().reserve(&facts.tenant, self.config().quota.sandboxes)?;
        let forked = self.node().fork(checkpoint).await;
        let machine = forked.map_err(|error| Problem::internal("make a copy", &error))?;
        let token = || Secret::random().map_err(|error| Problem::internal("make a token", &error));
        let traffic_token = facts.traffic_token.as_ref().map(|_| token()).transpose()?;
        let facts = Facts { started_at: now(), token: token()?, traffic_token, ..facts.clone() };
        self.enter(machine, facts, original.template().clone(), life, place)
    }
}
