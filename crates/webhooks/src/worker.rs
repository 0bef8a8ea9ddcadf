//! The worker that sends messages: claims what is due, sends it, records the result.
//!
//! Any number of workers may share a shelf. One that dies keeps its claims until their leases
//! end; then another worker sends those messages, perhaps a second time.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use tokio::task::JoinSet;

use crate::shelf::{CLAIMED_OF_TENANT, Claimed, DisabledReason, Outcome, ShelfError};
use crate::sign::random_number;
use crate::webhooks::{Inner, Webhooks};

/// Messages that one worker sends at the same time.
const AT_ONCE: usize = 64;
/// Messages of one tenant among those.
const AT_ONCE_OF_TENANT: usize = AT_ONCE / 8;
/// Longer than an attempt can take, and its record.
const LEASE: Duration = Duration::from_secs(45);
const LOOK_AT_QUEUE: Duration = Duration::from_secs(5);
const TIDY: Duration = Duration::from_secs(600);

/// News for metrics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Signal {
    /// An attempt ended: `delivered`, `retried` or `failed`.
    Attempt(&'static str),
    Queue {
        waiting: u64,
        oldest: Duration,
    },
}

impl Webhooks {
    /// Sends messages for ever. Dropped: what is being sent is sent again after its lease.
    pub async fn work(&self) {
        let inner = self.inner().clone();
        let mut sending: JoinSet<String> = JoinSet::new();
        let mut of_tenants: BTreeMap<String, usize> = BTreeMap::new();
        let (mut looked, mut tidied) = (None::<Instant>, None::<Instant>);
        loop {
            while let Some(done) = sending.try_join_next() {
                if let Ok(tenant) = done {
                    release(&mut of_tenants, &tenant);
                }
            }
            if sending.is_empty() {
                // A task that panicked gave nothing back.
                of_tenants.clear();
            }
            let claimed = match inner.claim(AT_ONCE - sending.len(), &of_tenants).await {
                Ok(claimed) => claimed,
                Err(error) => {
                    warn(&error);
                    Vec::new()
                }
            };
            let is_idle = claimed.is_empty();
            for message in claimed {
                *of_tenants.entry(message.tenant.clone()).or_default() += 1;
                let inner = inner.clone();
                sending.spawn(async move {
                    inner.attempt(&message).await;
                    message.tenant
                });
            }
            if looked.is_none_or(|at| at.elapsed() >= LOOK_AT_QUEUE) {
                looked = Some(Instant::now());
                inner.look_at_queue().await;
            }
            if tidied.is_none_or(|at| at.elapsed() >= TIDY) {
                tidied = Some(Instant::now());
                let forgotten = inner.shelf.forget(inner.settings.retention).await;
                let _ = forgotten.inspect_err(warn);
            }
            if is_idle || sending.len() >= AT_ONCE {
                tokio::time::sleep(inner.settings.poll).await;
            }
        }
    }
}

fn release(of_tenants: &mut BTreeMap<String, usize>, tenant: &str) {
    if let Some(count) = of_tenants.get_mut(tenant) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            of_tenants.remove(tenant);
        }
    }
}

fn warn(error: &ShelfError) {
    tracing::warn!(error = error as &dyn std::error::Error, "webhook store request failed");
}

impl Inner {
    async fn claim(
        &self,
        most: usize,
        of_tenants: &BTreeMap<String, usize>,
    ) -> Result<Vec<Claimed>, ShelfError> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let is_busy = |count: usize| count + CLAIMED_OF_TENANT > AT_ONCE_OF_TENANT;
        let busy = of_tenants.iter().filter(|(_, count)| is_busy(**count));
        let busy: Vec<_> = busy.map(|(tenant, _)| tenant.clone()).collect();
        self.shelf.claim(most, &busy, LEASE).await
    }

    async fn look_at_queue(&self) {
        let _ = self.shelf.sweep().await.inspect_err(warn);
        match self.shelf.waiting().await {
            Ok((waiting, oldest)) => (self.signal)(Signal::Queue { waiting, oldest }),
            Err(error) => warn(&error),
        }
    }

    async fn attempt(&self, claimed: &Claimed) {
        let sent = if claimed.attempt > self.settings.schedule.attempts {
            // The worker of the last attempt died before it recorded the result.
            Err((None, "the sender stopped during the last attempt".to_owned()))
        } else {
            let sent = self.sender.send(&claimed.url, &claimed.secrets, &claimed.message).await;
            match sent {
                Ok(status) if (200..300).contains(&status) => Ok(status),
                Ok(status) => Err((Some(status), format!("the receiver answered {status}"))),
                Err(error) => {
                    tracing::debug!(
                        webhook.message = claimed.message.id,
                        cause = error.source(),
                        "webhook attempt failed: {error}"
                    );
                    Err((None, error.to_string()))
                }
            }
        };
        let outcome = match sent {
            Ok(status) => Outcome::Delivered { status },
            Err((status, error)) => self.failed(claimed, status, error),
        };
        match self.shelf.settle(claimed, &outcome).await {
            Ok(()) => (self.signal)(Signal::Attempt(result(&outcome))),
            Err(error) => warn(&error),
        }
    }

    fn failed(&self, claimed: &Claimed, status: Option<u16>, error: String) -> Outcome {
        let failing = claimed.failing_since.map(|since| OffsetDateTime::now_utc() - since);
        let disable = if status == Some(410) {
            Some(DisabledReason::Gone)
        } else if failing.is_some_and(|failing| failing > self.settings.patience) {
            Some(DisabledReason::Failing)
        } else {
            None
        };
        let retry_in = self.settings.schedule.wait_after(claimed.attempt, random_number());
        Outcome::Failed { status, error, retry_in, disable }
    }
}

fn result(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Delivered { .. } => "delivered",
        Outcome::Failed { retry_in: Some(_), .. } => "retried",
        Outcome::Failed { retry_in: None, .. } => "failed",
    }
}
