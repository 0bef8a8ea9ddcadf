//! All runs of a directory, with waiting for disks and locks.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use belljar_domain::{Generation, RunId, Sequence};
use belljar_objects::Digest;
use time::OffsetDateTime;

use super::blobs;
use super::log::{self, Content, Record};
use super::run::{self, Facts, Run};
use super::trouble::{Trouble, at};
use crate::answers::AnswerFolder;
use crate::blob::{BlobRef, MOST_BLOB_BYTES, Stored};
use crate::error::{
    AppendError, BlobError, ClaimError, CreateError, Failure, LeaseError, ReadError, RequestError,
};
use crate::event::{Body, ControlRequested, Event, PausePoint};
use crate::journal::{
    Address, Appended, ApprovalQuery, Created, First, Lease, ListQuery, Listed, NewEvent, NewRun,
    Page, Parent, RunRow, State,
};
use crate::key::Key;
use crate::rules;
use crate::watch::Bells;

/// How many runs' logs are kept open.
const OPEN: usize = 64;
/// After this long nobody is still making it.
const RUBBISH: Duration = Duration::from_secs(24 * 3600);
/// Events that are read at once to find the last pause of a run.
const PAUSE_SEARCH: u64 = 31;
/// Events that are read at once to find the answer to a request.
const SETTLED_SEARCH: usize = 32;
/// What a run is called before it is one.
const UNFINISHED: &str = ".new-";

#[derive(Debug)]
pub(super) struct Shelf {
    root: PathBuf,
    open: Mutex<HashMap<Address, Arc<Mutex<Run>>>>,
    /// What shows others that the holders of these leases live.
    held: Mutex<HashMap<Address, (Generation, fs::File)>>,
    /// Held while the unfinished runs of a tenant are counted and another one is made.
    creating: Mutex<()>,
    bells: Bells,
}

impl Shelf {
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        make(root)?;
        let root = root.canonicalize()?;
        sweep(&root)?;
        let (open, held, creating, bells) = Default::default();
        Ok(Self { root, open, held, creating, bells })
    }

    fn tenant(&self, tenant: &str) -> PathBuf {
        self.root.join(Digest::of(tenant.as_bytes()).to_string())
    }

    fn path(&self, address: &Address) -> PathBuf {
        super::path_of(&self.root, &address.tenant, &address.run)
    }

    /// None: there is no such run.
    fn find(&self, address: &Address) -> Result<Option<Arc<Mutex<Run>>>, Trouble> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = open.get(address) {
            return Ok(Some(run.clone()));
        }
        let Some(run) = Run::open(&self.path(address))? else { return Ok(None) };
        if open.len() >= OPEN {
            open.retain(|_, run| Arc::strong_count(run) > 1);
        }
        let run = Arc::new(Mutex::new(run));
        open.insert(address.clone(), run.clone());
        Ok(Some(run))
    }

    /// With a run, if there is one.
    fn with<T, E: From<Trouble>>(
        &self,
        address: &Address,
        absent: E,
        work: impl FnOnce(&mut Run) -> Result<T, E>,
    ) -> Result<T, E> {
        let run = self.find(address)?.ok_or(absent)?;
        let mut run = run.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut run)
    }

    pub(super) fn create(&self, new: &NewRun) -> Result<Created, CreateError> {
        let tenant = self.tenant(&new.address.tenant);
        make(&tenant).map_err(at("make", &tenant))?;
        blobs::sync(&self.root)?;
        let _creating = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_unfinished(new)?;
        let target = self.path(&new.address);
        let parent = self.parent(new)?;
        let facts = Facts {
            address: new.address.clone(),
            made_at: log::now(),
            parent,
            title: rules::title(&new.first),
        };
        let fresh = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&tenant);
        let fresh = fresh.map_err(at("make a directory in", &tenant))?;
        let dir = fresh.path();
        make(&dir.join("blobs")).map_err(at("make", dir))?;
        let body = new.first.body();
        let stored = rules::store(&body)?.ok_or(CreateError::TooLarge)?;
        let content = keep(dir, body, stored)?;
        let seq = facts.base().next();
        let (lease, key, sure) = (None, None, None);
        let record = Record { seq, at: facts.made_at, lease, key, sure, content };
        log::begin(&dir.join("log"), &record)?;
        fs::File::create_new(dir.join("lock")).map_err(at("create a lock in", dir))?;
        run::write_json(dir, "run", &facts)?;
        let file = dir.join("run");
        fs::File::open(&file).and_then(|f| f.sync_all()).map_err(at("write through", &file))?;
        blobs::sync(dir)?;
        match fs::rename(dir, &target) {
            Ok(()) => {
                // It has its name: there is nothing to clean up.
                let _ = fresh.keep();
                blobs::sync(&tenant)?;
                Ok(Created::Made)
            }
            // Others were quicker, or this is said again.
            Err(_) if target.join("run").exists() => {
                self.first(&new.address).map(|first| Created::Already(Box::new(first)))
            }
            Err(error) => Err(at("rename to", &target)(error).into()),
        }
    }

    /// A run that is there already counts once.
    fn check_unfinished(&self, new: &NewRun) -> Result<(), CreateError> {
        let Some(most) = new.most_unfinished else { return Ok(()) };
        if self.find(&new.address)?.is_some() {
            return Ok(());
        }
        let glances = self.glances(&self.tenant(&new.address.tenant))?;
        let unfinished = glances.iter().filter(|(row, _)| row.state != State::Finished).count();
        let unfinished = unfinished as u64;
        match unfinished >= most {
            true => Err(CreateError::TooManyUnfinished { most, unfinished }),
            false => Ok(()),
        }
    }

    fn parent(&self, new: &NewRun) -> Result<Option<Parent>, CreateError> {
        let First::Forked(forked) = &new.first else { return Ok(None) };
        let address = Address { tenant: new.address.tenant.clone(), run: forked.parent.clone() };
        let (row, _) = self.with(&address, CreateError::NoParent, |run| Ok(run.row()?))?;
        if forked.after == Sequence::ZERO || forked.after > row.head {
            return Err(CreateError::NoParent);
        }
        Ok(Some(Parent { run: forked.parent.clone(), after: forked.after }))
    }

    /// A run's own first event.
    fn first(&self, address: &Address) -> Result<Event, CreateError> {
        let base = self.with(address, CreateError::Taken, |run| Ok(run.facts.base()))?;
        let events = self.read(address, base.next(), 1).map_err(Failure::new)?;
        events.into_iter().next().ok_or(CreateError::Taken)
    }

    pub(super) fn read(
        &self,
        run: &Address,
        from: Sequence,
        most: usize,
    ) -> Result<Vec<Event>, ReadError> {
        let from = from.max(Sequence(1));
        let mut events = Vec::new();
        let parent = self.with(run, ReadError::NoRun, |run| Ok(run.facts.parent.clone()))?;
        if let Some(parent) = parent.filter(|parent| from <= parent.after) {
            let shared = usize::try_from(parent.after.0 - from.0 + 1).unwrap_or(usize::MAX);
            let address = Address { tenant: run.tenant.clone(), run: parent.run };
            events = self.read(&address, from, most.min(shared))?;
        }
        let from = Sequence(from.0 + events.len() as u64);
        let own = self.with(run, ReadError::NoRun, |run| {
            run.reading(|run| Ok(run.log().read(from, most - events.len())?))
        })?;
        for record in own {
            let body = self.body(run, record.seq, record.content)?;
            let Record { seq, at, lease, key, .. } = record;
            events.push(Event { seq, at, lease, key, body });
        }
        Ok(events)
    }

    fn body(&self, run: &Address, seq: Sequence, content: Content) -> Result<Body, ReadError> {
        let blob = match content {
            Content::Body(body) => return Ok(*body),
            Content::Spilled { blob, .. } => blob,
        };
        let json = blobs::get(&self.path(run), &blob);
        let json = json.ok().flatten().ok_or(ReadError::Damaged(seq))?;
        serde_json::from_slice(&json).map_err(|_| ReadError::Damaged(seq))
    }

    pub(super) fn get_blob(&self, run: &Address, blob: &BlobRef) -> Result<Vec<u8>, BlobError> {
        let mut address = run.clone();
        loop {
            let (path, parent) = self.with(&address, BlobError::NoRun, |run| {
                Ok((run.path().to_owned(), run.facts.parent.clone()))
            })?;
            if let Some(content) = blobs::get(&path, blob)? {
                return Ok(content);
            }
            let parent = parent.ok_or(BlobError::NoBlob(blob.sha256))?;
            address.run = parent.run;
        }
    }

    /// Runs of a tenant's directory, in no order, and whether each wants somebody.
    fn glances(&self, tenant: &Path) -> Result<Vec<(RunRow, bool)>, Trouble> {
        let mut found = Vec::new();
        for name in names(tenant)? {
            if name.parse::<RunId>().is_ok() {
                found.extend(run::glance(&tenant.join(name))?);
            }
        }
        Ok(found)
    }

    pub(super) fn list(&self, query: &ListQuery<'_>) -> Result<Listed, ReadError> {
        let place = |row: &RunRow| (row.made_at, row.address.run.clone());
        let after = query.after.map(|page| (page.made_at, page.run.clone()));
        let mut rows: Vec<_> =
            self.glances(&self.tenant(query.tenant))?.into_iter().map(|(row, _)| row).collect();
        rows.retain(|row| query.state.is_none_or(|state| state == row.state));
        rows.retain(|row| after.as_ref().is_none_or(|after| place(row) < *after));
        rows.sort_by_key(|row| std::cmp::Reverse(place(row)));
        let is_more = rows.len() > query.most;
        rows.truncate(query.most);
        let last = rows.last().filter(|_| is_more);
        let next = last.map(|row| Page { made_at: row.made_at, run: row.address.run.clone() });
        Ok(Listed { rows, next })
    }

    pub(super) fn claimable(&self, most: usize) -> Result<Vec<Address>, ReadError> {
        let mut found = Vec::new();
        for tenant in names(&self.root)? {
            let glances = self.glances(&self.root.join(tenant))?;
            let wanted = glances.into_iter().filter(|(_, wants)| *wants);
            let mut rows: Vec<_> = wanted.map(|(row, _)| row).collect();
            rows.sort_by_key(|row| (row.made_at, row.address.run.clone()));
            found.extend(rows.into_iter().enumerate());
        }
        // Tenants take turns.
        found.sort_by_key(|(turn, row)| (*turn, row.made_at, row.address.run.clone()));
        Ok(found.into_iter().take(most).map(|(_, row)| row.address).collect())
    }

    /// Paused runs that wait for an approval, of a tenant, or of all.
    pub(super) fn awaiting_approval(
        &self,
        query: &ApprovalQuery<'_>,
    ) -> Result<Vec<Address>, ReadError> {
        let tenants = match query.tenant {
            Some(tenant) => vec![self.tenant(tenant)],
            None => names(&self.root)?.iter().map(|name| self.root.join(name)).collect(),
        };
        let mut found = Vec::new();
        for tenant in tenants {
            for (row, _) in self.glances(&tenant)? {
                let until = self.approval_of(&row)?;
                let is_due = |until: OffsetDateTime| query.due.is_none_or(|due| until <= due);
                if until.is_some_and(is_due) && found.len() < query.most {
                    found.push(row.address);
                }
            }
        }
        Ok(found)
    }

    /// The end of the time of the call that a run waits with.
    fn approval_of(&self, row: &RunRow) -> Result<Option<OffsetDateTime>, ReadError> {
        // Requests may have come after the pause.
        let mut head = row.head;
        while row.state == State::Paused && head > Sequence::ZERO {
            let from = Sequence(head.0.saturating_sub(PAUSE_SEARCH).max(1));
            let most = usize::try_from(PAUSE_SEARCH).unwrap_or(0) + 1;
            let events = self.read(&row.address, from, most)?;
            let pause = events.iter().rev().find_map(|event| match &event.body {
                Body::Paused(paused) => Some(paused),
                _ => None,
            });
            if let Some(paused) = pause {
                return Ok(match paused.at {
                    Some(PausePoint::Approval { until, .. }) => Some(until),
                    _ => None,
                });
            }
            head = Sequence(from.0 - 1);
        }
        Ok(None)
    }

    pub(super) fn claim(
        &self,
        address: Address,
        owner: String,
        time: Duration,
    ) -> Result<Lease, ClaimError> {
        let (generation, taken, file) =
            self.with(&address, ClaimError::NoRun, |run| run.claim(&owner, time))?;
        self.clean_answers(&address);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // The claims of one run are told apart by their numbers, not by who is here first.
        if held.get(&address).is_none_or(|(known, _)| *known < generation) {
            held.insert(address.clone(), (generation, file));
        }
        self.bells.ring(&address.run);
        Ok(Lease { address, generation, owner, taken })
    }

    pub(super) fn renew(&self, lease: &Lease, time: Duration) -> Result<(), LeaseError> {
        self.with(&lease.address, LeaseError::NoRun, |run| run.renew(lease.generation, time))
    }

    pub(super) fn release(&self, lease: &Lease) -> Result<(), LeaseError> {
        self.with(&lease.address, LeaseError::NoRun, |run| run.release(lease.generation))?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.get(&lease.address).is_some_and(|(known, _)| *known == lease.generation) {
            held.remove(&lease.address);
        }
        Ok(())
    }

    pub(super) fn append(&self, lease: &Lease, event: NewEvent) -> Result<Appended, AppendError> {
        let stored = rules::check(&event)?;
        let NewEvent { body, key, seen, may_wait } = event;
        let is_last = matches!(body, Body::Finished(_));
        let done = self.with(&lease.address, AppendError::NoRun, |run| {
            let content = keep(run.path(), body, stored)?;
            run.append(lease.generation, key, seen, content, may_wait)
        })?;
        if is_last {
            // The run is over all the same.
            let _ = self.answers(&lease.address).clean(|_| false);
        }
        self.bells.ring(&lease.address.run);
        Ok(done)
    }

    pub(super) fn request(
        &self,
        address: &Address,
        request: ControlRequested,
        key: Option<Key>,
    ) -> Result<Appended, RequestError> {
        let body = Body::ControlRequested(request);
        let stored = rules::store(&body)?.ok_or(RequestError::TooLarge)?;
        let done = self.with(address, RequestError::NoRun, |run| {
            let content = keep(run.path(), body, stored)?;
            run.request(key, content)
        })?;
        self.bells.ring(&address.run);
        Ok(done)
    }

    pub(super) fn put_blob(&self, run: &Address, content: &[u8]) -> Result<BlobRef, BlobError> {
        if content.len() > MOST_BLOB_BYTES {
            return Err(BlobError::TooLarge);
        }
        let blob = BlobRef::of(content);
        let path = self.with(run, BlobError::NoRun, |run| Ok(run.path().to_owned()))?;
        blobs::put(&path, &blob, content)?;
        Ok(blob)
    }

    /// The answers of a run that are not written yet, beside its log.
    pub(super) fn answers(&self, run: &Address) -> AnswerFolder {
        AnswerFolder::at(self.path(run))
    }

    /// Removes answers that a dead worker has written as events, and half written ones.
    fn clean_answers(&self, run: &Address) {
        let is_needed = |asked| !self.is_settled(run, asked).unwrap_or(false);
        // One that stays is removed at the next claim, or at the end of the run.
        let _ = self.answers(run).clean(is_needed);
    }

    /// Returns true if the request with this number has its answer, or was given up.
    fn is_settled(&self, run: &Address, asked: Sequence) -> Result<bool, ReadError> {
        let mut from = asked.next();
        loop {
            let events = self.read(run, from, SETTLED_SEARCH)?;
            let Some(last) = events.last() else { return Ok(false) };
            from = last.seq.next();
            let is_end =
                |event: &Event| matches!(event.body, Body::LlmResponded(_) | Body::LlmFailed(_));
            if events.iter().any(is_end) {
                return Ok(true);
            }
        }
    }

    pub(super) fn row(&self, run: &Address) -> Result<RunRow, ReadError> {
        self.with(run, ReadError::NoRun, |run| Ok(run.row().map(|(row, _)| row)?))
    }

    pub(super) fn bells(&self) -> &Bells {
        &self.bells
    }
}

/// Puts what is too long beside the log, before the log names it.
fn keep(run: &Path, body: Body, stored: Stored) -> Result<Content, Trouble> {
    Ok(match stored {
        Stored::Inline(_) => Content::Body(Box::new(body)),
        Stored::Spilled { blob, content } => {
            blobs::put(run, &blob, content.as_bytes())?;
            Content::Spilled { kind: body.kind().to_owned(), v: body.version(), blob }
        }
    })
}

fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn names(dir: &Path) -> Result<Vec<String>, Trouble> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(at("list", dir))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry.map_err(at("list", dir))?.file_name().into_string());
    }
    Ok(names)
}

/// Removes what was begun long ago and never became a run.
fn sweep(root: &Path) -> io::Result<()> {
    for tenant in fs::read_dir(root)?.flatten() {
        for entry in fs::read_dir(tenant.path()).into_iter().flatten().flatten() {
            let is_ours = entry.file_name().to_string_lossy().starts_with(UNFINISHED);
            let modified = entry.metadata().and_then(|about| about.modified());
            let age = modified.map(|then| SystemTime::now().duration_since(then));
            if is_ours && age.is_ok_and(|age| age.is_ok_and(|age| age > RUBBISH)) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
    Ok(())
}
