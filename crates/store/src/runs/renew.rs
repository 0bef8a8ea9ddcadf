//! Renews the leases of many runs in one statement.
//!
//! Each worker renews its own, every few seconds. Thousands of workers would commit hundreds of
//! times a second, so those who come within a moment are renewed together.

use std::collections::HashSet;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belljar_journal::{Address, Failure, Lease, LeaseError};
use tokio::sync::oneshot;

use super::Runs;
use crate::error::{StoreError, of};
use crate::read;

/// The time for which the first one waits for others, at most, and as a share of the lease.
const GATHER_INTERVAL: Duration = Duration::from_secs(1);
const GATHER_SHARE: u32 = 30;

/// Leases that wait to be renewed.
#[derive(Debug, Default)]
pub(super) struct Renewals(Mutex<Vec<Waiting>>);

#[derive(Debug)]
struct Waiting {
    lease: Lease,
    time: Duration,
    /// True: it is renewed.
    done: oneshot::Sender<Result<bool, Arc<StoreError>>>,
}

impl Renewals {
    /// Returns true if it is the first one.
    fn push(&self, waiting: Waiting) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(waiting);
        all.len() == 1
    }

    fn take(&self) -> Vec<Waiting> {
        mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Runs {
    pub(super) async fn renew_with_others(
        &self,
        lease: &Lease,
        time: Duration,
    ) -> Result<(), LeaseError> {
        let (done, heard) = oneshot::channel();
        if self.renewals.push(Waiting { lease: lease.clone(), time, done }) {
            let (runs, pause) = (self.clone(), GATHER_INTERVAL.min(time / GATHER_SHARE));
            // The one that was first may be dropped before the others are renewed.
            tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                let waiting = runs.renewals.take();
                runs.renew_all(waiting).await;
            });
        }
        match heard.await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => self.why_not_renewed(lease).await,
            Ok(Err(error)) => Err(Failure::new(error).into()),
            Err(gone) => Err(Failure::new(gone).into()),
        }
    }

    async fn renew_all(&self, waiting: Vec<Waiting>) {
        let tenants: Vec<&str> =
            waiting.iter().map(|one| one.lease.address.tenant.as_str()).collect();
        let ids: Vec<&str> = waiting.iter().map(|one| one.lease.address.run.as_str()).collect();
        let generations: Vec<i64> =
            waiting.iter().map(|one| read::signed(one.lease.generation.0)).collect();
        let seconds: Vec<f64> = waiting.iter().map(|one| one.time.as_secs_f64()).collect();
        let renewed = sqlx::query_as::<_, (String, String, i64)>(
            "update run set lease_until = now() + l.seconds * interval '1 second'
             from unnest($1::text[], $2::text[], $3::bigint[], $4::float8[])
                    as l (tenant, id, gen, seconds)
             where run.id = l.id and run.tenant = l.tenant and run.lease_gen = l.gen and run.lease_owner is not null
             returning run.tenant, run.id, run.lease_gen",
        )
        .bind(tenants)
        .bind(ids)
        .bind(generations)
        .bind(seconds)
        .fetch_all(&self.store.leases)
        .await;
        match renewed {
            Ok(renewed) => {
                let renewed: HashSet<(String, String, i64)> = renewed.into_iter().collect();
                for Waiting { lease, done, .. } in waiting {
                    let Address { tenant, run } = lease.address;
                    let generation = read::signed(lease.generation.0);
                    let is = renewed.contains(&(tenant, run.to_string(), generation));
                    let _ = done.send(Ok(is));
                }
            }
            Err(error) => {
                let error = Arc::new(of(error));
                for Waiting { done, .. } in waiting {
                    let _ = done.send(Err(error.clone()));
                }
            }
        }
    }

    /// A run that has ended needs no lease; one of another worker is lost.
    async fn why_not_renewed(&self, lease: &Lease) -> Result<(), LeaseError> {
        match self.or_fenced(lease, 0).await {
            Err(LeaseError::Fenced { current }) if current == lease.generation => Ok(()),
            other => other,
        }
    }
}
