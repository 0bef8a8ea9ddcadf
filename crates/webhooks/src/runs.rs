//! Runs of one server: a journal that announces what happens to them.
//!
//! The announcement follows the event. A server that is killed in between announces it at its
//! next start: see [`AnnouncedJournal::recover`]. Messages have ids made of the run and the
//! event's number, so that an event is announced once.

use std::sync::Arc;
use std::time::Duration;

use belljar_domain::Sequence;
use belljar_journal::event::{ControlRequested, PausePoint};
use belljar_journal::{
    Address, AppendError, Appended, ApprovalQuery, Bells, BlobError, BlobRef, Body, ClaimError,
    CreateError, Created, Event, Failure, First, Journal, Key, Lease, LeaseError, ListQuery,
    Listed, NewEvent, NewRun, ReadError, RequestError, RunRow, State,
};
use futures_util::future::BoxFuture;
use time::OffsetDateTime;

use crate::directory::Directory;
use crate::event::{EventKind, Message};

/// Runs of a tenant that are looked at after a restart, the newest first.
const MAX_RECOVERED: usize = 1000;
/// Events at the end of a run that are looked at.
const TAIL: u64 = 20;

/// A journal whose lifecycle events are announced; cheap to clone.
#[derive(Debug, Clone)]
pub struct AnnouncedJournal {
    journal: Arc<dyn Journal>,
    shelf: Directory,
}

/// The kind of the announcement of an event, and the outcome of a run that ended.
fn announcement(body: &Body) -> Option<(EventKind, Option<&'static str>)> {
    match body {
        Body::RunCreated(_) | Body::ForkedFrom(_) => Some((EventKind::RunCreated, None)),
        Body::Paused(paused) => match paused.at {
            Some(PausePoint::Question { .. } | PausePoint::Approval { .. }) => {
                Some((EventKind::RunWaiting, None))
            }
            _ => Some((EventKind::RunPaused, None)),
        },
        Body::Resumed(_) => Some((EventKind::RunResumed, None)),
        Body::Finished(finished) => Some((EventKind::RunEnded, Some(finished.outcome.as_str()))),
        _ => None,
    }
}

fn message(run: &Address, seq: Sequence, at: OffsetDateTime, body: &Body) -> Option<Message> {
    let (kind, outcome) = announcement(body)?;
    let id = run.run.as_str();
    let data = Message::of_run(id, outcome);
    Some(Message::new(format!("msg_{id}_{}", seq.0), kind, at, data))
}

impl AnnouncedJournal {
    pub fn new(journal: Arc<dyn Journal>, shelf: Directory) -> Self {
        Self { journal, shelf }
    }

    async fn announce(&self, run: &Address, seq: Sequence, body: &Body) {
        if let Some(message) = message(run, seq, OffsetDateTime::now_utc(), body) {
            self.shelf.announce_durably(run.tenant.clone(), message).await;
        }
    }

    /// Announces what the last server wrote down and could not announce any more.
    pub async fn recover(&self) -> Result<(), ReadError> {
        let since = self.shelf.written_before();
        for tenant in self.shelf.tenants() {
            let query =
                ListQuery { tenant: &tenant, state: None, after: None, most: MAX_RECOVERED };
            for row in self.journal.list(query).await?.rows {
                let from = Sequence(row.head.0.saturating_sub(TAIL).max(1));
                let most = usize::try_from(TAIL).unwrap_or(0) + 1;
                let events = self.journal.read(&row.address, from, most).await?;
                // Events of the run that it was forked from come first.
                let own = events.iter().rposition(|it| matches!(it.body, Body::ForkedFrom(_)));
                for event in events.iter().skip(own.unwrap_or(0)).filter(|it| it.at >= since) {
                    let found = message(&row.address, event.seq, event.at, &event.body);
                    if let Some(message) = found {
                        self.shelf.announce_durably(tenant.clone(), message).await;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Journal for AnnouncedJournal {
    fn create<'a>(&'a self, new: &'a NewRun) -> BoxFuture<'a, Result<Created, CreateError>> {
        Box::pin(async move {
            let created = self.journal.create(new).await?;
            if matches!(created, Created::Made) {
                let seq = match &new.first {
                    First::Created(_) => Sequence(1),
                    First::Forked(forked) => forked.after.next(),
                };
                self.announce(&new.address, seq, &new.first.body()).await;
            }
            Ok(created)
        })
    }

    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        event: NewEvent,
    ) -> BoxFuture<'a, Result<Appended, AppendError>> {
        Box::pin(async move {
            let body = announcement(&event.body).map(|_| event.body.clone());
            let appended = self.journal.append(lease, event).await?;
            if let Some(body) = body {
                self.announce(&lease.address, appended.seq(), &body).await;
            }
            Ok(appended)
        })
    }

    fn find<'a>(&'a self, run: &'a Address) -> BoxFuture<'a, Result<RunRow, ReadError>> {
        self.journal.find(run)
    }

    fn list<'a>(&'a self, query: ListQuery<'a>) -> BoxFuture<'a, Result<Listed, ReadError>> {
        self.journal.list(query)
    }

    fn count<'a>(&'a self, tenant: &'a str, state: State) -> BoxFuture<'a, Result<u64, ReadError>> {
        self.journal.count(tenant, state)
    }

    fn claimable(&self, most: usize) -> BoxFuture<'_, Result<Vec<Address>, ReadError>> {
        self.journal.claimable(most)
    }

    fn awaiting_approval<'a>(
        &'a self,
        query: ApprovalQuery<'a>,
    ) -> BoxFuture<'a, Result<Vec<Address>, ReadError>> {
        self.journal.awaiting_approval(query)
    }

    fn claim<'a>(
        &'a self,
        run: &'a Address,
        owner: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Lease, ClaimError>> {
        self.journal.claim(run, owner, time)
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), LeaseError>> {
        self.journal.renew(lease, time)
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), LeaseError>> {
        self.journal.release(lease)
    }

    fn request<'a>(
        &'a self,
        run: &'a Address,
        request: ControlRequested,
        key: Option<Key>,
    ) -> BoxFuture<'a, Result<Appended, RequestError>> {
        self.journal.request(run, request, key)
    }

    fn read<'a>(
        &'a self,
        run: &'a Address,
        from: Sequence,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Event>, ReadError>> {
        self.journal.read(run, from, most)
    }

    fn put_blob<'a>(
        &'a self,
        run: &'a Address,
        content: Vec<u8>,
    ) -> BoxFuture<'a, Result<BlobRef, BlobError>> {
        self.journal.put_blob(run, content)
    }

    fn get_blob<'a>(
        &'a self,
        run: &'a Address,
        blob: &'a BlobRef,
    ) -> BoxFuture<'a, Result<Vec<u8>, BlobError>> {
        self.journal.get_blob(run, blob)
    }

    fn keep_answer<'a>(
        &'a self,
        run: &'a Address,
        asked: Sequence,
        answer: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        self.journal.keep_answer(run, asked, answer)
    }

    fn kept_answer<'a>(
        &'a self,
        run: &'a Address,
        asked: Sequence,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, ReadError>> {
        self.journal.kept_answer(run, asked)
    }

    fn forget_answer<'a>(
        &'a self,
        run: &'a Address,
        asked: Sequence,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        self.journal.forget_answer(run, asked)
    }

    fn answer_grace(&self) -> Duration {
        self.journal.answer_grace()
    }

    fn bells(&self) -> &Bells {
        self.journal.bells()
    }
}

#[cfg(test)]
mod tests;
