//! A journal in a directory, for a laptop: no service, and any number of processes.
//!
//! ```text
//! <root>/<digest of the tenant's name>/<run>/
//! ```
//!
//! One works on a run while others list, watch, pause or cancel it. They meet in
//! locks that the kernel drops when a process dies, and in the log itself: the
//! lease's generation is in it, so whoever appends has just read who may.
//!
//! An event is acknowledged after `fdatasync(2)`, or with the next one if it may wait;
//! a blob and a new run after their directories were written through as well.

mod blobs;
mod log;
mod run;
mod shelf;
mod trouble;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use belljar_domain::{RunId, Sequence};
use belljar_objects::Digest;
use futures_util::future::BoxFuture;

use self::shelf::Shelf;
use crate::blob::BlobRef;
use crate::error::{
    AppendError, BlobError, ClaimError, CreateError, Failure, LeaseError, ReadError, RequestError,
};
use crate::event::{ControlRequested, Event};
use crate::journal::{
    Address, Appended, ApprovalQuery, Created, Journal, Lease, ListQuery, Listed, NewEvent, NewRun,
    RunRow,
};
use crate::key::Key;
use crate::watch::Bells;

/// The directory of a run.
pub(crate) fn path_of(root: &Path, tenant: &str, run: &RunId) -> PathBuf {
    root.join(Digest::of(tenant.as_bytes()).to_string()).join(run.as_str())
}

/// Bytes of all runs of a tenant in a directory. What cannot be read counts nothing.
pub fn stored_run_bytes(root: &Path, tenant: &str) -> u64 {
    bytes_below(&root.join(Digest::of(tenant.as_bytes()).to_string()))
}

fn bytes_below(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes_below(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    });
    bytes.fold(0, u64::saturating_add)
}

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep runs in `{}`", path.display())]
pub struct OpenError {
    path: PathBuf,
    source: io::Error,
}

/// Runs in a directory; cheap to clone.
#[derive(Debug, Clone)]
pub struct Directory {
    shelf: Arc<Shelf>,
}

impl Directory {
    /// Makes the directory if need be. Only its owner can enter it.
    pub fn open(root: &Path) -> Result<Self, OpenError> {
        let wrong = |source| OpenError { path: root.to_owned(), source };
        Ok(Self { shelf: Arc::new(Shelf::open(root).map_err(wrong)?) })
    }

    /// Does what waits for disks and locks on a thread for that.
    fn blocking<T, E>(
        &self,
        work: impl FnOnce(&Shelf) -> Result<T, E> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, E>>
    where
        T: Send + 'static,
        E: From<Failure> + Send + 'static,
    {
        let shelf = self.shelf.clone();
        let done = tokio::task::spawn_blocking(move || work(&shelf));
        Box::pin(async move { done.await.map_err(Failure::new)? })
    }
}

impl Journal for Directory {
    fn create<'a>(&'a self, new: &'a NewRun) -> BoxFuture<'a, Result<Created, CreateError>> {
        let new = new.clone();
        self.blocking(move |shelf| shelf.create(&new))
    }

    fn find<'a>(&'a self, run: &'a Address) -> BoxFuture<'a, Result<RunRow, ReadError>> {
        let run = run.clone();
        self.blocking(move |shelf| shelf.row(&run))
    }

    fn list<'a>(&'a self, query: ListQuery<'a>) -> BoxFuture<'a, Result<Listed, ReadError>> {
        let (tenant, after) = (query.tenant.to_owned(), query.after.cloned());
        let (state, most) = (query.state, query.most);
        self.blocking(move |shelf| {
            shelf.list(&ListQuery { tenant: &tenant, state, after: after.as_ref(), most })
        })
    }

    fn claimable(&self, most: usize) -> BoxFuture<'_, Result<Vec<Address>, ReadError>> {
        self.blocking(move |shelf| shelf.claimable(most))
    }

    fn awaiting_approval<'a>(
        &'a self,
        query: ApprovalQuery<'a>,
    ) -> BoxFuture<'a, Result<Vec<Address>, ReadError>> {
        let tenant = query.tenant.map(str::to_owned);
        let (due, most) = (query.due, query.most);
        self.blocking(move |shelf| {
            shelf.awaiting_approval(&ApprovalQuery { tenant: tenant.as_deref(), due, most })
        })
    }

    fn claim<'a>(
        &'a self,
        run: &'a Address,
        owner: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Lease, ClaimError>> {
        let (run, owner) = (run.clone(), owner.to_owned());
        self.blocking(move |shelf| shelf.claim(run, owner, time))
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), LeaseError>> {
        let lease = lease.clone();
        self.blocking(move |shelf| shelf.renew(&lease, time))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), LeaseError>> {
        let lease = lease.clone();
        self.blocking(move |shelf| shelf.release(&lease))
    }

    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        event: NewEvent,
    ) -> BoxFuture<'a, Result<Appended, AppendError>> {
        let lease = lease.clone();
        self.blocking(move |shelf| shelf.append(&lease, event))
    }

    fn request<'a>(
        &'a self,
        run: &'a Address,
        request: ControlRequested,
        key: Option<Key>,
    ) -> BoxFuture<'a, Result<Appended, RequestError>> {
        let run = run.clone();
        self.blocking(move |shelf| shelf.request(&run, request, key))
    }

    fn read<'a>(
        &'a self,
        run: &'a Address,
        from: Sequence,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Event>, ReadError>> {
        let run = run.clone();
        self.blocking(move |shelf| shelf.read(&run, from, most))
    }

    fn put_blob<'a>(
        &'a self,
        run: &'a Address,
        content: Vec<u8>,
    ) -> BoxFuture<'a, Result<BlobRef, BlobError>> {
        let run = run.clone();
        self.blocking(move |shelf| shelf.put_blob(&run, &content))
    }

    fn get_blob<'a>(
        &'a self,
        run: &'a Address,
        blob: &'a BlobRef,
    ) -> BoxFuture<'a, Result<Vec<u8>, BlobError>> {
        let (run, blob) = (run.clone(), *blob);
        self.blocking(move |shelf| shelf.get_blob(&run, &blob))
    }

    fn keep_answer<'a>(
        &'a self,
        run: &'a Address,
        asked: Sequence,
        answer: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        let run = run.clone();
        self.blocking(move |shelf| {
            let kept = shelf.answers(&run).keep(&run.run, asked, &answer);
            kept.map_err(Failure::new)
        })
    }

    fn kept_answer<'a>(
        &'a self,
        run: &'a Address,
        asked: Sequence,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, ReadError>> {
        let run = run.clone();
        self.blocking(move |shelf| {
            let found = shelf.answers(&run).find(&run.run, asked);
            found.map_err(|error| ReadError::from(Failure::new(error)))
        })
    }

    fn forget_answer<'a>(
        &'a self,
        run: &'a Address,
        asked: Sequence,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        let run = run.clone();
        self.blocking(move |shelf| {
            shelf.answers(&run).forget(&run.run, asked).map_err(Failure::new)
        })
    }

    fn bells(&self) -> &Bells {
        self.shelf.bells()
    }
}
