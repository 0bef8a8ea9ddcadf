//! Webhooks of one server: in memory, and in a log that outlives the server.
//!
//! Each line of the log is one record; the last one of a webhook or a message counts. One thread
//! writes the log. A line is written through (`fdatasync(2)`) before it counts in memory and before
//! a change is acknowledged. A server that starts reads the log, skips what is damaged, and
//! rewrites it without what is over.

mod log;
mod state;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use time::OffsetDateTime;

use self::log::Log;
use self::state::State;
use self::writer::{Submitter, lock};
use crate::event::Message;
use crate::shelf::{
    Claimed, DeliveryRecord, NewWebhook, Outcome, QueueOutcome, Shelf, ShelfError, Webhook,
};
use crate::sign::Secret;

/// An event was announced at most so long after it was written down.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(60);

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
    state: Arc<Mutex<State>>,
    writer: Submitter,
    written_before: OffsetDateTime,
}

impl Inner {
    fn open(root: &Path) -> io::Result<Self> {
        let (lines, written) = Log::read(root)?;
        let mut state = State::default();
        lines.into_iter().for_each(|line| state.apply(line));
        let log = Log::write_anew(root, &state.lines())?;
        let state = Arc::new(Mutex::new(state));
        let writer = Submitter::start(state.clone(), log)?;
        let written_before = written.unwrap_or_else(OffsetDateTime::now_utc) - ANNOUNCED_WITHIN;
        Ok(Self { state, writer, written_before })
    }
}

impl Directory {
    /// Makes the directory if need be. Only its owner can read the log: it has secrets.
    pub fn open(root: &Path) -> Result<Self, OpenError> {
        let opened = Inner::open(root);
        let inner = opened.map_err(|source| OpenError { path: root.to_owned(), source })?;
        Ok(Self(Arc::new(inner)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    /// Tenants that have webhooks.
    pub(crate) fn tenants(&self) -> Vec<String> {
        self.state().tenants()
    }

    /// A time before which the last server announced all events.
    pub(crate) fn written_before(&self) -> OffsetDateTime {
        self.0.written_before
    }

    /// Queues a message for each webhook of the tenant that wants its kind. Does not wait for the
    /// disk: see [`Self::flush`].
    pub fn announce(&self, tenant: String, message: Message) {
        let plan = move |state: &State| state.announce(&tenant, &message);
        self.0.writer.submit_and_log(|writer| writer.change(plan));
    }

    /// The same, and waits until the messages are on the disk.
    pub(crate) async fn announce_durably(&self, tenant: String, message: Message) {
        let plan = move |state: &State| state.announce(&tenant, &message);
        if let Err(error) = self.0.writer.submit(|writer| writer.change(plan)).await {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "cannot write webhook messages");
        }
    }

    /// Waits until all that was announced is on the disk.
    pub async fn flush(&self) {
        let _ = self.0.writer.submit(|_| Ok(())).await;
    }

    fn change<T: Send + 'static>(
        &self,
        plan: impl FnOnce(&State) -> state::Plan<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, ShelfError>> {
        self.0.writer.submit(|writer| writer.change(plan))
    }
}

impl Shelf for Directory {
    fn add<'a>(
        &'a self,
        new: &'a NewWebhook,
    ) -> BoxFuture<'a, Result<Option<Webhook>, ShelfError>> {
        let new = new.clone();
        self.change(move |state| state.add(new))
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
        self.change(move |state| state.remove(&tenant, &id))
    }

    fn rotate<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
        secret: &'a Secret,
        keep: Duration,
    ) -> BoxFuture<'a, Result<Option<Webhook>, ShelfError>> {
        let (tenant, id, secret) = (tenant.to_owned(), id.to_owned(), secret.clone());
        self.change(move |state| state.rotate(&tenant, &id, secret, keep))
    }

    fn enable<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Webhook>, ShelfError>> {
        let (tenant, id) = (tenant.to_owned(), id.to_owned());
        self.change(move |state| state.enable(&tenant, &id))
    }

    fn queue<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
        message: &'a Message,
    ) -> BoxFuture<'a, Result<QueueOutcome, ShelfError>> {
        let (tenant, id, message) = (tenant.to_owned(), id.to_owned(), message.clone());
        self.change(move |state| state.queue(&tenant, &id, &message))
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
        self.change(move |state| state.settle(number, attempt, &outcome))
    }

    fn waiting(&self) -> BoxFuture<'_, Result<(u64, Duration), ShelfError>> {
        let waiting = self.state().waiting();
        Box::pin(async move { Ok(waiting) })
    }

    fn sweep(&self) -> BoxFuture<'_, Result<(), ShelfError>> {
        self.change(State::sweep)
    }

    fn forget(&self, longer_ago: Duration) -> BoxFuture<'_, Result<(), ShelfError>> {
        self.state().forget(longer_ago);
        // The log is rewritten after a job, if it has become too long.
        self.0.writer.submit(|_| Ok(()))
    }
}

#[cfg(test)]
mod tests;
