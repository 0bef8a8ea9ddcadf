//! What every journal does, wherever it keeps its events.
//!
//! ```text
//!   create ──► waiting ──claim──► running ──paused──► paused
//!                                    ▲  │                │ resume asked for,
//!                                    └──┼───resumed──────┘ then claimed
//!                                       └──finished──► finished   (for good)
//! ```
//!
//! Invariants, each shown by the suite in `tests/journals` on every journal:
//!
//! - Sequences have no gap, and what was acknowledged is there after a crash.
//! - Only the newest lease appends. The holder of an older one is fenced at its
//!   next word.
//! - Of two events with one key there is the first.
//! - A run of another tenant does not exist.
//! - After `finished` nothing follows.

use std::fmt;
use std::time::Duration;

use belljar_domain::{Generation, RunId, Sequence};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::blob::BlobRef;
use crate::error::{
    AppendError, BlobError, ClaimError, CreateError, Failure, LeaseError, ReadError, RequestError,
};
use crate::event::{Body, ControlRequested, Event, ForkedFrom, RunCreated};
use crate::key::Key;
use crate::watch::Bells;

/// Which run, and whose: a run is never found by its id alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Address {
    pub tenant: String,
    pub run: RunId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nobody has worked on it yet.
    Waiting,
    /// Somebody works on it, or should.
    Running,
    Paused,
    Finished,
}

impl State {
    pub const ALL: [Self; 4] = [Self::Waiting, Self::Running, Self::Paused, Self::Finished];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Finished => "finished",
        }
    }

    /// What a run is after this event, as far as the event alone decides.
    /// The kind says it all, so a body that is elsewhere need not be fetched for it.
    pub fn after(kind: &str) -> Option<Self> {
        match kind {
            "run_created" | "forked_from" => Some(Self::Waiting),
            "paused" => Some(Self::Paused),
            "resumed" => Some(Self::Running),
            "finished" => Some(Self::Finished),
            _ => None,
        }
    }
}

/// A run that is to be.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    pub address: Address,
    pub first: First,
    /// Refuses the run while its tenant has this many unfinished ones; none: any number. The count
    /// and the creation are one step.
    pub most_unfinished: Option<u64>,
}

/// Where a run begins.
#[derive(Debug, Clone, PartialEq)]
pub enum First {
    Created(RunCreated),
    /// After an event of another run of the same tenant.
    Forked(ForkedFrom),
}

impl First {
    pub fn body(&self) -> Body {
        match self {
            Self::Created(created) => Body::RunCreated(created.clone()),
            Self::Forked(forked) => Body::ForkedFrom(forked.clone()),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Created {
    Made,
    /// It was made before; this is how it began. Whoever asked decides whether
    /// that is the same.
    Already(Box<Event>),
}

/// A run, from afar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    #[serde(flatten)]
    pub address: Address,
    pub state: State,
    pub head: Sequence,
    pub generation: Generation,
    /// Who has it, or had it last and did not give it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub lease_until: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    pub made_at: OffsetDateTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The beginning of the question.
    pub title: String,
}

/// Whose events come before a run's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    pub run: RunId,
    pub after: Sequence,
}

/// What a list shows: newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct ListQuery<'a> {
    pub tenant: &'a str,
    /// Only those; none: all.
    pub state: Option<State>,
    /// Those that come after it.
    pub after: Option<&'a Page>,
    pub most: usize,
}

/// A place in a list. What is made later comes before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    #[serde(with = "time::serde::rfc3339")]
    pub made_at: OffsetDateTime,
    pub run: RunId,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    pub rows: Vec<RunRow>,
    /// Where the next part begins; none: this was the last.
    pub next: Option<Page>,
}

/// Selects runs for a worker.
#[derive(Debug, Clone, Copy)]
pub struct ClaimQuery<'a> {
    pub most: usize,
    /// Runs that this worker leaves alone for now.
    pub except: &'a [RunId],
    /// Also returns runs whose worker did not renew its lease. A journal that finds those as easily
    /// as the others always returns them.
    pub expired: bool,
}

/// Selects runs whose tool calls wait for an approval.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalQuery<'a> {
    /// None: of all tenants.
    pub tenant: Option<&'a str>,
    /// Only those whose time is over by then.
    pub due: Option<OffsetDateTime>,
    pub most: usize,
}

/// Money that unfinished runs may still spend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReservedMoney {
    pub nano_dollars: u64,
    /// Runs that are not in the sum: only their transcripts say it.
    pub unread: Vec<Address>,
}

/// The right to append. It is a number, not an object: whoever says the newest
/// number may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub address: Address,
    pub generation: Generation,
    pub owner: String,
    /// The event that says so.
    pub taken: Sequence,
}

/// Something to be written down.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    pub body: Body,
    pub key: Option<Key>,
    /// Only if this is the last event: nothing has happened since the writer looked.
    pub seen: Option<Sequence>,
    /// Whether it may wait for the next one that may not: nothing is done outside of
    /// the log before. Who dies loses nothing of it; a machine that does may lose it,
    /// and then all that came after it.
    pub may_wait: bool,
}

impl NewEvent {
    /// Under its natural key, if it has one.
    pub fn new(body: impl Into<Body>) -> Self {
        let body = body.into();
        let key = Key::natural(&body);
        Self { body, key, seen: None, may_wait: false }
    }

    #[must_use]
    pub fn keyed(self, key: &str) -> Self {
        Self { key: Some(Key::new(key)), ..self }
    }

    /// Says that it [may wait](Self::may_wait).
    #[must_use]
    pub fn waiting(self) -> Self {
        Self { may_wait: true, ..self }
    }

    #[must_use]
    pub fn seen(self, head: Sequence) -> Self {
        Self { seen: Some(head), ..self }
    }
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    Fresh(Sequence),
    /// It has been there since then: an earlier attempt did arrive.
    Repeated(Sequence),
}

impl Appended {
    pub fn seq(self) -> Sequence {
        match self {
            Self::Fresh(seq) | Self::Repeated(seq) => seq,
        }
    }

    /// The last event for a writer that had seen everything up to `seen` before this one. Fails if
    /// another event came before this one, which was there already.
    pub fn head_after(self, seen: Sequence) -> Result<Sequence, AppendError> {
        match self {
            Self::Fresh(seq) => Ok(seq),
            Self::Repeated(seq) if seq <= seen => Ok(seen),
            // An earlier attempt of the same writer came so far.
            Self::Repeated(seq) if seq == seen.next() => Ok(seq),
            Self::Repeated(head) => Err(AppendError::Unseen { head }),
        }
    }
}

/// Several events, and contents that they name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    pub events: Vec<NewEvent>,
    /// Each is kept as a blob of the run.
    pub blobs: Vec<Vec<u8>>,
}

impl From<Vec<NewEvent>> for Batch {
    fn from(events: Vec<NewEvent>) -> Self {
        Self { events, blobs: Vec::new() }
    }
}

/// The outcome of several.
#[derive(Debug, Clone, PartialEq)]
pub struct AppendedAll {
    /// The last one of them.
    pub last: Sequence,
    /// All of them, as they are now in the log; none: that has to be read.
    pub events: Option<Vec<Event>>,
}

/// Where transcripts are kept.
pub trait Journal: fmt::Debug + Send + Sync {
    /// Makes a run with its first event.
    fn create<'a>(&'a self, new: &'a NewRun) -> BoxFuture<'a, Result<Created, CreateError>>;

    /// A run of a tenant, from afar.
    fn find<'a>(&'a self, run: &'a Address) -> BoxFuture<'a, Result<RunRow, ReadError>>;

    fn list<'a>(&'a self, query: ListQuery<'a>) -> BoxFuture<'a, Result<Listed, ReadError>>;

    /// How many runs of a tenant are in a state.
    fn count<'a>(&'a self, tenant: &'a str, state: State) -> BoxFuture<'a, Result<u64, ReadError>> {
        const PART: usize = 1000;
        Box::pin(async move {
            let (mut count, mut after) = (0, None);
            loop {
                let state = Some(state);
                let query = ListQuery { tenant, state, after: after.as_ref(), most: PART };
                let listed = self.list(query).await?;
                count += listed.rows.len() as u64;
                after = listed.next;
                if after.is_none() {
                    return Ok(count);
                }
            }
        })
    }

    /// The number of a tenant's runs that are not over.
    fn count_unfinished<'a>(&'a self, tenant: &'a str) -> BoxFuture<'a, Result<u64, ReadError>> {
        Box::pin(async move {
            let mut count = 0;
            for state in State::ALL {
                if state != State::Finished {
                    count += self.count(tenant, state).await?;
                }
            }
            Ok(count)
        })
    }

    /// Money that the unfinished runs of a tenant may still spend, one run left out if named. A
    /// journal without sums names the runs whose transcripts have to be read.
    fn reserved_money<'a>(
        &'a self,
        tenant: &'a str,
        except: Option<&'a RunId>,
    ) -> BoxFuture<'a, Result<ReservedMoney, ReadError>> {
        const PART: usize = 1000;
        Box::pin(async move {
            let mut unread = Vec::new();
            for state in State::ALL.into_iter().filter(|state| *state != State::Finished) {
                let mut after = None;
                loop {
                    let state = Some(state);
                    let query = ListQuery { tenant, state, after: after.as_ref(), most: PART };
                    let listed = self.list(query).await?;
                    let found = listed.rows.into_iter().map(|row| row.address);
                    unread.extend(found.filter(|address| Some(&address.run) != except));
                    after = listed.next;
                    if after.is_none() {
                        break;
                    }
                }
            }
            Ok(ReservedMoney { nano_dollars: 0, unread })
        })
    }

    /// Runs of any tenant that need a worker. Tenants take turns: the oldest run of each, then the
    /// second oldest of each.
    fn claimable(&self, most: usize) -> BoxFuture<'_, Result<Vec<Address>, ReadError>>;

    /// The same, without the runs that the worker leaves alone.
    fn claimable_for<'a>(
        &'a self,
        query: ClaimQuery<'a>,
    ) -> BoxFuture<'a, Result<Vec<Address>, ReadError>> {
        Box::pin(async move {
            let mut found = self.claimable(query.most.saturating_add(query.except.len())).await?;
            found.retain(|address| !query.except.contains(&address.run));
            found.truncate(query.most);
            Ok(found)
        })
    }

    /// Paused runs whose tool calls wait for an approval. The decision may have come: only the
    /// transcript says that.
    fn awaiting_approval<'a>(
        &'a self,
        query: ApprovalQuery<'a>,
    ) -> BoxFuture<'a, Result<Vec<Address>, ReadError>>;

    /// Takes a run that nobody has, or whose lease has ended, for so long. The
    /// generation grows, and [`LeaseTaken`](crate::event::LeaseTaken) is written.
    fn claim<'a>(
        &'a self,
        run: &'a Address,
        owner: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Lease, ClaimError>>;

    /// Keeps it for so long from now.
    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), LeaseError>>;

    /// Gives it back, so that whoever comes next does not take it for a crash.
    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), LeaseError>>;

    /// Writes down what the holder of the lease did. Acknowledged: it is there
    /// whatever happens, and all before it; unless it [may
    /// wait](NewEvent::may_wait).
    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        event: NewEvent,
    ) -> BoxFuture<'a, Result<Appended, AppendError>>;

    /// Writes several events down, in this order; in one step, where the journal can. With `seen`,
    /// only if that is the last event: nothing has happened since the writer looked.
    ///
    /// After an error, the first of them may be written.
    fn append_all<'a>(
        &'a self,
        lease: &'a Lease,
        batch: Batch,
        seen: Option<Sequence>,
    ) -> BoxFuture<'a, Result<AppendedAll, AppendError>> {
        Box::pin(async move {
            for content in batch.blobs {
                self.put_blob(&lease.address, content).await?;
            }
            let (mut last, mut seen) = (seen.unwrap_or_default(), seen);
            for event in batch.events {
                let event = NewEvent { seen: event.seen.or(seen), ..event };
                let appended = self.append(lease, event).await?;
                last = appended.seq();
                seen = seen.map(|seen| appended.head_after(seen)).transpose()?;
            }
            Ok(AppendedAll { last, events: None })
        })
    }

    /// Returns true if the last event of a run gives its lease back: nothing is left to release.
    fn releases_at_end(&self) -> bool {
        false
    }

    /// Writes down what somebody outside wants. Needs no lease.
    fn request<'a>(
        &'a self,
        run: &'a Address,
        request: ControlRequested,
        key: Option<Key>,
    ) -> BoxFuture<'a, Result<Appended, RequestError>>;

    /// Up to `most` events from `from` on, those of its parents included.
    fn read<'a>(
        &'a self,
        run: &'a Address,
        from: Sequence,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Event>, ReadError>>;

    /// Keeps what is too long for an event. It lives as long as the run.
    fn put_blob<'a>(
        &'a self,
        run: &'a Address,
        content: Vec<u8>,
    ) -> BoxFuture<'a, Result<BlobRef, BlobError>>;

    /// What has this name, in the run or in those that it was forked from; proven.
    fn get_blob<'a>(
        &'a self,
        run: &'a Address,
        blob: &'a BlobRef,
    ) -> BoxFuture<'a, Result<Vec<u8>, BlobError>>;

    /// Keeps a model's answer until its event is written, so that it outlives this process: a
    /// provider is not asked twice for what it has answered. `asked` is the number of the request.
    fn keep_answer<'a>(
        &'a self,
        run: &'a Address,
        asked: Sequence,
        answer: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), Failure>>;

    /// The answer that a worker kept, and died or failed before it wrote the event.
    fn kept_answer<'a>(
        &'a self,
        run: &'a Address,
        asked: Sequence,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, ReadError>>;

    /// Removes a kept answer: its event is written.
    fn forget_answer<'a>(
        &'a self,
        run: &'a Address,
        asked: Sequence,
    ) -> BoxFuture<'a, Result<(), Failure>>;

    /// The time after which an answer that another process kept can be found here; zero if all of
    /// them are in one place.
    fn answer_grace(&self) -> Duration {
        Duration::ZERO
    }

    /// Who waits for news in this process.
    fn bells(&self) -> &Bells;
}

/// The whole transcript.
pub async fn read_all(journal: &dyn Journal, run: &Address) -> Result<Vec<Event>, ReadError> {
    const PART: usize = 500;
    let mut events: Vec<Event> = Vec::new();
    loop {
        let from = Sequence(events.len() as u64 + 1);
        let part = journal.read(run, from, PART).await?;
        let is_last = part.len() < PART;
        events.extend(part);
        if is_last {
            return Ok(events);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_event_is_where_the_writer_would_have_put_it() {
        let seen = Sequence(5);
        let after = |appended: Appended| appended.head_after(seen).ok();
        assert_eq!(after(Appended::Fresh(Sequence(6))), Some(Sequence(6)));
        assert_eq!(after(Appended::Repeated(Sequence(3))), Some(seen));
        assert_eq!(after(Appended::Repeated(Sequence(6))), Some(Sequence(6)));
        assert_eq!(after(Appended::Repeated(Sequence(7))), None);
    }
}
