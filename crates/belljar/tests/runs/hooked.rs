//! A journal that a case does something with at appends.

use std::time::Duration;

use belljar_domain::Sequence;
use belljar_journal::event::ControlRequested;
use belljar_journal::{
    Address, AppendError, Appended, ApprovalQuery, Bells, BlobError, BlobRef, ClaimError,
    CreateError, Created, Directory, Event, Failure, Journal, Key, Lease, LeaseError, ListQuery,
    Listed, NewEvent, NewRun, ReadError, RequestError, RunRow,
};
use futures_util::future::BoxFuture;

/// The things that are done at an append.
pub(crate) trait Hook: std::fmt::Debug + Send + Sync {
    fn before<'a>(
        &'a self,
        journal: &'a Directory,
        run: &'a Address,
        event: &'a NewEvent,
    ) -> BoxFuture<'a, ()>;

    fn after(&self) {}
}

#[derive(Debug)]
pub(crate) struct Hooked<H> {
    pub(crate) inner: Directory,
    pub(crate) hook: H,
}

impl<H: Hook> Journal for Hooked<H> {
    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        event: NewEvent,
    ) -> BoxFuture<'a, Result<Appended, AppendError>> {
        Box::pin(async move {
            self.hook.before(&self.inner, &lease.address, &event).await;
            let appended = self.inner.append(lease, event).await;
            self.hook.after();
            appended
        })
    }

    fn create<'a>(&'a self, new: &'a NewRun) -> BoxFuture<'a, Result<Created, CreateError>> {
        self.inner.create(new)
    }

    fn find<'a>(&'a self, run: &'a Address) -> BoxFuture<'a, Result<RunRow, ReadError>> {
        self.inner.find(run)
    }

    fn list<'a>(&'a self, query: ListQuery<'a>) -> BoxFuture<'a, Result<Listed, ReadError>> {
        self.inner.list(query)
    }

    fn claimable(&self, most: usize) -> BoxFuture<'_, Result<Vec<Address>, ReadError>> {
        self.inner.claimable(most)
    }

    fn awaiting_approval<'a>(
        &'a self,
        query: ApprovalQuery<'a>,
    ) -> BoxFuture<'a, Result<Vec<Address>, ReadError>> {
        self.inner.awaiting_approval(query)
    }

    fn claim<'a>(
        &'a self,
        run: &'a Address,
        owner: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Lease, ClaimError>> {
        self.inner.claim(run, owner, time)
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), LeaseError>> {
        self.inner.renew(lease, time)
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), LeaseError>> {
        self.inner.release(lease)
    }

    fn request<'a>(
        &'a self,
        run: &'a Address,
        request: ControlRequested,
        key: Option<Key>,
    ) -> BoxFuture<'a, Result<Appended, RequestError>> {
        self.inner.request(run, request, key)
    }

    fn read<'a>(
        &'a self,
        run: &'a Address,
        from: Sequence,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Event>, ReadError>> {
        self.inner.read(run, from, most)
    }

    fn put_blob<'a>(
        &'a self,
        run: &'a Address,
        content: Vec<u8>,
    ) -> BoxFuture<'a, Result<BlobRef, BlobError>> {
        self.inner.put_blob(run, content)
    }

    fn get_blob<'a>(
        &'a self,
        run: &'a Address,
        blob: &'a BlobRef,
    ) -> BoxFuture<'a, Result<Vec<u8>, BlobError>> {
        self.inner.get_blob(run, blob)
    }

    fn keep_answer<'a>(
        &'a self,
        run: &'a Address,
        asked: Sequence,
        answer: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        self.inner.keep_answer(run, asked, answer)
    }

    fn kept_answer<'a>(
        &'a self,
        run: &'a Address,
        asked: Sequence,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, ReadError>> {
        self.inner.kept_answer(run, asked)
    }

    fn forget_answer<'a>(
        &'a self,
        run: &'a Address,
        asked: Sequence,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        self.inner.forget_answer(run, asked)
    }

    fn bells(&self) -> &Bells {
        self.inner.bells()
    }
}
