//! Facts about tenants for requests of this process in their name, read once a second at most: a run
//! makes several for each call, and thousands of runs may be of one tenant.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use belljar_domain::{NodeNumber, OperationCap, Tier};
use belljar_store::{Store, StoreError};

/// As long as a key is believed.
const BELIEVED: Duration = Duration::from_secs(1);

/// The bounds of a tenant.
#[derive(Debug, Clone)]
pub(crate) struct TenantBounds {
    pub(crate) floor: Option<Tier>,
    pub(crate) operations: OperationCap,
}

/// The tenants that were asked about within the last second.
#[derive(Debug, Default)]
pub(crate) struct KnownTenants {
    bounds: Believed<TenantBounds>,
    homes: Believed<NodeNumber>,
}

/// Facts by tenant, with the time at which they were read.
#[derive(Debug)]
struct Believed<T>(Mutex<HashMap<String, (Instant, T)>>);

impl<T> Default for Believed<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl KnownTenants {
    /// Reads the bounds of a tenant, unless they have just been read.
    pub(crate) async fn bounds(
        &self,
        store: &Store,
        name: &str,
    ) -> Result<TenantBounds, StoreError> {
        if let Some(known) = self.bounds.fresh(name) {
            return Ok(known);
        }
        let read = Instant::now();
        let tenant = store.tenant(name).await?;
        let bounds = TenantBounds { floor: tenant.floor, operations: tenant.operations };
        self.bounds.learn(name, read, bounds.clone());
        Ok(bounds)
    }

    /// Reads the home node of a tenant, unless it has just been read: `candidate`, if it has none.
    pub(crate) async fn home(
        &self,
        store: &Store,
        name: &str,
        candidate: Option<NodeNumber>,
    ) -> Result<Option<NodeNumber>, StoreError> {
        if let Some(home) = self.homes.fresh(name) {
            return Ok(Some(home));
        }
        let read = Instant::now();
        let home = store.home(name, candidate).await?;
        if let Some(home) = home {
            self.homes.learn(name, read, home);
        }
        Ok(home)
    }
}

impl<T: Clone> Believed<T> {
    fn fresh(&self, name: &str) -> Option<T> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, known) = all.get(name).filter(|(read, _)| read.elapsed() < BELIEVED)?;
        Some(known.clone())
    }

    fn learn(&self, name: &str, read: Instant, known: T) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (read, _)| read.elapsed() < BELIEVED);
        all.insert(name.to_owned(), (read, known));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_believed_for_a_moment_only() {
        let known = Believed::default();
        let bounds = TenantBounds { floor: None, operations: OperationCap::ALL };
        let now = Instant::now();
        known.learn("ann", now, bounds.clone());
        assert!(known.fresh("ann").is_some() && known.fresh("bob").is_none());
        let Some(long_ago) = now.checked_sub(BELIEVED) else { return };
        known.learn("bob", long_ago, bounds);
        assert!(known.fresh("bob").is_none());
    }
}
