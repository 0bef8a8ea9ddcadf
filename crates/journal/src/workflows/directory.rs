//! Workflows in a directory: one file each, one line for each write, synced before it is answered.
//!
//! ```text
//! <directory>/<wf_…>.jsonl     {"made":…}  {"claimed":1}  {"events":[…]}  {"cancelled":true}
//! ```
//!
//! The lease is a lock on the file. It ends with the process that holds it, so a killed worker's
//! workflows can be claimed at once. A torn last line was never acknowledged, and is skipped.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{
    NewWorkflow, WorkflowAddress, WorkflowAppendError, WorkflowCreated, WorkflowLease,
    WorkflowRecord, WorkflowRow, WorkflowStore,
};
use crate::error::Failure;

/// Workflows in a directory; cheap to clone.
#[derive(Debug, Clone)]
pub struct WorkflowDirectory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// Claimed workflows.
    held: Mutex<HashMap<String, Held>>,
    /// Workflows that are over.
    over: Mutex<HashSet<String>>,
    /// Workflows that could not be read, and are in the log.
    unreadable: Mutex<HashSet<String>>,
    /// Creations are counted one after the other.
    creating: Mutex<()>,
}

/// A claimed workflow: nothing but the holder of its lock appends events.
#[derive(Debug)]
struct Held {
    tenant: String,
    generation: u64,
    events: u64,
    /// Locked.
    file: File,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Made {
        tenant: String,
        name: String,
        #[serde(with = "time::serde::rfc3339")]
        at: OffsetDateTime,
        first: String,
    },
    Claimed(u64),
    Events {
        /// The number of events before these.
        after: u64,
        events: Vec<String>,
        outcome: Option<String>,
    },
    Cancelled(bool),
}

/// A file that was read.
struct Content {
    tenant: String,
    generation: u64,
    record: WorkflowRecord,
}

impl WorkflowDirectory {
    /// Opens a directory, and makes it if need be.
    pub fn open(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        let path = path.to_owned();
        let (held, over, creating) = (Mutex::default(), Mutex::default(), Mutex::default());
        let unreadable = Mutex::default();
        Ok(Self(Arc::new(Inner { path, held, over, unreadable, creating })))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Inner) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let inner = self.0.clone();
        let done = tokio::task::spawn_blocking(move || act(&inner)).await;
        done.map_err(Failure::new)?.map_err(Failure::new)
    }
}

fn damaged(id: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the record of workflow {id} is damaged"))
}

fn is_id(id: &str) -> bool {
    let digits = id.strip_prefix("wf_").unwrap_or_default();
    digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Writes a line as a whole, on a line of its own even after a torn one, and syncs it.
fn write_line(file: &mut File, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line).map_err(io::Error::other)?;
    let length = file.seek(SeekFrom::End(0))?;
    if length > 0 {
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            text.insert(0, b'\n');
        }
    }
    text.push(b'\n');
    file.write_all(&text)?;
    file.sync_data()
}

impl Inner {
    fn file(&self, id: &str) -> PathBuf {
        self.path.join(format!("{id}.jsonl"))
    }

    fn open_file(&self, id: &str) -> io::Result<Option<File>> {
        if !is_id(id) {
            return Ok(None);
        }
        match OpenOptions::new().read(true).append(true).open(self.file(id)) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn content(&self, id: &str) -> io::Result<Option<Content>> {
        let Some(mut file) = self.open_file(id)? else { return Ok(None) };
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let mut content = None;
        for line in text.split(|byte| *byte == b'\n') {
            // A torn line was never acknowledged, and may end within a character. A lost one shows
            // in `after`.
            let Ok(line) = serde_json::from_slice(line) else { continue };
            match (line, &mut content) {
                (Line::Made { tenant, name, at, first }, None) => {
                    let row = WorkflowRow {
                        id: id.to_owned(),
                        name,
                        made_at: at,
                        events: 1,
                        is_cancelled: false,
                        outcome: None,
                    };
                    let record = WorkflowRecord { row, events: vec![first] };
                    content = Some(Content { tenant, generation: 0, record });
                }
                (Line::Claimed(generation), Some(content)) => content.generation = generation,
                (Line::Cancelled(_), Some(content)) => content.record.row.is_cancelled = true,
                (Line::Events { after, events, outcome }, Some(content)) => {
                    if after != content.record.row.events {
                        return Err(damaged(id));
                    }
                    content.record.row.events += events.len() as u64;
                    content.record.events.extend(events);
                    content.record.row.outcome = outcome;
                }
                _ => return Err(damaged(id)),
            }
        }
        content.map(Some).ok_or_else(|| damaged(id))
    }

    /// The same among many. One that cannot be read does not stop the others.
    fn content_if_readable(&self, id: &str) -> Option<Content> {
        let content = self.content(id);
        let mut unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        match content {
            Ok(content) => {
                unreadable.remove(id);
                content
            }
            Err(error) => {
                if unreadable.insert(id.to_owned()) {
                    tracing::error!(%error, workflow.id = id, "workflow record cannot be read");
                }
                None
            }
        }
    }

    fn of(&self, address: &WorkflowAddress) -> io::Result<Option<Content>> {
        Ok(self.content(&address.id)?.filter(|content| content.tenant == address.tenant))
    }

    /// All workflows, the oldest first.
    fn all(&self) -> io::Result<Vec<Content>> {
        let mut all = Vec::new();
        for id in self.ids()? {
            all.extend(self.content_if_readable(&id));
        }
        all.sort_by(|a, b| {
            let key =
                |content: &Content| (content.record.row.made_at, content.record.row.id.clone());
            key(a).cmp(&key(b))
        });
        Ok(all)
    }

    /// The ids of unfinished workflows, with their tenants, the oldest first. A workflow that is
    /// over is read once.
    fn unfinished(&self) -> io::Result<Vec<(String, String)>> {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::new();
        for id in self.ids()? {
            if over.contains(&id) {
                continue;
            }
            let Some(Content { tenant, record, .. }) = self.content_if_readable(&id) else {
                continue;
            };
            if record.row.outcome.is_some() {
                over.insert(id);
            } else {
                found.push((record.row.made_at, id, tenant));
            }
        }
        found.sort();
        Ok(found.into_iter().map(|(_, id, tenant)| (id, tenant)).collect())
    }

    fn ids(&self) -> io::Result<Vec<String>> {
        let mut ids = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
            ids.extend(id.map(str::to_owned));
        }
        Ok(ids)
    }

    fn create(&self, new: &NewWorkflow) -> io::Result<WorkflowCreated> {
        let _creating = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        let NewWorkflow { address, name, first, most_unfinished } = new;
        if !is_id(&address.id) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the id of a workflow"));
        }
        if let Some(content) = self.content(&address.id)? {
            let first = content.record.events.into_iter().next();
            return first.map(WorkflowCreated::Already).ok_or_else(|| damaged(&address.id));
        }
        let unfinished = self.unfinished()?;
        let own = unfinished.iter().filter(|(_, tenant)| *tenant == address.tenant);
        if own.count() as u64 >= *most_unfinished {
            return Ok(WorkflowCreated::TooMany);
        }
        let made = Line::Made {
            tenant: address.tenant.clone(),
            name: name.clone(),
            at: OffsetDateTime::now_utc(),
            first: first.clone(),
        };
        let mut fresh = tempfile::NamedTempFile::new_in(&self.path)?;
        write_line(fresh.as_file_mut(), &made)?;
        fresh.persist_noclobber(self.file(&address.id)).map_err(|error| error.error)?;
        File::open(&self.path)?.sync_all()?;
        Ok(WorkflowCreated::Made)
    }

    fn claim(&self, busy: &[String], only: Option<&str>) -> io::Result<Option<WorkflowLease>> {
        for (id, tenant) in self.unfinished()? {
            let is_other = only.is_some_and(|only| only != id);
            if busy.contains(&tenant) || is_other {
                continue;
            }
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(mut file) = self.open_file(&id)? else { continue };
            if held.contains_key(&id) || file.try_lock().is_err() {
                continue;
            }
            // It may have ended before the lock was ours.
            let now = self.content_if_readable(&id);
            let now = now.filter(|now| now.record.row.outcome.is_none());
            let Some(now) = now else { continue };
            let generation = now.generation + 1;
            write_line(&mut file, &Line::Claimed(generation))?;
            let events = now.record.row.events;
            held.insert(id.clone(), Held { tenant: tenant.clone(), generation, events, file });
            let address = WorkflowAddress { tenant, id };
            return Ok(Some(WorkflowLease { address, generation }));
        }
        Ok(None)
    }

    /// Returns false if the lease is not held any more.
    fn append(
        &self,
        lease: &WorkflowLease,
        events: Vec<String>,
        outcome: Option<String>,
    ) -> io::Result<bool> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let id = &lease.address.id;
        let Some(claim) = held.get_mut(id) else { return Ok(false) };
        if claim.generation != lease.generation || claim.tenant != lease.address.tenant {
            return Ok(false);
        }
        let (is_last, after) = (outcome.is_some(), claim.events);
        let count = events.len() as u64;
        let written = write_line(&mut claim.file, &Line::Events { after, events, outcome });
        claim.events += count;
        // After an error it is not known what is in the file: the next claim reads it.
        if is_last || written.is_err() {
            held.remove(id);
        }
        written.map(|()| true)
    }

    fn release(&self, lease: &WorkflowLease) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.get(&lease.address.id).is_some_and(|held| held.generation == lease.generation) {
            held.remove(&lease.address.id);
        }
    }

    fn cancel(&self, address: &WorkflowAddress) -> io::Result<bool> {
        let found = self.of(address)?.filter(|content| content.record.row.outcome.is_none());
        let (Some(_), Some(mut file)) = (found, self.open_file(&address.id)?) else {
            return Ok(false);
        };
        write_line(&mut file, &Line::Cancelled(true))?;
        Ok(true)
    }
}

impl WorkflowStore for WorkflowDirectory {
    fn create<'a>(
        &'a self,
        new: &'a NewWorkflow,
    ) -> BoxFuture<'a, Result<WorkflowCreated, Failure>> {
        let new = new.clone();
        Box::pin(self.blocking(move |inner| inner.create(&new)))
    }

    fn read<'a>(
        &'a self,
        address: &'a WorkflowAddress,
    ) -> BoxFuture<'a, Result<Option<WorkflowRecord>, Failure>> {
        let address = address.clone();
        Box::pin(self.blocking(move |inner| Ok(inner.of(&address)?.map(|found| found.record))))
    }

    fn list<'a>(
        &'a self,
        tenant: &'a str,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<WorkflowRow>, Failure>> {
        let tenant = tenant.to_owned();
        Box::pin(self.blocking(move |inner| {
            let all = inner.all()?.into_iter().rev().filter(|found| found.tenant == tenant);
            Ok(all.take(most).map(|found| found.record.row).collect())
        }))
    }

    fn append<'a>(
        &'a self,
        lease: &'a WorkflowLease,
        events: &'a [String],
        outcome: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), WorkflowAppendError>> {
        let (lease, events) = (lease.clone(), events.to_vec());
        let outcome = outcome.map(str::to_owned);
        Box::pin(async move {
            match self.blocking(move |inner| inner.append(&lease, events, outcome)).await? {
                true => Ok(()),
                false => Err(WorkflowAppendError::Fenced),
            }
        })
    }

    fn cancel<'a>(&'a self, address: &'a WorkflowAddress) -> BoxFuture<'a, Result<bool, Failure>> {
        let address = address.clone();
        Box::pin(self.blocking(move |inner| inner.cancel(&address)))
    }

    fn claim<'a>(
        &'a self,
        _: &'a str,
        _: Duration,
        busy: &'a [String],
        only: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<WorkflowLease>, Failure>> {
        let (busy, only) = (busy.to_vec(), only.map(str::to_owned));
        Box::pin(self.blocking(move |inner| inner.claim(&busy, only.as_deref())))
    }

    fn renew<'a>(
        &'a self,
        lease: &'a WorkflowLease,
        _: Duration,
    ) -> BoxFuture<'a, Result<bool, WorkflowAppendError>> {
        let address = lease.address.clone();
        Box::pin(async move {
            let found = self.blocking(move |inner| inner.of(&address)).await?;
            found.map(|found| found.record.row.is_cancelled).ok_or(WorkflowAppendError::Fenced)
        })
    }

    fn release<'a>(&'a self, lease: &'a WorkflowLease) -> BoxFuture<'a, Result<(), Failure>> {
        let lease = lease.clone();
        Box::pin(self.blocking(move |inner| {
            inner.release(&lease);
            Ok(())
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(tenant: &str, digit: char) -> NewWorkflow {
        let id = format!("wf_{}", digit.to_string().repeat(32));
        let address = WorkflowAddress { tenant: tenant.to_owned(), id };
        let (name, first) = ("report".to_owned(), "{}".to_owned());
        NewWorkflow { address, name, first, most_unfinished: 2 }
    }

    const LEASE: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn a_workflow_has_one_worker_and_survives_its_death() {
        let directory = tempfile::tempdir().unwrap();
        let store = WorkflowDirectory::open(directory.path()).unwrap();
        let new = new("a", '1');
        assert_eq!(store.create(&new).await.unwrap(), WorkflowCreated::Made);
        let again = store.create(&new).await.unwrap();
        assert_eq!(again, WorkflowCreated::Already("{}".to_owned()));
        let lease = store.claim("one", LEASE, &[], None).await.unwrap().unwrap();
        assert_eq!(store.claim("two", LEASE, &[], None).await.unwrap(), None);
        store.append(&lease, &["1".to_owned()], None).await.unwrap();
        // The process dies in the middle of a write.
        drop(store);
        let file = directory.path().join(format!("{}.jsonl", new.address.id));
        let mut torn = OpenOptions::new().append(true).open(&file).unwrap();
        torn.write_all(b"{\"events\":{\"after\":2,\"ev").unwrap();
        let store = WorkflowDirectory::open(directory.path()).unwrap();
        let next = store.claim("two", LEASE, &[], None).await.unwrap().unwrap();
        assert_eq!(next.generation, lease.generation + 1);
        let late = store.append(&lease, &["late".to_owned()], None).await;
        assert!(matches!(late, Err(WorkflowAppendError::Fenced)), "{late:?}");
        assert!(!store.renew(&next, LEASE).await.unwrap());
        assert!(store.cancel(&new.address).await.unwrap());
        assert!(store.renew(&next, LEASE).await.unwrap());
        store.append(&next, &["2".to_owned()], Some("done")).await.unwrap();
        let read = store.read(&new.address).await.unwrap().unwrap();
        assert_eq!(read.events, ["{}", "1", "2"]);
        assert_eq!(read.row.outcome.as_deref(), Some("done"));
        assert_eq!(store.claim("one", LEASE, &[], None).await.unwrap(), None);
        assert!(!store.cancel(&new.address).await.unwrap());
    }

    #[tokio::test]
    async fn a_damaged_file_stops_no_other_workflow() {
        let directory = tempfile::tempdir().unwrap();
        let store = WorkflowDirectory::open(directory.path()).unwrap();
        let append = |digit: char, bytes: &[u8]| {
            let file = directory.path().join(format!("{}.jsonl", new("a", digit).address.id));
            let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
            file.write_all(bytes).unwrap();
        };
        // The oldest one has lost events, another one has nothing at all.
        store.create(&new("a", '1')).await.unwrap();
        append('1', b"{\"events\":{\"after\":7,\"events\":[],\"outcome\":null}}\n");
        append('2', b"\xff\xfe\n");
        // A write was torn within a character.
        let torn = new("b", '3');
        store.create(&torn).await.unwrap();
        append('3', &"{\"events\":{\"after\":1,\"events\":[\"ü".as_bytes()[..33]);
        let lease = store.claim("one", LEASE, &[], None).await.unwrap().unwrap();
        assert_eq!(lease.address, torn.address);
        store.append(&lease, &["ü".to_owned()], None).await.unwrap();
        let read = store.read(&torn.address).await.unwrap().unwrap();
        assert_eq!(read.events, ["{}", "ü"]);
        assert_eq!(store.claim("one", LEASE, &[], None).await.unwrap(), None);
        assert_eq!(store.list("b", 9).await.unwrap().len(), 1);
        assert!(store.read(&new("a", '1').address).await.is_err());
        assert_eq!(store.create(&new("a", '4')).await.unwrap(), WorkflowCreated::Made);
    }

    #[tokio::test]
    async fn a_tenant_has_its_own_workflows_and_a_quota() {
        let directory = tempfile::tempdir().unwrap();
        let store = WorkflowDirectory::open(directory.path()).unwrap();
        for digit in ['1', '2'] {
            assert_eq!(store.create(&new("a", digit)).await.unwrap(), WorkflowCreated::Made);
        }
        assert_eq!(store.create(&new("a", '3')).await.unwrap(), WorkflowCreated::TooMany);
        assert_eq!(store.create(&new("b", '4')).await.unwrap(), WorkflowCreated::Made);
        let ids: Vec<_> = store.list("a", 9).await.unwrap().into_iter().map(|row| row.id).collect();
        assert_eq!(ids, [new("a", '2').address.id, new("a", '1').address.id]);
        let mut foreign = new("a", '4').address;
        assert_eq!(store.read(&foreign).await.unwrap(), None);
        assert!(!store.cancel(&foreign).await.unwrap());
        foreign.id = "../../etc/passwd".to_owned();
        assert_eq!(store.read(&foreign).await.unwrap(), None);
        let lease = store.claim("one", LEASE, &["a".to_owned()], None).await.unwrap().unwrap();
        assert_eq!(lease.address.tenant, "b");
        store.release(&lease).await.unwrap();
        assert_eq!(
            store.claim("one", LEASE, &["a".to_owned()], None).await.unwrap().unwrap().generation,
            2
        );
    }
}
