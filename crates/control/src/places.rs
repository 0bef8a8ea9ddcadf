//! Who may change what a tenant has, and how many of one tenant at once.
//!
//! A tenant's places are one row, so its changes are made one after the other,
//! whatever is done here. Those that would only wait for that row wait here, and not
//! with one of the few connections to the database. A tenant gets a quarter of those: enough
//! that the database is never idle between two changes, and the rest is for other tenants.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One changes the row, the next is there when it is done.
const MIN_AT_ONCE: usize = 2;
/// The part of the connections that one tenant may use.
const PART_OF_CONNECTIONS: usize = 4;
/// Past this many tenants, those that nobody asks for are forgotten.
const MANY: usize = 1024;

#[derive(Debug)]
pub(crate) struct Places {
    tenants: Mutex<HashMap<String, Weak<Semaphore>>>,
    /// Changes of one tenant at the same time.
    at_once: usize,
}

impl Places {
    /// Places for a database that is reached by so many connections.
    pub(crate) fn new(connections: u32) -> Self {
        let connections = usize::try_from(connections).unwrap_or(usize::MAX);
        let at_once = (connections / PART_OF_CONNECTIONS).max(MIN_AT_ONCE);
        Self { tenants: Mutex::default(), at_once }
    }

    /// Waits until it is this one's turn, first come, first served. None: it is
    /// never closed, so there is always one.
    pub(crate) async fn turn(&self, tenant: &str) -> Option<OwnedSemaphorePermit> {
        let gate = self.gate(tenant);
        gate.acquire_owned().await.ok()
    }

    fn gate(&self, tenant: &str) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = tenants.get(tenant).and_then(Weak::upgrade) {
            return gate;
        }
        if tenants.len() >= MANY {
            tenants.retain(|_, gate| gate.strong_count() > 0);
        }
        let gate = Arc::new(Semaphore::new(self.at_once));
        tenants.insert(tenant.to_owned(), Arc::downgrade(&gate));
        gate
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn one_tenant_waits_for_itself_and_nobody_else_for_it() {
        let places = Places::new(8);
        let held = [places.turn("a").await, places.turn("a").await];
        assert!(places.turn("a").now_or_never().is_none());
        assert!(places.turn("b").now_or_never().is_some());
        drop(held);
        assert!(places.turn("a").now_or_never().is_some());
    }

    #[test]
    fn a_tenant_has_a_part_of_the_connections() {
        assert_eq!([1, 8, 16, 64].map(|all| Places::new(all).at_once), [2, 2, 4, 16]);
    }

    #[tokio::test]
    async fn tenants_that_nobody_asks_for_are_forgotten() {
        let places = Places::new(8);
        for number in 0..3 * MANY {
            places.turn(&number.to_string()).await;
        }
        assert!(places.tenants.lock().unwrap().len() <= MANY);
    }
}
