//! Logs of processes that are gone.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::time::Instant;

use belljar_domain::network::Row;

use super::lock_path;
use super::record::{self, Stage};

/// A request of a log, as its last record has it.
#[derive(Debug)]
pub(super) struct FoundRequest {
    pub(super) stage: Stage,
    pub(super) row: Row,
}

/// The requests of a log, by number.
#[derive(Debug, Default)]
pub(super) struct FoundRequests {
    pub(super) requests: BTreeMap<u64, FoundRequest>,
    /// Records that were torn or changed.
    pub(super) unreadable: u64,
}

/// Reads all segments of a folder. A record that cannot be read spoils no other.
pub(super) fn read(folder: &Path, epoch: &str) -> io::Result<FoundRequests> {
    let mut found = FoundRequests::default();
    for path in segments(folder)? {
        let file = match File::open(&path) {
            // It was forgotten meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        for line in BufReader::new(file).split(b'\n') {
            let line = line?;
            if line.is_empty() {
                continue;
            }
            let record = record::decode(&line).and_then(|(stage, row)| {
                let number = record::number_of(row.charge_id.as_deref()?, epoch)?;
                Some((number, stage, row))
            });
            match record {
                Some((number, Stage::End, row)) => {
                    found.requests.insert(number, FoundRequest { stage: Stage::End, row });
                }
                Some((number, stage, row)) => {
                    found.requests.entry(number).or_insert(FoundRequest { stage, row });
                }
                None => found.unreadable += 1,
            }
        }
    }
    Ok(found)
}

fn segments(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    paths.sort();
    Ok(paths)
}

/// A log that this process has taken over. If this one is killed too, another one takes it over.
#[derive(Debug)]
pub(super) struct TakenOver {
    folder: PathBuf,
    lock_path: PathBuf,
    epoch: String,
    /// Ids of requests that are not charged.
    waiting: HashSet<String>,
    bytes: u64,
    /// The first request that was not sent yet; none if all were.
    next: Option<u64>,
    /// When the last of its rows were sent.
    sent: Instant,
    _lock: File,
}

impl TakenOver {
    pub(super) fn new(root: &Path, epoch: String, lock: File) -> Self {
        Self {
            folder: root.join(&epoch),
            lock_path: lock_path(root, &epoch),
            epoch,
            waiting: HashSet::new(),
            bytes: 0,
            next: None,
            sent: Instant::now(),
            _lock: lock,
        }
    }

    /// Reads it, and waits for all of its requests from now on.
    pub(super) fn read(&mut self) -> io::Result<FoundRequests> {
        let found = read(&self.folder, &self.epoch)?;
        let ids = found.requests.values().filter_map(|found| found.row.charge_id.clone());
        self.waiting = ids.collect();
        let lengths = segments(&self.folder)?.into_iter().map(fs::metadata);
        self.bytes = lengths.flatten().map(|found| found.len()).sum();
        Ok(found)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn charged(&mut self, id: &str) {
        self.waiting.remove(id);
    }

    /// Removes the log if nothing in it waits. Returns true if it did not wait.
    pub(super) fn remove_if_charged(&mut self) -> bool {
        if !self.waiting.is_empty() {
            return false;
        }
        // A folder that stays is read again by the next process, and charged once.
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {}
            _ => drop(fs::remove_file(&self.lock_path)),
        }
        true
    }

    pub(super) fn is_overdue(&self, before: Instant) -> bool {
        self.next.is_some() || self.sent < before
    }

    /// Its folder and its epoch, to [`read`] it without holding it.
    pub(super) fn place(&self) -> (PathBuf, String) {
        (self.folder.clone(), self.epoch.clone())
    }

    pub(super) fn is_of(&self, epoch: &str) -> bool {
        self.epoch == epoch
    }

    /// The rows of `found` that wait, at most `most`. The next call goes on behind them.
    pub(super) fn pick(&mut self, found: BTreeMap<u64, FoundRequest>, most: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        let first = self.next.take().unwrap_or_default();
        for (number, FoundRequest { row, .. }) in found {
            let is_waiting = row.charge_id.as_ref().is_some_and(|id| self.waiting.contains(id));
            if number < first || !is_waiting {
                continue;
            }
            if rows.len() >= most {
                self.next = Some(number);
                break;
            }
            rows.push(row);
        }
        self.sent = Instant::now();
        rows
    }
}
