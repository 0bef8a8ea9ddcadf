//! Bounds on cassettes that are moved at the same time: each takes up to a gibibyte of disk on its
//! way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::keys::Tenant;
use crate::problem::{Kind, Problem};

/// Cassettes of one tenant that are moved at the same time, and of all.
const MAX_OF_TENANT: usize = 2;
const MAX_OF_ALL: usize = 8;
/// A cassette that comes when others are moved waits for so long.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Transfers {
    all: Arc<Semaphore>,
    tenants: Mutex<HashMap<Tenant, Weak<Semaphore>>>,
}

/// A cassette on its way. Dropped, it makes room for another.
#[derive(Debug)]
pub struct Transfer {
    _of_tenant: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Default for Transfers {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(MAX_OF_ALL)), tenants: Mutex::default() }
    }
}

impl Transfers {
    /// Waits for a while until another cassette of this tenant may be moved.
    pub(super) async fn begin(&self, tenant: &Tenant) -> Result<Transfer, Problem> {
        let own = self.of_tenant(tenant);
        let all = Arc::clone(&self.all);
        // In this order: a tenant that waits for itself takes nothing from others.
        let begun = async {
            let of_tenant = own.acquire_owned().await.ok()?;
            let of_all = all.acquire_owned().await.ok()?;
            Some(Transfer { _of_tenant: of_tenant, _of_all: of_all })
        };
        let begun = tokio::time::timeout(PATIENCE, begun).await;
        begun.ok().flatten().ok_or_else(|| {
            let message = format!(
                "{MAX_OF_TENANT} of your cassettes, or {MAX_OF_ALL} of all tenants, are being moved"
            );
            Problem::new(Kind::TooMany, "too_many_transfers", message)
                .hint("wait until one of them ends")
        })
    }

    fn of_tenant(&self, tenant: &Tenant) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = tenants.get(tenant).and_then(Weak::upgrade) {
            return own;
        }
        tenants.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(MAX_OF_TENANT));
        tenants.insert(tenant.clone(), Arc::downgrade(&own));
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn transfers_are_bounded_by_tenant_and_in_all() {
        let transfers = Transfers::default();
        let tenant = |number: usize| Tenant::new(&format!("t{number}"));
        let mut under_way = Vec::new();
        for number in 0..MAX_OF_ALL {
            let begun = transfers.begin(&tenant(number / MAX_OF_TENANT)).await;
            under_way.push(begun.unwrap());
            if number == MAX_OF_TENANT - 1 {
                let refused = transfers.begin(&tenant(0)).await.unwrap_err();
                assert_eq!((refused.kind, refused.code), (Kind::TooMany, "too_many_transfers"));
            }
        }
        let refused = transfers.begin(&tenant(100)).await.unwrap_err();
        assert_eq!(refused.code, "too_many_transfers");
        drop(under_way.remove(0));
        let another = transfers.begin(&tenant(100)).await.unwrap();
        drop((another, under_way));
        transfers.begin(&tenant(0)).await.unwrap();
        assert_eq!(transfers.all.available_permits(), MAX_OF_ALL);
    }

    #[tokio::test(start_paused = true)]
    async fn a_transfer_waits_for_another_that_ends_soon() {
        let transfers = Transfers::default();
        let tenant = Tenant::new("a");
        let first = transfers.begin(&tenant).await.unwrap();
        let second = transfers.begin(&tenant).await.unwrap();
        let ends = async {
            tokio::time::sleep(PATIENCE / 2).await;
            drop(first);
        };
        let (third, ()) = tokio::join!(transfers.begin(&tenant), ends);
        assert!(third.is_ok());
        drop(second);
    }
}
