//! What a sandbox's traffic came to: the latest rows in memory, all of them, up
//! to a bound, in a file that outlives the sandbox.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use belljar_domain::SandboxId;
use belljar_domain::network::{Decision, Kind, Row};
use tokio::sync::watch;

use crate::attribution::Attributor;

/// Rows that are answered from memory.
const REMEMBERED: usize = 4096;

/// What the file of one sandbox may grow to; some 30,000 rows. Later ones are
/// remembered only.
const LONGEST_FILE: u64 = 16 << 20;

/// Which rows somebody wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowQuery {
    /// Only rows after this one.
    pub after: Option<u64>,
    pub call: Option<u32>,
    pub decision: Option<Decision>,
    pub kind: Option<Kind>,
    pub limit: usize,
}

impl RowQuery {
    pub fn takes(&self, row: &Row) -> bool {
        self.after.is_none_or(|after| row.sequence > after)
            && self.call.is_none_or(|call| {
                row.subject.call.as_ref().is_some_and(|told| told.number == call)
            })
            && self.decision.is_none_or(|decision| row.decision == decision)
            && self.kind.is_none_or(|kind| row.kind == kind)
    }
}

/// The rows of one sandbox. Its machines and gateways, of which there may be
/// several one after the other, each count from the beginning; here they count on.
#[derive(Debug)]
pub(crate) struct Rows {
    sandbox: SandboxId,
    /// `None`: they are kept in memory only.
    path: Option<PathBuf>,
    state: Mutex<Kept>,
    attributor: Attributor,
    /// How many there have been: who waits for more waits for this to change.
    count: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    latest: VecDeque<Arc<Row>>,
    file: Option<File>,
    written: u64,
    /// The last row, and the number that it came with.
    last: u64,
    came_with: Option<u64>,
    /// The last row before those that are counted now.
    base: u64,
}

impl Rows {
    pub(crate) fn new(sandbox: SandboxId, path: PathBuf, attributor: Attributor) -> Self {
        let (state, count) = (Mutex::default(), watch::Sender::new(0));
        Self { sandbox, path: Some(path), state, attributor, count }
    }

    /// Rows that end with their sandbox.
    pub(crate) fn in_memory(sandbox: SandboxId) -> Self {
        let (state, count) = (Mutex::default(), watch::Sender::new(0));
        Self { sandbox, path: None, state, attributor: Attributor::default(), count }
    }

    /// The sandbox whose rows these are.
    pub(crate) fn sandbox(&self) -> &SandboxId {
        &self.sandbox
    }

    pub(crate) fn attributor(&self) -> &Attributor {
        &self.attributor
    }

    pub(crate) fn push(&self, mut row: Row) {
        let mut kept = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.has_charge_of(&row) {
            // It is here already, and may not be stored.
            row.subject.sandbox.clone_from(&self.sandbox);
            return self.attributor.connection(&mut row);
        }
        if let Err(error) = self.open(&mut kept) {
            tracing::warn!(path = %self.shown(), %error, "cannot open connection log");
        }
        kept.number(&mut row);
        row.subject.sandbox.clone_from(&self.sandbox);
        self.attributor.connection(&mut row);
        // What cannot be written is still remembered; the next row tries again.
        if let Err(error) = kept.write(&row) {
            tracing::warn!(path = %self.shown(), %error, "cannot write connection row");
        }
        if kept.latest.len() == REMEMBERED {
            kept.latest.pop_front();
        }
        kept.latest.push_back(Arc::new(row));
        drop(kept);
        self.count.send_modify(|count| *count += 1);
    }

    /// Opens the file for the first row. There may be one from before the server
    /// was started, and its rows are counted on from.
    fn open(&self, kept: &mut Kept) -> io::Result<()> {
        let Some(path) = self.path.as_deref().filter(|_| kept.file.is_none()) else {
            return Ok(());
        };
        let mut options = OpenOptions::new();
        let mut file = options.create(true).append(true).mode(0o600).open(path)?;
        kept.written = file.metadata()?.len();
        if kept.written > 0 && kept.last == 0 {
            let all = RowQuery { limit: usize::MAX, ..RowQuery::default() };
            kept.last = read(path, &all)?.last().map_or(0, |row| row.sequence);
            kept.base = kept.last;
            // A line that was cut off spoils no other.
            file.write_all(b"\n")?;
        }
        kept.file = Some(file);
        Ok(())
    }

    /// The first rows that `query` takes, in their order.
    pub(crate) fn find(&self, query: &RowQuery) -> io::Result<Vec<Arc<Row>>> {
        let kept = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let first = kept.latest.front().map(|row| row.sequence);
        let in_memory = match (first, query.after) {
            (Some(first), Some(after)) => after + 1 >= first,
            // They begin with 1.
            (Some(first), None) => first <= 1,
            (None, _) => false,
        };
        if in_memory || self.path.is_none() {
            let rows = kept.latest.iter().filter(|row| query.takes(row));
            return Ok(rows.take(query.limit).cloned().collect());
        }
        drop(kept);
        self.path.as_deref().map_or_else(|| Ok(Vec::new()), |path| read(path, query))
    }

    fn shown(&self) -> std::path::Display<'_> {
        self.path.as_deref().unwrap_or(Path::new("")).display()
    }

    /// Notices every further row.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }
}

impl Kept {
    /// Returns true for a row that the gateway sends from its charge log, and that came before. One
    /// from the log belongs to no connection.
    fn has_charge_of(&self, row: &Row) -> bool {
        row.within.is_none()
            && row.charge_id.is_some()
            && self.latest.iter().any(|known| known.charge_id == row.charge_id)
    }

    fn number(&mut self, row: &mut Row) {
        if self.came_with.is_some_and(|last| row.sequence <= last) {
            self.base = self.last;
        }
        self.came_with = Some(row.sequence);
        // They come counted from 0; here the first is 1, so that 0 is before all.
        row.sequence += self.base + 1;
        row.within = row.within.map(|within| within + self.base + 1);
        self.last = row.sequence;
    }

    fn write(&mut self, row: &Row) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut line = serde_json::to_vec(row)?;
        line.push(b'\n');
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.written.saturating_add(length) > LONGEST_FILE {
            return Ok(());
        }
        file.write_all(&line)?;
        self.written += length;
        Ok(())
    }
}

/// Reads rows of a sandbox that may be long gone.
pub(super) fn read(path: &Path, query: &RowQuery) -> io::Result<Vec<Arc<Row>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut rows = Vec::new();
    for line in BufReader::new(file).split(b'\n') {
        // A line that was cut off is the last one of a server that died.
        let Ok(row) = serde_json::from_slice::<Row>(&line?) else { continue };
        if query.takes(&row) {
            rows.push(Arc::new(row));
            if rows.len() == query.limit {
                break;
            }
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use belljar_domain::network::{Bytes, CallRef, Reason, Subject};

    use super::*;

    fn sequences(rows: &[Arc<Row>]) -> Vec<u64> {
        rows.iter().map(|row| row.sequence).collect()
    }

    fn row(sequence: u64, call: u32) -> Row {
        let sandbox = SandboxId::from_random([7; 16]);
        let call = Some(CallRef { number: call, name: None, ended: false });
        let tenant = "acme".to_owned();
        Row {
            sequence,
            within: None,
            subject: Subject { tenant, sandbox, run: None, turn: None, call, process: None },
            kind: Kind::Connection,
            decision: Decision::Allowed,
            reason: Reason::Rule,
            host: "example.org".parse().ok(),
            port: Some(443),
            address: None,
            method: None,
            path: None,
            status: None,
            operation: None,
            charge_id: None,
            charge: None,
            bytes: Bytes { out: 1, into: 2 },
            began: 3,
            first_byte_micros: None,
            micros: 4,
        }
    }

    #[test]
    fn a_row_that_comes_again_from_the_charge_log_is_shown_once() {
        let rows = Rows::in_memory(SandboxId::from_random([7; 16]));
        let charged = |within| Row { within, charge_id: Some("a-1".to_owned()), ..row(0, 1) };
        rows.push(charged(Some(3)));
        rows.push(charged(None));
        let other = Row { charge_id: Some("a-2".to_owned()), ..charged(None) };
        rows.push(other.clone());
        rows.push(other);
        let all = RowQuery { limit: usize::MAX, ..RowQuery::default() };
        assert_eq!(sequences(&rows.find(&all).unwrap()), [1, 2]);
    }

    #[test]
    fn rows_are_found_in_memory_and_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let sandbox = SandboxId::from_random([7; 16]);
        let path = dir.path().join("rows");
        let rows = Rows::new(sandbox.clone(), path.clone(), Attributor::default());
        let many = 4096 + 10;
        for sequence in 1..=many {
            rows.push(row(sequence - 1, u32::from(sequence % 2 == 1)));
        }
        let all = RowQuery { limit: usize::MAX, ..RowQuery::default() };
        assert_eq!(sequences(&rows.find(&all).unwrap()), (1..=many).collect::<Vec<_>>());
        let late = RowQuery { after: Some(many - 4), call: Some(0), ..all.clone() };
        assert_eq!(sequences(&rows.find(&late).unwrap()), [many - 2, many]);
        assert_eq!(*rows.watch().borrow(), many);
        drop(rows);
        // A server that died in the middle of a line; the next one goes on.
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 5]).unwrap();
        assert_eq!(sequences(&read(&path, &all).unwrap()), (1..many).collect::<Vec<_>>());
        let rows = Rows::new(sandbox, path, Attributor::default());
        rows.push(row(0, 0));
        assert_eq!(sequences(&rows.find(&all).unwrap()), (1..=many).collect::<Vec<_>>());
    }

    #[test]
    fn another_machine_counts_on() {
        let dir = tempfile::tempdir().unwrap();
        let sandbox = SandboxId::from_random([9; 16]);
        let rows = Rows::new(sandbox.clone(), dir.path().join("rows"), Attributor::default());
        let all = RowQuery { limit: usize::MAX, ..RowQuery::default() };
        for sequence in [0, 1, 2, 0, 1, 4, 3] {
            rows.push(Row { within: Some(sequence), ..row(sequence, 0) });
        }
        let found = rows.find(&all).unwrap();
        assert_eq!(sequences(&found), [1, 2, 3, 4, 5, 8, 12]);
        assert!(found.iter().all(|row| row.within == Some(row.sequence)));
        assert!(found.iter().all(|row| row.subject.sandbox == sandbox));
    }
}
