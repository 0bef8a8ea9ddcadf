//! Transcripts of runs: the journal of a platform.
//!
//! An append is one statement: the run's row is moved on, if it is still under the
//! writer's lease, and the event gets the number that came of it. No lock is held
//! over a round trip, and a writer whose lease has passed on writes nothing. Events that a worker
//! gathered are appended by one statement too, and leases are renewed by one for all of a process:
//! a commit is what costs.
//!
//! Nobody is notified by the database: `notify` makes every commit queue for one
//! lock. Whoever watches looks again, sooner if somebody rings.

mod answers;
mod append;
mod approvals;
mod blobs;
mod claimable;
mod create;
mod gathered;
mod lease;
mod look;
mod money;
mod renew;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar_domain::{RunId, Sequence};
use belljar_journal::event::ControlRequested;
use belljar_journal::{
    Address, AnswerFolder, AppendError, Appended, AppendedAll, ApprovalQuery, Batch, Bells,
    BlobError, BlobRef, Body, ClaimError, ClaimQuery, CreateError, Created, Event, Failure,
    Journal, Key, Lease, LeaseError, ListQuery, Listed, NewEvent, NewRun, ReadError, RequestError,
    ReservedMoney, RunRow, State, rules,
};
use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::Store;
use crate::error::{StoreError, of};

/// Runs in PostgreSQL; cheap to clone.
#[derive(Debug, Clone)]
pub struct Runs {
    store: Store,
    bells: Arc<Bells>,
    renewals: Arc<renew::Renewals>,
    /// Writes of workers at the same time. Thousands of workers share a few connections: those that
    /// wait must not take the connections of requests, nor run into the pool's timeout.
    writers: Arc<Semaphore>,
    /// The tenant after which the next search for unclaimed runs begins.
    last_tenant: Arc<Mutex<String>>,
    /// The place of answers whose events are not written yet.
    answers: Option<AnswerFolder>,
}

impl Store {
    /// The transcripts. Those who watch hear each other's writes through one handle
    /// only, so there should be one in a process.
    pub fn runs(&self) -> Runs {
        // One connection in four is left for requests.
        let writers = (self.max_connections() as usize * 3 / 4).max(1);
        Runs {
            store: self.clone(),
            bells: Arc::default(),
            renewals: Arc::default(),
            writers: Arc::new(Semaphore::new(writers)),
            last_tenant: Arc::default(),
            answers: None,
        }
    }
}

impl Runs {
    /// Waits until a worker may write, first come, first served. None: the semaphore is never
    /// closed, so there is always one.
    async fn writer(&self) -> Option<SemaphorePermit<'_>> {
        self.writers.acquire().await.ok()
    }
}

/// The database did not do it.
fn failed(error: sqlx::Error) -> Failure {
    Failure::new(of(error))
}

fn unreadable(error: StoreError) -> Failure {
    Failure::new(error)
}

impl Journal for Runs {
    fn create<'a>(&'a self, new: &'a NewRun) -> BoxFuture<'a, Result<Created, CreateError>> {
        Box::pin(self.make(new))
    }

    fn find<'a>(&'a self, run: &'a Address) -> BoxFuture<'a, Result<RunRow, ReadError>> {
        Box::pin(self.row(run))
    }

    fn list<'a>(&'a self, query: ListQuery<'a>) -> BoxFuture<'a, Result<Listed, ReadError>> {
        Box::pin(self.rows(query))
    }

    fn count<'a>(&'a self, tenant: &'a str, state: State) -> BoxFuture<'a, Result<u64, ReadError>> {
        Box::pin(self.number_of(tenant, state))
    }

    fn count_unfinished<'a>(&'a self, tenant: &'a str) -> BoxFuture<'a, Result<u64, ReadError>> {
        Box::pin(self.number_unfinished(tenant))
    }

    fn reserved_money<'a>(
        &'a self,
        tenant: &'a str,
        except: Option<&'a RunId>,
    ) -> BoxFuture<'a, Result<ReservedMoney, ReadError>> {
        Box::pin(self.reserved(tenant, except))
    }

    fn claimable(&self, most: usize) -> BoxFuture<'_, Result<Vec<Address>, ReadError>> {
        self.claimable_for(ClaimQuery { most, except: &[], expired: true })
    }

    fn claimable_for<'a>(
        &'a self,
        query: ClaimQuery<'a>,
    ) -> BoxFuture<'a, Result<Vec<Address>, ReadError>> {
        Box::pin(self.wanted(query))
    }

    fn awaiting_approval<'a>(
        &'a self,
        query: ApprovalQuery<'a>,
    ) -> BoxFuture<'a, Result<Vec<Address>, ReadError>> {
        Box::pin(self.with_approvals(query))
    }

    fn claim<'a>(
        &'a self,
        run: &'a Address,
        owner: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Lease, ClaimError>> {
        Box::pin(async move {
            let writer = self.writer().await;
            let lease = self.take(run, owner, time).await?;
            drop(writer);
            self.bells.ring(&run.run);
            Ok(lease)
        })
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), LeaseError>> {
        Box::pin(self.renew_with_others(lease, time))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), LeaseError>> {
        Box::pin(async move {
            // A process that stops gives all of its runs back at once.
            let _writer = self.writer().await;
            self.give_back(lease).await
        })
    }

    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        event: NewEvent,
    ) -> BoxFuture<'a, Result<Appended, AppendError>> {
        Box::pin(async move {
            let stored = rules::check(&event)?;
            let _writer = self.writer().await;
            let done = self.write(&lease.address, Some(lease.generation), &event, &stored).await?;
            self.bells.ring(&lease.address.run);
            Ok(done)
        })
    }

    fn append_all<'a>(
        &'a self,
        lease: &'a Lease,
        batch: Batch,
        seen: Option<Sequence>,
    ) -> BoxFuture<'a, Result<AppendedAll, AppendError>> {
        Box::pin(async move {
            let _writer = self.writer().await;
            let done = self.write_all(lease, batch, seen).await?;
            self.bells.ring(&lease.address.run);
            Ok(done)
        })
    }

    fn releases_at_end(&self) -> bool {
        true
    }

    fn request<'a>(
        &'a self,
        run: &'a Address,
        request: ControlRequested,
        key: Option<Key>,
    ) -> BoxFuture<'a, Result<Appended, RequestError>> {
        Box::pin(async move {
            let event = NewEvent {
                body: Body::ControlRequested(request),
                key,
                seen: None,
                may_wait: false,
            };
            let stored = rules::store(&event.body)?.ok_or(RequestError::TooLarge)?;
            let done = self.write(run, None, &event, &stored).await;
            self.bells.ring(&run.run);
            done.map_err(|error| match error {
                AppendError::NoRun => RequestError::NoRun,
                AppendError::Finished => RequestError::Finished,
                AppendError::TooLarge => RequestError::TooLarge,
                AppendError::Failed(failure) => RequestError::Failed(failure),
                // Nothing else is asked of a writer without a lease.
                other => RequestError::Failed(Failure::new(other)),
            })
        })
    }

    fn read<'a>(
        &'a self,
        run: &'a Address,
        from: Sequence,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Event>, ReadError>> {
        Box::pin(self.events(run, from, most))
    }

    fn put_blob<'a>(
        &'a self,
        run: &'a Address,
        content: Vec<u8>,
    ) -> BoxFuture<'a, Result<BlobRef, BlobError>> {
        Box::pin(self.put(run, content))
    }

    fn get_blob<'a>(
        &'a self,
        run: &'a Address,
        blob: &'a BlobRef,
    ) -> BoxFuture<'a, Result<Vec<u8>, BlobError>> {
        Box::pin(self.get(run, blob))
    }

    fn keep_answer<'a>(
        &'a self,
        run: &'a Address,
        asked: Sequence,
        answer: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(self.keep_own_answer(run, asked, answer))
    }

    fn kept_answer<'a>(
        &'a self,
        run: &'a Address,
        asked: Sequence,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, ReadError>> {
        Box::pin(self.find_answer(run, asked))
    }

    fn forget_answer<'a>(
        &'a self,
        run: &'a Address,
        asked: Sequence,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(self.forget_own_answer(run, asked))
    }

    fn answer_grace(&self) -> Duration {
        answers::GRACE
    }

    fn bells(&self) -> &Bells {
        &self.bells
    }
}
