//! Webhooks of one server: in memory, and in a log that outlives the server.
//!
//! Each line of the log is one record; the last one of a webhook or a message counts. A line is
//! written through (`fdatasync(2)`) before a change is acknowledged. A server that starts reads the
//! log, drops a torn last line, and writes it anew without what is over.

mod log;
mod state;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use time::OffsetDateTime;

use self::state::State;
use crate::event::Message;
use crate::shelf::{Claimed, DeliveryRecord, NewWebhook, Outcome, Shelf, ShelfError, Webhook};
use crate::sign::Secret;

/// The log cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep webhooks in `{}`", path.display())]
pub struct OpenError {
    path: PathBuf,
    source: io::Error,
}

/// Webhooks in a directory; cheap to clone. One process has it at a time.
#[derive(Debug, Clone)]
pub struct Directory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    written_before: OffsetDateTime,
}

impl Directory {
    /// Makes the directory if need be. Only its owner can read the log: it has secrets.
    pub fn open(root: &Path) -> Result<Self, OpenError> {
        let (state, written_before) =
            State::open(root).map_err(|source| OpenError { path: root.to_owned(), source })?;
        Ok(Self(Arc::new(Inner { state: Mutex::new(state), written_before })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tenants that have webhooks.
    pub(crate) fn tenants(&self) -> Vec<String> {
        self.state().tenants()
    }

    /// A time before which the last server announced all events.
    pub(crate) fn written_before(&self) -> OffsetDateTime {
        self.0.written_before
    }

    /// Queues a message for each webhook of the tenant that wants its kind. Waits for the disk.
    pub fn announce(&self, tenant: &str, message: &Message) {
        if let Err(error) = self.state().announce(tenant, message) {
            tracing::error!(%error, "cannot write webhook messages");
        }
    }

    /// The same on a thread for that.
    pub(crate) async fn announce_later(&self, tenant: String, message: Message) {
        let directory = self.clone();
        let done = tokio::task::spawn_blocking(move || directory.announce(&tenant, &message));
        let _ = done.await;
    }

    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut State) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, ShelfError>> {
        let directory = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&mut directory.state()));
        Box::pin(async move { done.await.map_err(ShelfError::new)?.map_err(ShelfError::new) })
    }
}

impl Shelf for Directory {
    fn add<'a>(
        &'a self,
        new: &'a NewWebhook,
    ) -> BoxFuture<'a, Result<Option<Webhook>, ShelfError>> {
        let new = new.clone();
        self.blocking(move |state| state.add(new))
    }

    fn list<'a>(&'a self, tenant: &'a str) -> BoxFuture<'a, Result<Vec<Webhook>, ShelfError>> {
        let found = self.state().list(tenant);
        Box::pin(async move { Ok(found) })
    }

    fn remove<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<bool, ShelfError>> {
        let (tenant, id) = (tenant.to_owned(), id.to_owned());
        self.blocking(move |state| state.remove(&tenant, &id))
    }

    fn rotate<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
        secret: &'a Secret,
        keep: Duration,
    ) -> BoxFuture<'a, Result<Option<Webhook>, ShelfError>> {
        let (tenant, id, secret) = (tenant.to_owned(), id.to_owned(), secret.clone());
        self.blocking(move |state| state.rotate(&tenant, &id, secret, keep))
    }

    fn enable<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Webhook>, ShelfError>> {
        let (tenant, id) = (tenant.to_owned(), id.to_owned());
        self.blocking(move |state| state.enable(&tenant, &id))
    }

    fn queue<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
        message: &'a Message,
    ) -> BoxFuture<'a, Result<Option<DeliveryRecord>, ShelfError>> {
        let (tenant, id, message) = (tenant.to_owned(), id.to_owned(), message.clone());
        self.blocking(move |state| state.queue(&tenant, &id, &message))
    }

    fn deliveries<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
        most: usize,
    ) -> BoxFuture<'a, Result<Option<Vec<DeliveryRecord>>, ShelfError>> {
        let found = self.state().deliveries(tenant, id, most);
        Box::pin(async move { Ok(found) })
    }

    fn claim<'a>(
        &'a self,
        most: usize,
        busy: &'a [String],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Vec<Claimed>, ShelfError>> {
        let claimed = self.state().claim(most, busy, lease);
        Box::pin(async move { Ok(claimed) })
    }

    fn settle<'a>(
        &'a self,
        claimed: &'a Claimed,
        outcome: &'a Outcome,
    ) -> BoxFuture<'a, Result<(), ShelfError>> {
        let (number, attempt, outcome) = (claimed.number, claimed.attempt, outcome.clone());
        self.blocking(move |state| state.settle(number, attempt, &outcome))
    }

    fn waiting(&self) -> BoxFuture<'_, Result<(u64, Duration), ShelfError>> {
        let waiting = self.state().waiting();
        Box::pin(async move { Ok(waiting) })
    }

    fn forget(&self, longer_ago: Duration) -> BoxFuture<'_, Result<(), ShelfError>> {
        self.blocking(move |state| state.forget(longer_ago))
    }
}

#[cfg(test)]
mod tests;
