//! Workers: claim a workflow, append what [`decide`] says, execute its open attempts.
//!
//! ```text
//!   claim ─► read ─► decide ─► append ─► open attempts ─► tasks
//!                      ▲                                    │ placed, ended
//!                      └────────────── append ◄─────────────┘
//! ```
//!
//! An event is appended before anything is done because of it. A worker that loses its lease
//! drops its tasks; the next one starts the same attempts under the same keys.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use belljar_journal::{Failure, WorkflowAppendError, WorkflowLease};
use time::OffsetDateTime;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};

use crate::decide::{StopSignals, decide, is_stopping};
use crate::record::{AttemptKey, Event};
use crate::service::{Signal, Workflows};
use crate::state::{State, StateError};
use crate::step::{Message, Work, inputs};

/// Time between two looks for workflows.
const LOOK: Duration = Duration::from_secs(1);
/// Time that a workflow is left alone after its worker failed.
const REST: Duration = Duration::from_secs(5);
/// Time for the removal of sandboxes at the end of a workflow.
const CLEANUP_TIME: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
enum DriveError {
    #[error("cannot read the workflow")]
    Read(#[source] Failure),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("cannot write an event")]
    Write(#[source] serde_json::Error),
    #[error(transparent)]
    Append(#[from] WorkflowAppendError),
    #[error("an attempt at a step panicked")]
    Panicked(#[source] JoinError),
}

impl Workflows {
    /// Works on workflows until `stop`, then gives back those that are under way.
    pub async fn work(&self, stop: impl Future<Output = ()>) {
        let at_once = self.settings().at_once;
        let (stopping, stopped) = watch::channel(false);
        let mut works: JoinSet<(String, bool)> = JoinSet::new();
        let mut of_tenants: HashMap<String, usize> = HashMap::new();
        let mut stop = std::pin::pin!(stop);
        let mut rest_until = None::<Instant>;
        if at_once == 0 {
            return;
        }
        loop {
            let rests = rest_until.is_some_and(|until| until > Instant::now());
            if works.len() < at_once && !rests {
                match self.claim_fairly(&of_tenants).await {
                    Ok(Some(lease)) => {
                        let tenant = lease.address.tenant.clone();
                        *of_tenants.entry(tenant.clone()).or_default() += 1;
                        let (workflows, stopped) = (self.clone(), stopped.clone());
                        works.spawn(async move {
                            (tenant, workflows.drive_and_release(&lease, stopped).await)
                        });
                        continue;
                    }
                    Ok(None) => {}
                    Err(error) => {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(error, "cannot look for workflows");
                    }
                }
            }
            tokio::select! {
                () = &mut stop => break,
                Some(done) = works.join_next() => match done {
                    Ok((tenant, is_well)) => {
                        if let Some(count) = of_tenants.get_mut(&tenant) {
                            *count = count.saturating_sub(1);
                        }
                        of_tenants.retain(|_, count| *count > 0);
                        if !is_well {
                            rest_until = Some(Instant::now() + REST);
                        }
                    }
                    Err(error) => tracing::error!(%error, "a workflow's worker panicked"),
                },
                () = self.rung() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            if works.is_empty() {
                of_tenants.clear();
            }
        }
        let _ = stopping.send(true);
        while works.join_next().await.is_some() {}
    }

    /// Works on one workflow until it is over, or until `stop`.
    pub async fn work_on(&self, tenant: &str, id: &str, stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            match self.claim(&[], Some(id)).await {
                Ok(Some(lease)) => {
                    // One that could not be worked on is tried again.
                    let _ = self.drive_and_release(&lease, stop.clone()).await;
                }
                Ok(None) => {
                    let found = self.find(tenant, id).await;
                    if found.is_ok_and(|it| it.is_none_or(|it| it.row.outcome.is_some())) {
                        return;
                    }
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "cannot look for workflows");
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Claims a workflow of a tenant that has less than a quarter of the places. If there is none,
    /// of one that leaves a place for other tenants.
    async fn claim_fairly(
        &self,
        of_tenants: &HashMap<String, usize>,
    ) -> Result<Option<WorkflowLease>, Failure> {
        let at_once = self.settings().at_once;
        let busy = |most: usize| -> Vec<String> {
            let busy = of_tenants.iter().filter(|(_, count)| **count >= most.max(1));
            busy.map(|(tenant, _)| tenant.clone()).collect()
        };
        let above_share = busy(at_once / 4);
        let lease = self.claim(&above_share, None).await?;
        if lease.is_some() || above_share.is_empty() {
            return Ok(lease);
        }
        self.claim(&busy(at_once.saturating_sub(1)), None).await
    }

    async fn claim(
        &self,
        busy: &[String],
        only: Option<&str>,
    ) -> Result<Option<WorkflowLease>, Failure> {
        let settings = self.settings();
        self.store().claim(&settings.owner, settings.lease, busy, only).await
    }

    /// Returns false if the workflow could not be worked on.
    async fn drive_and_release(&self, lease: &WorkflowLease, stop: watch::Receiver<bool>) -> bool {
        let driven = Box::pin(self.drive(lease, stop)).await;
        let released = self.store().release(lease).await;
        if let Err(error) = released {
            tracing::debug!(%error, "cannot release a workflow; its lease expires");
        }
        match driven {
            Ok(()) => true,
            Err(DriveError::Append(WorkflowAppendError::Fenced)) => true,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, workflow.id = lease.address.id, "a workflow is put off");
                false
            }
        }
    }

    async fn drive(
        &self,
        lease: &WorkflowLease,
        mut stop: watch::Receiver<bool>,
    ) -> Result<(), DriveError> {
        let record = self.store().read(&lease.address).await.map_err(DriveError::Read)?;
        let record = record.ok_or(WorkflowAppendError::Fenced)?;
        let made_at = record.row.made_at;
        let mut is_cancelled = record.row.is_cancelled;
        let mut driver = Driver::new(self, lease, State::of(&record.events)?);
        let mut renewal = tokio::time::interval(self.settings().lease / 3);
        renewal.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let signs = StopSignals { is_cancelled, is_late: driver.is_late(made_at) };
            loop {
                let events = decide(&driver.state, signs);
                if events.is_empty() {
                    break;
                }
                driver.append(events).await?;
            }
            if driver.state.ending.is_some() {
                driver.finish().await;
                return Ok(());
            }
            driver.stopping.send_if_modified(|is| {
                let before = std::mem::replace(is, is_stopping(&driver.state, signs));
                before != *is
            });
            driver.start_open_attempts();
            tokio::select! {
                Some(message) = driver.messages.recv() => driver.record(message).await?,
                Some(done) = driver.tasks.join_next() => done.map_err(DriveError::Panicked)?,
                _ = renewal.tick() => {
                    is_cancelled = self.store().renew(lease, self.settings().lease).await?;
                }
                () = stopped(&mut stop) => return Ok(()),
            }
        }
    }
}

/// Resolves when the worker is told to stop, or is gone.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|is| *is).await;
}

/// A workflow under a lease.
struct Driver<'w> {
    workflows: &'w Workflows,
    lease: &'w WorkflowLease,
    state: State,
    sender: mpsc::Sender<Message>,
    messages: mpsc::Receiver<Message>,
    tasks: JoinSet<()>,
    started: HashSet<AttemptKey>,
    stopping: watch::Sender<bool>,
}

impl<'w> Driver<'w> {
    fn new(workflows: &'w Workflows, lease: &'w WorkflowLease, state: State) -> Self {
        let (sender, messages) = mpsc::channel(64);
        let (tasks, started) = (JoinSet::new(), HashSet::new());
        let stopping = watch::channel(false).0;
        Self { workflows, lease, state, sender, messages, tasks, started, stopping }
    }

    /// Lets attempts that are over remove their sandboxes.
    async fn finish(&mut self) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        // A sandbox that is not removed ends at its deadline.
        let _ = tokio::time::timeout(CLEANUP_TIME, all).await;
    }

    fn is_late(&self, made_at: OffsetDateTime) -> bool {
        let Some(wall_ms) = self.state.definition.budget.wall_ms else { return false };
        let passed = OffsetDateTime::now_utc() - made_at;
        passed.whole_milliseconds() >= i128::from(wall_ms)
    }

    /// Appends events in one write, and applies them.
    async fn append(&mut self, events: Vec<Event>) -> Result<(), DriveError> {
        let texts: Result<Vec<_>, _> = events.iter().map(serde_json::to_string).collect();
        let outcome = events.iter().find_map(|event| match event {
            Event::Ended { outcome, .. } => Some(outcome.as_str()),
            _ => None,
        });
        let texts = texts.map_err(DriveError::Write)?;
        self.workflows.store().append(self.lease, &texts, outcome).await?;
        belljar_fault::point("workflow.appended");
        self.state.bytes += texts.iter().map(String::len).sum::<usize>();
        for event in events {
            match &event {
                Event::StepEnded(ended) => {
                    let kind = self.state.definition.steps.get(&ended.key.step);
                    let kind = kind.map_or("", |step| step.kind.as_str());
                    self.workflows.signal(Signal::Step { kind, outcome: ended.outcome.as_str() });
                }
                Event::Ended { outcome, .. } => {
                    self.workflows.signal(Signal::Workflow { outcome: outcome.as_str() });
                }
                _ => {}
            }
            self.state.apply(event);
        }
        Ok(())
    }

    async fn record(&mut self, message: Message) -> Result<(), DriveError> {
        self.append(vec![message.event]).await?;
        // An attempt whose task is gone needs no answer.
        let _ = message.recorded.send(());
        Ok(())
    }

    fn start_open_attempts(&mut self) {
        let open: Vec<_> = self.state.open_attempts().cloned().collect();
        for attempt in open {
            let started = &attempt.started;
            let Some(step) = self.state.definition.steps.get(&started.key.step).cloned() else {
                continue;
            };
            if !self.started.insert(started.key.clone()) {
                continue;
            }
            let tenant = self.lease.address.tenant.clone();
            let work = Work {
                workflow: self.lease.address.id.clone(),
                client: self.workflows.client(&tenant, &self.state.caps),
                files: self.workflows.files().clone(),
                inputs: inputs(&self.state, &step, started),
                tenant,
                step,
                attempt,
                messages: self.sender.clone(),
                stop: self.stopping.subscribe(),
            };
            self.tasks.spawn(work.execute());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::Arc;

    use belljar_client::Client;
    use belljar_domain::OperationCaps;
    use belljar_journal::{NewWorkflow, WorkflowAddress, WorkflowDirectory};
    use bytes::Bytes;
    use futures_util::future::BoxFuture;

    use super::*;
    use crate::service::{FileError, FileStore, Parts, Settings};

    #[derive(Debug)]
    struct NoFiles;

    impl FileStore for NoFiles {
        fn put<'a>(&'a self, _: &'a str, _: Bytes) -> BoxFuture<'a, Result<String, FileError>> {
            Box::pin(async { Err(FileError("there are no files".to_owned())) })
        }

        fn get<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<Bytes, FileError>> {
            Box::pin(async { Err(FileError("there are no files".to_owned())) })
        }
    }

    fn workflows(directory: &Path) -> Workflows {
        let store = WorkflowDirectory::open(directory).unwrap();
        let client = |_: &str, _: &OperationCaps| -> Client { panic!("no step is executed") };
        let parts = Parts {
            store: Arc::new(store),
            files: Arc::new(NoFiles),
            clients: Box::new(client),
            signal: Box::new(|_| {}),
        };
        Workflows::new(parts, Settings::default())
    }

    async fn create(workflows: &Workflows, tenant: &str, number: u32) -> String {
        let id = format!("wf_{number:032x}");
        let definition = "name = \"n\"\n[steps.s]\nkind = \"call\"\ncall = { script = \"true\" }";
        let first = Event::Created {
            v: 1,
            definition: definition.to_owned(),
            inputs: BTreeMap::new(),
            caps: OperationCaps::default(),
            request: String::new(),
        };
        let first = serde_json::to_string(&first).unwrap();
        let address = WorkflowAddress { tenant: tenant.to_owned(), id: id.clone() };
        let new = NewWorkflow { address, name: "n".to_owned(), first, most_unfinished: 100 };
        workflows.store().create(&new).await.unwrap();
        id
    }

    #[tokio::test]
    async fn a_tenant_that_waits_comes_before_two_with_many_workflows() {
        let directory = tempfile::tempdir().unwrap();
        let workflows = workflows(directory.path());
        for number in 0..8 {
            create(&workflows, "a", number).await;
        }
        create(&workflows, "b", 8).await;
        create(&workflows, "c", 9).await;
        let of_tenants = |counts: &[(&str, usize)]| -> HashMap<String, usize> {
            counts.iter().map(|(tenant, count)| ((*tenant).to_owned(), *count)).collect()
        };
        let claim = async |counts: HashMap<String, usize>| {
            let lease = workflows.claim_fairly(&counts).await.unwrap();
            lease.map(|lease| lease.address.tenant)
        };
        assert_eq!(claim(of_tenants(&[("a", 1)])).await.as_deref(), Some("a"));
        assert_eq!(claim(of_tenants(&[("a", 4), ("b", 3)])).await.as_deref(), Some("c"));
        assert_eq!(claim(of_tenants(&[("a", 2)])).await.as_deref(), Some("b"));
        // The places of tenants without further workflows are used.
        assert_eq!(claim(of_tenants(&[("a", 6), ("b", 1)])).await.as_deref(), Some("a"));
        assert_eq!(claim(of_tenants(&[("a", 7), ("b", 1)])).await, None);
    }

    #[tokio::test]
    async fn appended_events_count_as_if_they_were_read() {
        let directory = tempfile::tempdir().unwrap();
        let workflows = workflows(directory.path());
        let id = create(&workflows, "a", 1).await;
        let lease = workflows.claim(&[], None).await.unwrap().unwrap();
        let read = async || {
            let record = workflows.find("a", &id).await.unwrap().unwrap();
            State::of(&record.events).unwrap()
        };
        let before = read().await;
        let bytes = before.bytes;
        let mut driver = Driver::new(&workflows, &lease, before);
        let refused = Event::StepRefused { step: "s".to_owned(), error: "x".repeat(1000) };
        driver.append(vec![refused]).await.unwrap();
        assert!(driver.state.bytes > bytes + 1000);
        assert_eq!(driver.state, read().await);
    }
}
