//! One run: its directory, and what can be done in it.
//!
//! ```text
//! <run>/run       whose it is and where it begins; never changed
//!       log       the events: the only truth
//!       lease     who has it, until when, and what the log says; can be made anew
//!       lock      held for as long as it takes to read or to write (`flock(2)`)
//!       holder    held by whoever has the lease, for as long as that lives
//!       blobs/    what is too long for an event
//! ```
//!
//! The kernel drops both locks however a process dies. So nobody waits for a lease
//! to end whose holder is dead.

use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_domain::{Generation, Sequence};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::log::{Content, Log, Status, now};
use super::trouble::{Trouble, at};
use crate::error::{AppendError, ClaimError, LeaseError, RequestError};
use crate::event::{Body, FORMAT, LeaseTaken};
use crate::journal::{Address, Appended, Parent, RunRow, State};
use crate::key::Key;

/// What does not change.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Facts {
    #[serde(flatten)]
    pub(super) address: Address,
    #[serde(with = "time::serde::rfc3339")]
    pub(super) made_at: OffsetDateTime,
    pub(super) parent: Option<Parent>,
    pub(super) title: String,
}

impl Facts {
    pub(super) fn base(&self) -> Sequence {
        self.parent.as_ref().map_or(Sequence::ZERO, |parent| parent.after)
    }
}

/// Who has the run; and what the log says up to a length, so that lists need not
/// read it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LeaseFile {
    bytes: u64,
    status: Status,
    generation: Generation,
    owner: Option<String>,
    #[serde(with = "time::serde::rfc3339::option")]
    until: Option<OffsetDateTime>,
}

/// Whose turn it is.
#[derive(Debug, Clone, PartialEq)]
struct Holder {
    owner: Option<String>,
    until: Option<OffsetDateTime>,
}

/// A run whose directory was found.
#[derive(Debug)]
pub(super) struct Run {
    path: PathBuf,
    pub(super) facts: Facts,
    log: Log,
}

impl Run {
    /// None: there is no such run.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, Trouble> {
        let Some(facts) = read_json::<Facts>(&path.join("run"))? else { return Ok(None) };
        let log = Log::open(&path.join("log"), facts.base())?;
        Ok(Some(Self { path: path.to_owned(), facts, log }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// With the log as it is now, while nobody writes.
    pub(super) fn reading<T, E: From<Trouble>>(
        &mut self,
        work: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let path = self.path.join("lock");
        let lock = File::open(&path).map_err(at("open", &path))?;
        lock.lock_shared().map_err(at("lock", &path))?;
        self.log.refresh()?;
        work(self)
    }

    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    /// Alone, with the log as it is now.
    fn writing<T, E: From<Trouble>>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let path = self.path.join("lock");
        let lock = File::open(&path).map_err(at("open", &path))?;
        lock.lock().map_err(at("lock", &path))?;
        self.log.refresh()?;
        work(self)
    }

    /// Answers the generation, the event, and what to hold for as long as the lease.
    pub(super) fn claim(
        &mut self,
        owner: &str,
        time: Duration,
    ) -> Result<(Generation, Sequence, File), ClaimError> {
        self.writing(|run| {
            let status = &run.log.status;
            if status.state == State::Finished {
                return Err(ClaimError::Finished);
            }
            if status.needs > FORMAT {
                return Err(ClaimError::Newer);
            }
            let before = run.holder()?;
            if let Some(owner) = before.owner.clone().filter(|_| before.is_now())
                && is_alive(&run.path)?
            {
                return Err(ClaimError::Held { owner });
            }
            let generation = run.log.status.generation.next();
            let taken = LeaseTaken { generation, owner: owner.to_owned(), took_over: before.owner };
            let held = run.hold()?;
            let content = Content::Body(Box::new(Body::LeaseTaken(taken)));
            let seq = run.log.append(Some(generation), None, content)?;
            run.save(&Holder { owner: Some(owner.to_owned()), until: Some(now() + time) })?;
            Ok((generation, seq, held))
        })
    }

    pub(super) fn renew(&mut self, lease: Generation, time: Duration) -> Result<(), LeaseError> {
        self.change_lease(lease, |before| Holder { until: Some(now() + time), ..before })
    }

    pub(super) fn release(&mut self, lease: Generation) -> Result<(), LeaseError> {
        self.change_lease(lease, |_| Holder { owner: None, until: None })
    }

    fn change_lease(
        &mut self,
        lease: Generation,
        change: impl FnOnce(Holder) -> Holder,
    ) -> Result<(), LeaseError> {
        self.writing(|run| {
            let current = run.log.status.generation;
            if current != lease {
                return Err(LeaseError::Fenced { current });
            }
            let before = run.holder()?;
            run.log.settle()?;
            Ok(run.save(&change(before))?)
        })
    }

    pub(super) fn append(
        &mut self,
        lease: Generation,
        key: Option<Key>,
        seen: Option<Sequence>,
        content: Content,
        may_wait: bool,
    ) -> Result<Appended, AppendError> {
        self.writing(|run| {
            let status = &run.log.status;
            if status.generation != lease {
                return Err(AppendError::Fenced { current: status.generation });
            }
            if let Some(seq) = key.as_ref().and_then(|key| run.log.find(key)) {
                return Ok(Appended::Repeated(seq));
            }
            if status.state == State::Finished {
                return Err(AppendError::Finished);
            }
            if seen.is_some_and(|seen| seen != status.head) {
                return Err(AppendError::Unseen { head: status.head });
            }
            let holder = run.holder()?;
            let seq = run.log.write(Some(lease), key, content)?;
            if !may_wait {
                run.log.settle()?;
            }
            run.save(&holder)?;
            Ok(Appended::Fresh(seq))
        })
    }

    pub(super) fn request(
        &mut self,
        key: Option<Key>,
        content: Content,
    ) -> Result<Appended, RequestError> {
        self.writing(|run| {
            if let Some(seq) = key.as_ref().and_then(|key| run.log.find(key)) {
                return Ok(Appended::Repeated(seq));
            }
            if run.log.status.state == State::Finished {
                return Err(RequestError::Finished);
            }
            let holder = run.holder()?;
            let seq = run.log.append(None, key, content)?;
            run.save(&holder)?;
            Ok(Appended::Fresh(seq))
        })
    }

    /// As the lease file says, unless it is older than the log.
    fn holder(&self) -> Result<Holder, Trouble> {
        let status = &self.log.status;
        let file = read_lease(&self.path)?;
        Ok(match file.filter(|file| file.generation == status.generation) {
            Some(file) => Holder { owner: file.owner, until: file.until },
            // Whoever took it last died, or the machine did, before it said so.
            None => Holder { owner: status.owner.clone(), until: None },
        })
    }

    /// Not written through: what is lost of it is in the log.
    fn save(&self, holder: &Holder) -> Result<(), Trouble> {
        let file = LeaseFile {
            bytes: self.log.end(),
            status: self.log.status.clone(),
            generation: self.log.status.generation,
            owner: holder.owner.clone(),
            until: holder.until,
        };
        write_json(&self.path, "lease", &file)
    }

    /// A file of our own, because one who hangs may still hold the last one.
    fn hold(&self) -> Result<File, Trouble> {
        let fresh = self.path.join("holder.new");
        let _ = fs::remove_file(&fresh);
        let file = File::create_new(&fresh).map_err(at("create", &fresh))?;
        file.lock().map_err(at("lock", &fresh))?;
        fs::rename(&fresh, self.path.join("holder")).map_err(at("rename", &fresh))?;
        Ok(file)
    }

    /// From afar, and whether somebody should come and work on it.
    pub(super) fn row(&mut self) -> Result<(RunRow, bool), Trouble> {
        self.reading(|run| seen(&run.path, &run.facts, &run.log.status, run.holder()?))
    }
}

impl Holder {
    fn is_now(&self) -> bool {
        self.until.is_some_and(|until| until > OffsetDateTime::now_utc())
    }
}

/// A run from afar, from its small files alone where these are up to date.
pub(super) fn glance(path: &Path) -> Result<Option<(RunRow, bool)>, Trouble> {
    let Some(facts) = read_json::<Facts>(&path.join("run"))? else { return Ok(None) };
    let log = path.join("log");
    let bytes = fs::metadata(&log).map_err(at("look at", &log))?.len();
    if let Some(file) = read_lease(path)?.filter(|file| file.bytes == bytes) {
        let holder = Holder { owner: file.owner, until: file.until };
        return seen(path, &facts, &file.status, holder).map(Some);
    }
    let Some(mut run) = Run::open(path)? else { return Ok(None) };
    run.row().map(Some)
}

fn seen(
    path: &Path,
    facts: &Facts,
    status: &Status,
    holder: Holder,
) -> Result<(RunRow, bool), Trouble> {
    let is_wanted = status.ready && status.needs <= FORMAT;
    let is_free = || Ok(holder.owner.is_none() || !holder.is_now() || !is_alive(path)?);
    let wants_somebody = is_wanted && is_free()?;
    let row = RunRow {
        address: facts.address.clone(),
        state: status.state,
        head: status.head,
        generation: status.generation,
        owner: holder.owner,
        lease_until: holder.until,
        made_at: facts.made_at,
        parent: facts.parent.clone(),
        title: facts.title.clone(),
    };
    Ok((row, wants_somebody))
}

/// Whether whoever has the lease lives: then nobody else can lock its file.
fn is_alive(run: &Path) -> Result<bool, Trouble> {
    let path = run.join("holder");
    let file = match File::open(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        file => file.map_err(at("open", &path))?,
    };
    // Shared, so that two who look at the same time do not take each other for it.
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(at("lock", &path)(error)),
    }
}

/// One that cannot be read is as good as none: the machine may have stopped while it
/// was replaced.
fn read_lease(run: &Path) -> Result<Option<LeaseFile>, Trouble> {
    match read_json(&run.join("lease")) {
        Err(Trouble::Json { .. }) => Ok(None),
        file => file,
    }
}

pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Trouble> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(at("read", path))?,
    };
    let value = serde_json::from_slice(&text);
    value.map(Some).map_err(|source| Trouble::Json { path: path.to_owned(), source })
}

/// Whoever does this is alone in the directory.
pub(super) fn write_json<T: Serialize>(dir: &Path, name: &str, value: &T) -> Result<(), Trouble> {
    let fresh = dir.join(format!("{name}.new"));
    let text = serde_json::to_vec(value).map_err(|source| Trouble::Unwritable { source })?;
    let mut file = File::create(&fresh).map_err(at("create", &fresh))?;
    file.write_all(&text).map_err(at("write", &fresh))?;
    fs::rename(&fresh, dir.join(name)).map_err(at("rename", &fresh))
}
