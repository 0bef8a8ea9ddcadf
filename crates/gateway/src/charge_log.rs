//! The charge log: the cost of each metered request, on the disk before the request leaves.
//!
//! ```text
//!   begin ──► the request leaves ──► end ──► the last byte ──► row ──► ledger ──► charged
//!   reservation                      usage                                       forgotten
//!
//!   <root>/<epoch>.lock      locked for as long as the process of that epoch lives
//!   <root>/<epoch>/<n>.log   its segments
//! ```
//!
//! A process that was killed leaves its folder and no lock. The next one takes the folder over and
//! sends the rows of all requests in it: as they ended, or with their reservation. A request has
//! one id for its row and its charge, so a row that is sent twice is charged once.
//!
//! Invariant: a request is forgotten only when its row is stored. Segments go in order, so the last
//! record of a request never goes before its others.

mod record;
mod replay;
mod segments;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fs::{self, DirBuilder, DirEntry, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belljar_domain::network::Row;
use belljar_peer_proto::gateway::ChargeLogReport;
use serde::Deserialize;

use record::Stage;
use replay::TakenOver;
use segments::{Segments, Unsynced};

/// A row that was sent so long ago, and is not charged, is sent again.
pub(crate) const RESEND_AFTER: Duration = Duration::from_secs(300);
/// Rows that are sent again at a time. The queue of rows has places for 20,000, of others too.
const MAX_RESENT: usize = 4096;
/// The next ones go when no more than this many of them wait.
const FEW_RESENT: usize = MAX_RESENT / 8;

/// The accident that a record outlives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Durability {
    /// Kills of processes: a record is written, and the kernel brings it to the disk.
    #[default]
    Kill,
    /// Power loss too: a request waits until its record is on the disk.
    PowerLoss,
}

/// The reason that a request cannot be logged. It must not leave then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChargeLogError {
    #[error("the charge log has reached {0} bytes")]
    Full(u64),
    #[error("cannot write the charge log")]
    Write(#[source] io::Error),
}

/// The log of this process, and those that it has taken over.
#[derive(Debug)]
pub(crate) struct ChargeLog {
    root: PathBuf,
    /// A random word of this process. The ids of its requests begin with it.
    epoch: String,
    next: AtomicU64,
    segments: Mutex<Segments>,
    /// Number of the last append that is on the disk. The request that holds it syncs for all.
    synced: tokio::sync::Mutex<u64>,
    taken_over: Mutex<Vec<TakenOver>>,
    /// Their size.
    taken_over_bytes: AtomicU64,
    resent: Mutex<Resent>,
    counts: Mutex<ChargeLogReport>,
    /// Dropped last: others take the folder over then.
    _lock: File,
}

/// The rows that were sent again last.
#[derive(Debug, Default)]
struct Resent {
    /// Ids of those that are not charged.
    ids: HashSet<String>,
    at: Option<Instant>,
    /// There were as many as go at a time, so others may wait.
    is_cut: bool,
}

impl Resent {
    fn note(&mut self, rows: &[Row]) {
        self.ids.extend(rows.iter().filter_map(|row| row.charge_id.clone()));
        self.at = Some(Instant::now());
        self.is_cut = rows.len() >= MAX_RESENT;
    }

    /// Returns true if many wait that were not sent before `before`.
    fn is_under_way(&self, before: Instant) -> bool {
        self.ids.len() > FEW_RESENT && self.at.is_some_and(|at| at >= before)
    }
}

impl ChargeLog {
    /// Makes a log below `root`. `epoch` must be new, and made of hex digits.
    pub(crate) fn open(root: &Path, epoch: String) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        // The lock is there before the folder, so that no other process takes a new
        // folder over.
        let lock = lock_file(root, &epoch)?;
        lock.lock()?;
        let folder = root.join(&epoch);
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self {
            root: root.to_owned(),
            epoch,
            next: AtomicU64::new(0),
            segments: Mutex::new(Segments::create(folder)?),
            synced: tokio::sync::Mutex::default(),
            taken_over: Mutex::default(),
            taken_over_bytes: AtomicU64::new(0),
            resent: Mutex::default(),
            counts: Mutex::default(),
            _lock: lock,
        })
    }

    /// Sets the crashes that records outlive from now on.
    pub(crate) fn set_durability(&self, durability: Durability) {
        self.lock().is_synced = durability == Durability::PowerLoss;
    }

    /// An id that no other request has.
    pub(crate) fn next_id(&self) -> String {
        format!("{}-{}", self.epoch, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Logs a request that is about to leave: the row that it has if nothing more is heard of it.
    /// It is written when this is polled first; what follows waits for the disk, if that is wanted.
    pub(crate) async fn begin(&self, row: &Row) -> Result<(), ChargeLogError> {
        let since = Instant::now();
        let begun = match self.write_begin(row) {
            Ok(Some(append)) => {
                let synced = self.sync(append).await;
                synced.map_err(|error| self.withdraw(row, error))
            }
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        self.note_append(since, begun.is_err());
        begun
    }

    /// Returns the number of an append that the request waits for.
    fn write_begin(&self, row: &Row) -> Result<Option<u64>, ChargeLogError> {
        let line = record::encode(Stage::Begin, row).map_err(ChargeLogError::Write)?;
        let number = self.number(row).ok_or_else(|| io::ErrorKind::InvalidInput.into());
        let number = number.map_err(ChargeLogError::Write)?;
        let taken_over = self.taken_over_bytes.load(Ordering::Relaxed);
        let mut segments = self.lock();
        let append = segments.begin(number, &line, taken_over)?;
        Ok(segments.is_synced.then_some(append))
    }

    /// Takes back a request that is not on the disk: it must not leave, and no row of it comes.
    fn withdraw(&self, row: &Row, error: io::Error) -> ChargeLogError {
        self.end(&Row { charge: None, ..row.clone() });
        if let Some(number) = self.number(row) {
            self.lock().charged(number);
        }
        ChargeLogError::Write(error)
    }

    /// Logs the cost of a request that has ended. A failure is counted: the row says the cost too.
    pub(crate) fn end(&self, row: &Row) {
        let since = Instant::now();
        let ended = record::encode(Stage::End, row).and_then(|line| {
            let number = self.number(row).ok_or(io::ErrorKind::InvalidInput)?;
            self.lock().end(number, &line)
        });
        if let Err(error) = &ended {
            tracing::error!(error = error as &dyn std::error::Error, "cannot write the charge log");
        }
        self.note_append(since, ended.is_err());
    }

    /// The row of a request goes to the node now.
    pub(crate) fn sent(&self, row: &Row) {
        if let Some(number) = self.number(row) {
            self.lock().sent(number);
        }
    }

    /// Forgets requests whose rows are stored.
    pub(crate) fn charged(&self, ids: &[String]) {
        let mut taken_over = self.taken_over();
        for id in ids {
            match record::number_of(id, &self.epoch) {
                Some(number) => self.lock().charged(number),
                None => taken_over.iter_mut().for_each(|one| one.charged(id)),
            }
        }
        taken_over.retain_mut(|one| !one.remove_if_charged());
        self.note_taken_over(&taken_over);
        drop(taken_over);
        let mut resent = self.resent();
        for id in ids {
            resent.ids.remove(id);
        }
    }

    /// Takes over the logs of processes that are gone, and returns rows of their requests: at most
    /// [`MAX_RESENT`]. The others are [overdue](Self::overdue) once these are charged.
    pub(crate) fn take_over(&self) -> io::Result<Vec<Row>> {
        let mut rows = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let room = MAX_RESENT.saturating_sub(rows.len());
            match entry.and_then(|entry| self.take_over_one(&entry, room)) {
                Ok(more) => rows.extend(more),
                // It spoils no other. The next process tries again.
                Err(error) => note_unread(&error),
            }
        }
        self.resent().note(&rows);
        Ok(rows)
    }

    /// Takes over the log of one process if it is gone, and returns its first rows: at most `room`.
    fn take_over_one(&self, entry: &DirEntry, room: usize) -> io::Result<Vec<Row>> {
        let Some(epoch) = entry.file_name().to_str().map(str::to_owned) else {
            return Ok(Vec::new());
        };
        if epoch == self.epoch || !record::is_epoch(&epoch) || !entry.file_type()?.is_dir() {
            return Ok(Vec::new());
        }
        let lock = lock_file(&self.root, &epoch)?;
        // Its process lives, or another one has taken it over.
        if lock.try_lock().is_err() {
            return Ok(Vec::new());
        }
        let mut one = TakenOver::new(&self.root, epoch, lock);
        let found = one.read()?;
        let mut counts = self.counts();
        counts.unreadable += found.unreadable;
        for found in found.requests.values() {
            let is_ended = found.stage == Stage::End;
            counts.replayed_ended += u64::from(is_ended);
            counts.replayed_estimated += u64::from(!is_ended);
        }
        drop(counts);
        let rows = one.pick(found.requests, room);
        if !one.remove_if_charged() {
            let mut taken_over = self.taken_over();
            taken_over.push(one);
            self.note_taken_over(&taken_over);
        }
        Ok(rows)
    }

    /// Their size counts for the bound of this log.
    fn note_taken_over(&self, taken_over: &[TakenOver]) {
        let bytes = taken_over.iter().map(TakenOver::bytes).sum();
        self.taken_over_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns true if more rows wait than were sent again last, and most of those are charged.
    pub(crate) fn is_next_batch_due(&self, before: Instant) -> bool {
        let resent = self.resent();
        resent.is_cut && !resent.is_under_way(before)
    }

    /// Rows that were sent before `before` and are not stored: they were lost on their way. At most
    /// [`MAX_RESENT`], and none while many of the last ones wait.
    pub(crate) fn overdue(&self, before: Instant) -> Vec<Row> {
        if self.resent().is_under_way(before) {
            return Vec::new();
        }
        let mut rows = Vec::new();
        // Logs are read without the lock, as requests are charged meanwhile.
        let places: Vec<_> = {
            let taken_over = self.taken_over();
            let overdue = taken_over.iter().filter(|one| one.is_overdue(before));
            overdue.map(TakenOver::place).collect()
        };
        for (folder, epoch) in places {
            let room = MAX_RESENT.saturating_sub(rows.len());
            if room == 0 {
                break;
            }
            match replay::read(&folder, &epoch) {
                Ok(found) => {
                    let mut taken_over = self.taken_over();
                    if let Some(one) = taken_over.iter_mut().find(|one| one.is_of(&epoch)) {
                        rows.extend(one.pick(found.requests, room));
                    }
                }
                Err(error) => note_unread(&error),
            }
        }
        let lines = self.lock().overdue(before, MAX_RESENT.saturating_sub(rows.len()));
        let decoded = lines.iter().filter_map(|line| record::decode(line.trim_ascii_end()));
        rows.extend(decoded.map(|(_, row)| row));
        let mut resent = self.resent();
        resent.ids.clear();
        resent.note(&rows);
        rows
    }

    /// Returns the work since the last report.
    pub(crate) fn report(&self) -> ChargeLogReport {
        let taken_over = self.taken_over_bytes.load(Ordering::Relaxed);
        let bytes = self.lock().bytes().saturating_add(taken_over);
        ChargeLogReport { bytes, ..std::mem::take(&mut *self.counts()) }
    }

    /// Waits until an append is on the disk. One request syncs for all that wait.
    async fn sync(&self, append: u64) -> io::Result<()> {
        let mut synced = self.synced.lock().await;
        if *synced >= append {
            return Ok(());
        }
        let Unsynced { file, written, segment, folder } = self.lock().unsynced();
        let done = tokio::task::spawn_blocking(move || {
            file.sync_data()?;
            // The name of a new segment, and of its folder.
            folder.iter().flat_map(|path| path.ancestors().take(2)).try_for_each(sync_folder)
        });
        done.await.map_err(io::Error::other)??;
        *synced = written;
        self.lock().note_synced(segment);
        self.counts().syncs += 1;
        Ok(())
    }

    fn number(&self, row: &Row) -> Option<u64> {
        record::number_of(row.charge_id.as_deref()?, &self.epoch)
    }

    fn note_append(&self, since: Instant, has_failed: bool) {
        let micros = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut counts = self.counts();
        counts.appends += 1;
        counts.append_micros = counts.append_micros.saturating_add(micros);
        counts.write_errors += u64::from(has_failed);
    }

    fn lock(&self) -> MutexGuard<'_, Segments> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken_over(&self) -> MutexGuard<'_, Vec<TakenOver>> {
        self.taken_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resent(&self) -> MutexGuard<'_, Resent> {
        self.resent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> MutexGuard<'_, ChargeLogReport> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note_unread(error: &io::Error) {
    let error = error as &dyn std::error::Error;
    tracing::error!(error, "cannot read the charge log of another process");
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn lock_file(root: &Path, epoch: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(false).write(true).mode(0o600);
    options.open(lock_path(root, epoch))
}

fn lock_path(root: &Path, epoch: &str) -> PathBuf {
    root.join(format!("{epoch}.lock"))
}
