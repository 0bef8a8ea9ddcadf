//! Which sandboxes there are.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use belljar_domain::SandboxId;

use crate::keys::Tenant;
use crate::problem::{Kind, Problem};
use crate::sandbox::Sandbox;

/// Every sandbox that has not ended, and who owns how many.
#[derive(Debug, Default)]
pub struct Registry {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    by_id: BTreeMap<SandboxId, Arc<Sandbox>>,
    by_token: HashMap<String, SandboxId>,
    /// Places taken by each tenant, also by sandboxes that are being made.
    places: HashMap<Tenant, usize>,
    /// Ids under which something is being made.
    making: HashSet<SandboxId>,
}

/// A sandbox that may be made; given back when it is not.
#[derive(Debug)]
pub(crate) struct Place {
    registry: Arc<Registry>,
    tenant: Option<Tenant>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(tenant) = self.tenant.take() {
            self.registry.give_back(&tenant);
        }
    }
}

/// An id under which something is being made.
#[derive(Debug)]
pub(crate) struct TakenId {
    registry: Arc<Registry>,
    id: SandboxId,
}

impl Drop for TakenId {
    fn drop(&mut self) {
        self.registry.write().making.remove(&self.id);
    }
}

impl Registry {
    /// Takes a place, so that sandboxes made at the same time cannot be more
    /// than the tenant may have.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        tenant: &Tenant,
        most: usize,
        slots: Option<usize>,
    ) -> Result<Place, Problem> {
        let mut inner = self.write();
        if slots.is_some_and(|slots| inner.places.values().sum::<usize>() >= slots) {
            let message = "this node has no free slot";
            return Err(Problem::new(Kind::Busy, "node_full", message).hint("retry later"));
        }
        let taken = inner.places.entry(tenant.clone()).or_default();
        if *taken >= most {
            let message = format!("your quota of {most} sandboxes is used up");
            return Err(Problem::new(Kind::TooMany, "too_many_sandboxes", message)
                .hint("end some, or wait for their deadlines"));
        }
        *taken += 1;
        Ok(Place { registry: self.clone(), tenant: Some(tenant.clone()) })
    }

    /// Takes an id, so that what is asked for twice at the same time is made once.
    pub(crate) fn take_id(self: &Arc<Self>, id: &SandboxId) -> Result<TakenId, Problem> {
        if self.write().making.insert(id.clone()) {
            return Ok(TakenId { registry: self.clone(), id: id.clone() });
        }
        let message = "a sandbox with this id is being created";
        Err(Problem::new(Kind::Conflict, "idempotency_in_progress", message))
    }

    fn give_back(&self, tenant: &Tenant) {
        let mut inner = self.write();
        if let Some(taken) = inner.places.get_mut(tenant) {
            *taken = taken.saturating_sub(1);
            if *taken == 0 {
                inner.places.remove(tenant);
            }
        }
    }

    /// Enters a sandbox in the place that was taken for it.
    pub(crate) fn enter(&self, sandbox: Arc<Sandbox>, mut place: Place) {
        place.tenant = None;
        let mut inner = self.write();
        inner.by_token.insert(sandbox.facts().token.expose().to_owned(), sandbox.id().clone());
        inner.by_id.insert(sandbox.id().clone(), sandbox);
    }

    /// Takes a sandbox out; `false` when it was not there any more.
    pub(crate) fn remove(&self, sandbox: &Sandbox) -> bool {
        let mut inner = self.write();
        let was_there = inner.by_id.remove(sandbox.id()).is_some();
        inner.by_token.remove(sandbox.facts().token.expose());
        drop(inner);
        if was_there {
            self.give_back(&sandbox.facts().tenant);
        }
        was_there
    }

    /// Places that are taken, also by sandboxes that are being made.
    pub fn taken(&self) -> usize {
        self.read().places.values().sum()
    }

    /// A tenant's own sandbox. What belongs to another does not exist.
    pub fn find(&self, tenant: &Tenant, id: &str) -> Result<Arc<Sandbox>, Problem> {
        let found = self.by_id(id).filter(|sandbox| sandbox.facts().tenant == *tenant);
        found.ok_or_else(|| Problem::unknown_sandbox(id))
    }

    /// Any sandbox. Whoever asks must prove by a token that it is theirs.
    pub fn by_id(&self, id: &str) -> Option<Arc<Sandbox>> {
        let id: SandboxId = id.parse().ok()?;
        self.read().by_id.get(&id).cloned()
    }

    /// The sandbox that this is the access token of.
    pub fn by_token(&self, token: &str) -> Option<Arc<Sandbox>> {
        let inner = self.read();
        inner.by_id.get(inner.by_token.get(token)?).cloned()
    }

    pub fn all(&self) -> Vec<Arc<Sandbox>> {
        self.read().by_id.values().cloned().collect()
    }

    pub fn of(&self, tenant: &Tenant) -> Vec<Arc<Sandbox>> {
        let inner = self.read();
        let own = inner.by_id.values().filter(|sandbox| sandbox.facts().tenant == *tenant);
        own.cloned().collect()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}
