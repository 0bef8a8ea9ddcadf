//! The thread that writes the log of a server's webhooks.
//!
//! Jobs come one after the other. The lock on the state is held while a change is planned and
//! while it is applied, and never while the disk is waited for.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::log::Log;
use super::state::{Plan, State};
use crate::shelf::ShelfError;

/// Jobs that wait for the disk.
const MAX_JOBS: usize = 10_000;
/// Lines of the log beyond what is alive, before the log is rewritten.
const SLACK: usize = 10_000;

type Job = Box<dyn FnOnce(&mut Writer) + Send>;

/// The disk is too slow, or the thread ended.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("{MAX_JOBS} changes wait for the disk")]
    Full,
    #[error("the thread that writes the log ended")]
    Ended,
    #[error("cannot write the log")]
    Log(#[source] io::Error),
}

/// The only one that changes what the log has.
#[derive(Debug)]
pub(super) struct Writer {
    state: Arc<Mutex<State>>,
    log: Log,
    /// The length of the log at which it is rewritten.
    rewrite_at: usize,
}

impl Writer {
    /// Plans a change, writes it, and then applies it. If the write fails, nothing has changed.
    pub(super) fn change<T>(&mut self, plan: impl FnOnce(&State) -> Plan<T>) -> io::Result<T> {
        let (lines, value) = plan(&lock(&self.state));
        if !lines.is_empty() {
            self.log.append(&lines)?;
            let mut state = lock(&self.state);
            lines.into_iter().for_each(|line| state.apply(line));
        }
        Ok(value)
    }

    /// Rewrites the log without what is over, if that is much.
    fn compact(&mut self) {
        let state = lock(&self.state);
        let size = state.size();
        if self.log.lines() <= self.rewrite_at.max(size + SLACK) {
            return;
        }
        let lines = state.lines();
        drop(state);
        match self.log.rewrite(&lines) {
            Ok(()) => self.rewrite_at = 0,
            Err(error) => {
                tracing::warn!(%error, "cannot rewrite the log of webhooks");
                self.rewrite_at = self.log.lines() + SLACK;
            }
        }
    }

    fn run(mut self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            job(&mut self);
            self.compact();
        }
    }
}

pub(super) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The way to the writer. Dropped: what was submitted is written first.
#[derive(Debug)]
pub(super) struct Submitter {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Submitter {
    pub(super) fn start(state: Arc<Mutex<State>>, log: Log) -> io::Result<Self> {
        let (jobs, received) = sync_channel(MAX_JOBS);
        let writer = Writer { state, log, rewrite_at: 0 };
        let thread = std::thread::Builder::new().name("webhooks".to_owned());
        let thread = thread.spawn(move || writer.run(&received))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Submits a change at once. The future ends when it is on the disk.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, ShelfError>> {
        let (done, result) = oneshot::channel();
        let job: Job = Box::new(move |writer| {
            let _ = done.send(work(writer));
        });
        let sent = match self.jobs.as_ref().map(|jobs| jobs.try_send(job)) {
            Some(Ok(())) => Ok(()),
            Some(Err(TrySendError::Full(_))) => Err(WriteError::Full),
            Some(Err(TrySendError::Disconnected(_))) | None => Err(WriteError::Ended),
        };
        Box::pin(async move {
            sent.map_err(ShelfError::new)?;
            let result = result.await.map_err(|_| ShelfError::new(WriteError::Ended))?;
            result.map_err(|error| ShelfError::new(WriteError::Log(error)))
        })
    }

    /// Submits a change and does not wait. A failure is logged.
    pub(super) fn submit_and_log(
        &self,
        work: impl FnOnce(&mut Writer) -> io::Result<()> + Send + 'static,
    ) {
        let job: Job = Box::new(move |writer| {
            if let Err(error) = work(writer) {
                tracing::error!(%error, "cannot write webhook messages");
            }
        });
        if self.jobs.as_ref().is_none_or(|jobs| jobs.try_send(job).is_err()) {
            tracing::error!("webhook messages dropped: too many changes wait for the disk");
        }
    }
}

impl Drop for Submitter {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
