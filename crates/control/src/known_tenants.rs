//! Facts about tenants for requests of this process in their name, read once a second at most: a run
//! makes several for each call, and thousands of runs may be of one tenant.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use belljar_model::{OperationCap, Tier};
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
pub(crate) struct KnownTenants(Mutex<HashMap<String, (Instant, TenantBounds)>>);

impl KnownTenants {
    /// Reads the bounds of a tenant, unless they have just been read.
    pub(crate) async fn bounds(
        &self,
        store: &Store,
        name: &str,
    ) -> Result<TenantBounds, StoreError> {
        if let Some(known) = self.fresh(name) {
            return Ok(known);
        }
        let read = Instant::now();
        let tenant = store.tenant(name).await?;
        let bounds = TenantBounds { floor: tenant.floor, operations: tenant.operations };
        self.learn(name, read, bounds.clone());
        Ok(bounds)
    }

    fn fresh(&self, name: &str) -> Option<TenantBounds> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, bounds) = all.get(name).filter(|(read, _)| read.elapsed() < BELIEVED)?;
        Some(bounds.clone())
    }

    fn learn(&self, name: &str, read: Instant, bounds: TenantBounds) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (read, _)| read.elapsed() < BELIEVED);
        all.insert(name.to_owned(), (read, bounds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_believed_for_a_moment_only() {
        let known = KnownTenants::default();
        let bounds = TenantBounds { floor: None, operations: OperationCap::ALL };
        let now = Instant::now();
        known.learn("ann", now, bounds.clone());
        assert!(known.fresh("ann").is_some() && known.fresh("bob").is_none());
        let Some(long_ago) = now.checked_sub(BELIEVED) else { return };
        known.learn("bob", long_ago, bounds);
        assert!(known.fresh("bob").is_none());
    }
}
