//! The events of one run in one file, only ever added to.
//!
//! ```text
//! <16 digits of the JSON's SHA-256> <JSON>\n
//! ```
//!
//! Every record is written through to the disk before it is acknowledged, or, if it
//! may wait, together with the next that may not. What follows the last record that
//! proves right was never acknowledged: the machine stopped, or its writer died, in
//! the middle of it. Readers do not see it, and the next writer cuts it off. A record
//! that does not prove right and is followed by one that was written when it was on
//! the disk is damage, which nothing cuts off.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use belljar_domain::{Generation, Sequence};
use belljar_objects::Digest;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::trouble::{Trouble, at};
use crate::blob::BlobRef;
use crate::event::Body;
use crate::journal::State;
use crate::key::Key;
use crate::rules;

const DIGITS: usize = 16;

/// An event, as the file has it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) seq: Sequence,
    #[serde(with = "time::serde::rfc3339")]
    pub(super) at: OffsetDateTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lease: Option<Generation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<Key>,
    /// The last that was on the disk when this was written; none: the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sure: Option<Sequence>,
    #[serde(flatten)]
    pub(super) content: Content,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Content {
    Body(Box<Body>),
    /// It was too long, and is a blob.
    Spilled {
        kind: String,
        v: u32,
        #[serde(flatten)]
        blob: BlobRef,
    },
}

impl Content {
    fn kind(&self) -> &str {
        match self {
            Self::Body(body) => body.kind(),
            Self::Spilled { kind, .. } => kind,
        }
    }
}

/// What the records say of the run, as far as nobody needs to be asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Status {
    pub(super) head: Sequence,
    pub(super) state: State,
    /// Whether somebody should work on it.
    pub(super) ready: bool,
    /// The newest format in it.
    pub(super) needs: u32,
    pub(super) generation: Generation,
    pub(super) owner: Option<String>,
}

impl Status {
    fn apply(&mut self, record: &Record) {
        self.head = record.seq;
        let kind = record.content.kind();
        if let Some(state) = State::after(kind) {
            self.state = state;
            self.ready = matches!(state, State::Waiting | State::Running);
        }
        self.needs = self.needs.max(match &record.content {
            Content::Body(body) => body.version(),
            Content::Spilled { v, .. } => *v,
        });
        let Content::Body(body) = &record.content else { return };
        self.ready = rules::ready_after(body).unwrap_or(self.ready);
        if let Body::LeaseTaken(taken) = &**body {
            self.generation = taken.generation;
            self.owner = Some(taken.owner.clone());
            if self.state == State::Waiting {
                self.state = State::Running;
            }
        }
    }
}

/// Where a record's JSON is.
#[derive(Debug, Clone, Copy)]
struct Place {
    offset: u64,
    bytes: usize,
}

/// What is known of a file so far. Another process may have added to it since.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    /// Up to where every record proved right.
    end: u64,
    /// The number before that of the first record.
    base: Sequence,
    places: Vec<Place>,
    keys: HashMap<Key, Sequence>,
    last_at: OffsetDateTime,
    /// The last that is on the disk.
    sure: Sequence,
    pub(super) status: Status,
}

impl Log {
    /// `base`: how many events come before those in this file.
    pub(super) fn open(path: &Path, base: Sequence) -> Result<Self, Trouble> {
        let file = File::options().read(true).write(true).open(path).map_err(at("open", path))?;
        let status = Status {
            head: base,
            state: State::Waiting,
            ready: true,
            needs: 0,
            generation: Generation::default(),
            owner: None,
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            end: 0,
            base,
            places: Vec::new(),
            keys: HashMap::new(),
            last_at: OffsetDateTime::UNIX_EPOCH,
            sure: base,
            status,
        })
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn find(&self, key: &Key) -> Option<Sequence> {
        self.keys.get(key).copied()
    }

    /// Reads what was added since. Nobody writes meanwhile: the run is locked.
    pub(super) fn refresh(&mut self) -> Result<(), Trouble> {
        let length = self.file.metadata().map_err(at("look at", &self.path))?.len();
        if length < self.end {
            return Err(Trouble::Damaged(self.status.head));
        }
        let mut bytes = vec![0; usize::try_from(length - self.end).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut bytes, self.end).map_err(at("read", &self.path))?;
        let mut rest = bytes.as_slice();
        while let Some(line) = first_line(rest) {
            let Some(json) = proven(line) else { break };
            let record: Record = self.parse(json)?;
            if record.seq != self.status.head.next() {
                return Err(Trouble::Damaged(self.status.head.next()));
            }
            self.take(&record, line.len());
            rest = &rest[line.len() + 1..];
        }
        let next = self.status.head.next();
        let later = rest.split(|&byte| byte == b'\n').skip(1).filter_map(proven);
        if later.into_iter().any(|json| was_sure(json, next)) {
            return Err(Trouble::Damaged(next));
        }
        if rest.len() < bytes.len() {
            // Whoever wrote it may have died before it was on the disk.
            self.settle()?;
        }
        Ok(())
    }

    /// Waits until all that is known is on the disk.
    pub(super) fn settle(&mut self) -> Result<(), Trouble> {
        if self.sure == self.status.head {
            return Ok(());
        }
        if let Err(error) = self.file.sync_data() {
            // Nobody was told of the last of it, so it must not show up later.
            let _ = self.file.set_len(self.sure_end());
            let fresh = Self::open(&self.path, self.base)?;
            *self = fresh;
            return Err(at("write through", &self.path)(error));
        }
        self.sure = self.status.head;
        Ok(())
    }

    /// Up to where everything is on the disk.
    fn sure_end(&self) -> u64 {
        let count = usize::try_from(self.sure.0 - self.base.0).unwrap_or(usize::MAX);
        let last = self.places[..count.min(self.places.len())].last();
        last.map_or(0, |place| place.offset + place.bytes as u64 + 1)
    }

    fn take(&mut self, record: &Record, line: usize) {
        let offset = self.end + DIGITS as u64 + 1;
        self.places.push(Place { offset, bytes: line - DIGITS - 1 });
        if let Some(key) = &record.key {
            self.keys.entry(key.clone()).or_insert(record.seq);
        }
        self.last_at = record.at;
        self.end += line as u64 + 1;
        self.status.apply(record);
    }

    /// Adds a record and waits until it is on the disk. The run is locked for this
    /// alone, and what is known is fresh.
    pub(super) fn append(
        &mut self,
        lease: Option<Generation>,
        key: Option<Key>,
        content: Content,
    ) -> Result<Sequence, Trouble> {
        let seq = self.write(lease, key, content)?;
        self.settle()?;
        Ok(seq)
    }

    /// The same without waiting: who dies loses nothing, a machine that does may.
    pub(super) fn write(
        &mut self,
        lease: Option<Generation>,
        key: Option<Key>,
        content: Content,
    ) -> Result<Sequence, Trouble> {
        let (head, seq) = (self.status.head, self.status.head.next());
        let sure = (self.sure < head).then_some(self.sure);
        // The clock may be set back; a later event is never earlier.
        let record = Record { seq, at: now().max(self.last_at), lease, key, sure, content };
        let line = line(&record)?;
        let length = self.file.metadata().map_err(at("look at", &self.path))?.len();
        if length > self.end {
            tracing::warn!(path = %self.path.display(), bytes = length - self.end,
                "cutting off a record that was never finished");
            self.file.set_len(self.end).map_err(at("cut off", &self.path))?;
        }
        if let Err(error) = self.file.write_all_at(line.as_bytes(), self.end) {
            // Nobody was told of it, so it must not show up later.
            let _ = self.file.set_len(self.end);
            return Err(at("write", &self.path)(error));
        }
        self.take(&record, line.len() - 1);
        Ok(seq)
    }

    /// Up to `most` records of this file, from `from` on.
    pub(super) fn read(&self, from: Sequence, most: usize) -> Result<Vec<Record>, Trouble> {
        let skip = usize::try_from(from.0.saturating_sub(self.base.0 + 1)).unwrap_or(usize::MAX);
        let places = self.places.iter().skip(skip).take(most);
        places.map(|&place| self.record(place)).collect()
    }

    fn record(&self, place: Place) -> Result<Record, Trouble> {
        let mut json = vec![0; place.bytes];
        self.file.read_exact_at(&mut json, place.offset).map_err(at("read", &self.path))?;
        self.parse(&json)
    }

    fn parse(&self, json: &[u8]) -> Result<Record, Trouble> {
        serde_json::from_slice(json)
            .map_err(|source| Trouble::Json { path: self.path.clone(), source })
    }
}

/// Fills a new file with its first record.
pub(super) fn begin(path: &Path, record: &Record) -> Result<(), Trouble> {
    let file = File::create_new(path).map_err(at("create", path))?;
    let line = line(record)?;
    file.write_all_at(line.as_bytes(), 0).map_err(at("write", path))?;
    file.sync_all().map_err(at("write through", path))
}

pub(super) fn now() -> OffsetDateTime {
    let now = OffsetDateTime::now_utc();
    // As precise as every journal is.
    now.replace_microsecond(now.microsecond()).unwrap_or(now)
}

fn line(record: &Record) -> Result<String, Trouble> {
    let json = serde_json::to_string(record).map_err(|source| Trouble::Unwritable { source })?;
    let proof = Digest::of(json.as_bytes()).to_string();
    Ok(format!("{} {json}\n", &proof[..DIGITS]))
}

/// Up to the line break, if there is one.
fn first_line(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    Some(&bytes[..end])
}

/// Whether a record says that `seq` was on the disk when it was written.
fn was_sure(json: &[u8], seq: Sequence) -> bool {
    #[derive(Deserialize)]
    struct Written {
        #[serde(default)]
        sure: Option<Sequence>,
    }
    let written = serde_json::from_slice::<Written>(json).ok();
    written.and_then(|written| written.sure).is_none_or(|sure| sure >= seq)
}

/// The record's JSON, if the line is what was written.
fn proven(line: &[u8]) -> Option<&[u8]> {
    let (proof, json) = (line.get(..DIGITS)?, line.get(DIGITS + 1..)?);
    let is_right = Digest::of(json).to_string().as_bytes().starts_with(proof);
    (is_right && line[DIGITS] == b' ').then_some(json)
}
