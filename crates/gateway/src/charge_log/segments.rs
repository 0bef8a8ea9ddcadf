//! The segments of this process's log, and the last record of each request.
//!
//! A segment goes when no request has its last record there, the oldest first. A request that takes
//! long holds up nothing: when the log grows, its record is written again to the newest segment.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::ChargeLogError;

/// A segment is followed by the next when it has so many bytes.
pub(super) const SEGMENT_BYTES: u64 = 4 << 20;
/// Records of the oldest segment are carried to the newest one if the log is larger than this, and
/// they are no more than that.
pub(super) const CARRY_ABOVE: u64 = 16 << 20;
const MAX_CARRIED_BYTES: usize = 1 << 20;
/// Most bytes of all segments. Requests are refused beyond them.
pub(super) const MAX_LOG_BYTES: u64 = 128 << 20;

/// The segments of one process.
#[derive(Debug)]
pub(super) struct Segments {
    folder: PathBuf,
    active: Segment,
    file: Arc<File>,
    /// The oldest first.
    sealed: VecDeque<Segment>,
    /// Requests that are not charged, by number.
    requests: HashMap<u64, Request>,
    /// Bytes of their last records in each segment.
    latest: BTreeMap<u32, usize>,
    /// Appends so far.
    written: u64,
    /// An append failed half-way: the next one begins on a new line.
    is_torn: bool,
    /// The last segment whose name is on the disk.
    synced_segment: Option<u32>,
    /// Requests wait until their record is on the disk.
    pub(super) is_synced: bool,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    number: u32,
    length: u64,
}

/// Appends that may not be on the disk.
#[derive(Debug)]
pub(super) struct Unsynced {
    pub(super) file: Arc<File>,
    /// The number of the last of them.
    pub(super) written: u64,
    pub(super) segment: u32,
    /// Its folder, if its name may not be on the disk either.
    pub(super) folder: Option<PathBuf>,
}

#[derive(Debug)]
struct Request {
    /// Its last record, and the segment that has it.
    line: Box<[u8]>,
    segment: u32,
    /// When its row was sent to the node.
    sent: Option<Instant>,
}

impl Segments {
    /// In a folder that is new.
    pub(super) fn create(folder: PathBuf) -> io::Result<Self> {
        let file = Arc::new(make(&folder, 0)?);
        Ok(Self {
            folder,
            active: Segment { number: 0, length: 0 },
            file,
            sealed: VecDeque::new(),
            requests: HashMap::new(),
            latest: BTreeMap::new(),
            written: 0,
            is_torn: false,
            synced_segment: None,
            is_synced: false,
        })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sealed
            .iter()
            .map(|segment| segment.length)
            .fold(self.active.length, u64::saturating_add)
    }

    /// Returns the number of the append. `taken_over` is the size of other logs within the bound.
    pub(super) fn begin(
        &mut self,
        number: u64,
        line: &[u8],
        taken_over: u64,
    ) -> Result<u64, ChargeLogError> {
        if self.is_full(taken_over) {
            // No append comes while all beginnings are refused, so room is made here.
            self.make_room().map_err(ChargeLogError::Write)?;
            if self.is_full(taken_over) {
                return Err(ChargeLogError::Full(MAX_LOG_BYTES));
            }
        }
        let append = self.append(line).map_err(ChargeLogError::Write)?;
        self.keep(number, line);
        Ok(append)
    }

    fn is_full(&self, taken_over: u64) -> bool {
        self.bytes().saturating_add(taken_over) >= MAX_LOG_BYTES
    }

    /// Ends are written beyond the bound as well: each has a beginning within it.
    pub(super) fn end(&mut self, number: u64, line: &[u8]) -> io::Result<()> {
        self.append(line)?;
        if self.requests.contains_key(&number) {
            self.keep(number, line);
        }
        Ok(())
    }

    /// Notes the last record of a request: it was written to the active segment.
    fn keep(&mut self, number: u64, line: &[u8]) {
        let segment = self.active.number;
        *self.latest.entry(segment).or_default() += line.len();
        let sent = self.requests.get(&number).and_then(|request| request.sent);
        let request = Request { line: line.into(), segment, sent };
        if let Some(before) = self.requests.insert(number, request) {
            self.release(&before);
        }
    }

    /// The record of a request does not count any more.
    fn release(&mut self, Request { line, segment, .. }: &Request) {
        if let Some(bytes) = self.latest.get_mut(segment) {
            *bytes = bytes.saturating_sub(line.len());
            if *bytes == 0 {
                self.latest.remove(segment);
            }
        }
    }

    pub(super) fn sent(&mut self, number: u64) {
        if let Some(request) = self.requests.get_mut(&number) {
            request.sent = Some(Instant::now());
        }
    }

    /// Forgets a request. Segments of which all are forgotten are removed, the oldest first.
    pub(super) fn charged(&mut self, number: u64) {
        let Some(request) = self.requests.remove(&number) else { return };
        self.release(&request);
        self.trim();
        if self.requests.is_empty() && self.active.length > 0 && self.file.set_len(0).is_ok() {
            self.active.length = 0;
            self.is_torn = false;
        }
    }

    /// Removes the oldest segments that have no record that counts.
    fn trim(&mut self) {
        while let Some(oldest) = self.sealed.front()
            && !self.latest.contains_key(&oldest.number)
        {
            // Later records of its requests must be on the disk before it goes.
            if self.is_synced && self.file.sync_data().is_err() {
                return;
            }
            // One that stays is read again by the next process, and charged once.
            let _ = fs::remove_file(path(&self.folder, oldest.number));
            self.sealed.pop_front();
        }
    }

    /// The last records of requests whose rows were sent before `before`: at most `most`, the oldest
    /// requests first. They count as sent now.
    pub(super) fn overdue(&mut self, before: Instant, most: usize) -> Vec<Box<[u8]>> {
        let is_overdue = |request: &Request| request.sent.is_some_and(|sent| sent < before);
        let overdue = self.requests.iter().filter(|(_, request)| is_overdue(request));
        let mut numbers: Vec<u64> = overdue.map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers.truncate(most);
        let mut lines = Vec::with_capacity(numbers.len());
        for number in numbers {
            if let Some(request) = self.requests.get_mut(&number) {
                request.sent = Some(Instant::now());
                lines.push(request.line.clone());
            }
        }
        lines
    }

    /// Appends that may not be on the disk.
    pub(super) fn unsynced(&self) -> Unsynced {
        let segment = self.active.number;
        let is_known = self.synced_segment == Some(segment);
        Unsynced {
            file: Arc::clone(&self.file),
            written: self.written,
            segment,
            folder: (!is_known).then(|| self.folder.clone()),
        }
    }

    /// A segment is on the disk, with its name.
    pub(super) fn note_synced(&mut self, segment: u32) {
        self.synced_segment = Some(segment);
    }

    fn append(&mut self, line: &[u8]) -> io::Result<u64> {
        if self.active.length >= SEGMENT_BYTES {
            self.make_room()?;
        }
        self.write(line)
    }

    /// Begins the next segment if one is due, and removes those that hold few records that count.
    fn make_room(&mut self) -> io::Result<()> {
        if self.active.length >= SEGMENT_BYTES {
            self.rotate()?;
        }
        self.carry()
    }

    fn write(&mut self, line: &[u8]) -> io::Result<u64> {
        let mut text = Vec::new();
        let line = if self.is_torn {
            text.push(b'\n');
            text.extend_from_slice(line);
            text.as_slice()
        } else {
            line
        };
        if let Err(error) = (&*self.file).write_all(line) {
            self.is_torn = true;
            return Err(error);
        }
        self.is_torn = false;
        self.active.length = self.active.length.saturating_add(line.len() as u64);
        self.written += 1;
        Ok(self.written)
    }

    /// With syncing on, all that was written so far is on the disk afterwards: requests sync the
    /// segment that follows.
    fn rotate(&mut self) -> io::Result<()> {
        let number = self.active.number + 1;
        let next = make(&self.folder, number)?;
        if self.is_synced {
            self.file.sync_data()?;
        }
        self.file = Arc::new(next);
        let sealed = std::mem::replace(&mut self.active, Segment { number, length: 0 });
        self.sealed.push_back(sealed);
        self.trim();
        Ok(())
    }

    /// Writes the records of the oldest segment again if few of them count, so that it can go.
    fn carry(&mut self) -> io::Result<()> {
        while self.bytes() > CARRY_ABOVE
            && let Some(oldest) = self.sealed.front().map(|segment| segment.number)
        {
            if self.latest.get(&oldest).is_some_and(|bytes| *bytes > MAX_CARRIED_BYTES) {
                return Ok(());
            }
            let of_oldest = self.requests.iter().filter(|(_, request)| request.segment == oldest);
            let lines: Vec<_> =
                of_oldest.map(|(number, request)| (*number, request.line.clone())).collect();
            for (number, line) in lines {
                self.write(&line)?;
                self.keep(number, &line);
            }
            self.trim();
            // It stays if its records cannot be brought to the disk.
            if self.sealed.front().is_some_and(|segment| segment.number == oldest) {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn make(folder: &Path, number: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // The rest of an attempt that failed has nothing in it.
    options.append(true).create(true).mode(0o600).open(path(folder, number))
}

fn path(folder: &Path, number: u32) -> PathBuf {
    // In the order of names.
    folder.join(format!("{number:010}.log"))
}
