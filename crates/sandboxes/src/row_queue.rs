//! Rows on their way out of this process: to the node's control, or to the data directory.
//!
//! ```text
//!   calls, connections ──► queue ──batch──► store ──done──► forgotten here
//! ```
//!
//! The queue is bounded. When the store is away for too long, rows are dropped and counted: the
//! oldest ones of the sandbox that has most in the queue, so that no sandbox takes the place of
//! others. A row keeps its id until it is stored, so a batch that is sent twice is stored once. The
//! row of a charge comes with its id. One that comes again while it waits is dropped.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar_domain::SandboxId;
use belljar_domain::rows::AttributedRow;
use belljar_telemetry::metrics;
use tokio::sync::Notify;

/// Rows that wait at most.
const MAX_QUEUED_ROWS: usize = 20_000;
/// Rows of one batch at most, and bytes as they are sent.
const MAX_BATCH_ROWS: usize = 500;
const MAX_BATCH_BYTES: usize = 4 << 20;

/// A queue of rows; cheap to clone.
#[derive(Debug, Clone)]
pub struct RowQueue(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Begins the ids of this queue's rows.
    writer: String,
    waiting: Mutex<Waiting>,
    pushed: Notify,
    observers: DoneObservers,
}

/// Told of rows that came with their id and are done.
#[derive(Default)]
struct DoneObservers(Mutex<Vec<DoneObserver>>);

type DoneObserver = Box<dyn Fn(&[String]) + Send + Sync>;

impl fmt::Debug for DoneObservers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DoneObservers")
    }
}

#[derive(Debug, Default)]
struct Waiting {
    /// By number, and so the oldest first.
    rows: BTreeMap<u64, Queued>,
    /// Numbers of the rows of each sandbox.
    by_sandbox: BTreeMap<SandboxId, VecDeque<u64>>,
    /// Ids that rows came with.
    given: HashSet<String>,
    last: u64,
}

#[derive(Debug)]
struct Queued {
    row: AttributedRow,
    /// As it is sent.
    bytes: usize,
}

impl Waiting {
    fn add(&mut self, number: u64, queued: Queued) {
        self.by_sandbox.entry(queued.row.sandbox.clone()).or_default().push_back(number);
        self.rows.insert(number, queued);
    }

    fn remove(&mut self, number: u64) {
        let Some(Queued { row, .. }) = self.rows.remove(&number) else { return };
        self.given.remove(&row.id);
        let Some(numbers) = self.by_sandbox.get_mut(&row.sandbox) else { return };
        // Nearly always the first.
        if let Some(index) = numbers.iter().position(|of_row| *of_row == number) {
            numbers.remove(index);
        }
        if numbers.is_empty() {
            self.by_sandbox.remove(&row.sandbox);
        }
    }

    /// Drops the oldest row of the sandbox that has most.
    fn drop_one(&mut self) {
        let most = self.by_sandbox.values().max_by_key(|numbers| numbers.len());
        if let Some(number) = most.and_then(|numbers| numbers.front().copied()) {
            self.remove(number);
            metrics().rows_dropped("queue_full", 1);
        }
    }
}

/// The oldest rows of a queue. They stay in it until they are [done](RowQueue::done).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowBatch {
    pub rows: Vec<AttributedRow>,
    /// Of each row.
    numbers: Vec<u64>,
}

impl RowBatch {
    /// The batch in two, or itself if it has one row.
    pub fn halves(mut self) -> Result<[Self; 2], Self> {
        let middle = self.rows.len() / 2;
        if middle == 0 {
            return Err(self);
        }
        let (rows, numbers) = (self.rows.split_off(middle), self.numbers.split_off(middle));
        Ok([self, Self { rows, numbers }])
    }
}

impl RowQueue {
    pub fn new() -> io::Result<Self> {
        let mut bits = [0; 16];
        io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bits)?;
        let (writer, waiting) = (hex::encode(bits), Mutex::default());
        let observers = DoneObservers::default();
        Ok(Self(Arc::new(Inner { writer, waiting, pushed: Notify::new(), observers })))
    }

    /// Calls `observer` with the ids of rows that are done, of those that came with an id.
    pub fn on_done(&self, observer: impl Fn(&[String]) + Send + Sync + 'static) {
        self.observers().push(Box::new(observer));
    }

    /// Adds a row, and gives it an id if it has none.
    pub fn push(&self, mut row: AttributedRow) {
        let mut waiting = self.waiting();
        if waiting.given.contains(&row.id) {
            return;
        }
        waiting.last += 1;
        let number = waiting.last;
        let is_given = !row.id.is_empty();
        if !is_given {
            row.id = format!("{}-{number}", self.0.writer);
        }
        // A row that no store would read is not kept.
        let Some(bytes) = length(&row).filter(|bytes| *bytes <= MAX_BATCH_BYTES) else {
            metrics().rows_dropped("too_large", 1);
            return;
        };
        if is_given {
            waiting.given.insert(row.id.clone());
        }
        waiting.add(number, Queued { row, bytes });
        if waiting.rows.len() > MAX_QUEUED_ROWS {
            waiting.drop_one();
        }
        drop(waiting);
        self.0.pushed.notify_one();
    }

    /// Waits for the next row, and returns at once if one was pushed meanwhile.
    pub async fn pushed(&self) {
        self.0.pushed.notified().await;
    }

    /// The oldest rows; none if the queue is empty.
    pub fn batch(&self) -> Option<RowBatch> {
        let waiting = self.waiting();
        let mut batch = RowBatch::default();
        let mut bytes = 0;
        for (number, queued) in waiting.rows.iter().take(MAX_BATCH_ROWS) {
            bytes += queued.bytes;
            if bytes > MAX_BATCH_BYTES {
                break;
            }
            batch.rows.push(queued.row.clone());
            batch.numbers.push(*number);
        }
        (!batch.rows.is_empty()).then_some(batch)
    }

    /// Forgets the rows of a batch: they are stored, or never will be.
    pub fn done(&self, batch: &RowBatch) {
        let mut waiting = self.waiting();
        batch.numbers.iter().for_each(|number| waiting.remove(*number));
        drop(waiting);
        let is_given = |id: &&String| !id.starts_with(&self.0.writer);
        let given: Vec<_> =
            batch.rows.iter().map(|row| &row.id).filter(is_given).cloned().collect();
        if !given.is_empty() {
            self.observers().iter().for_each(|observer| observer(&given));
        }
    }

    fn observers(&self) -> MutexGuard<'_, Vec<DoneObserver>> {
        self.0.observers.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of a row as it is sent; none if it cannot be.
fn length(row: &AttributedRow) -> Option<usize> {
    // And the comma behind it.
    serde_json::to_vec(row).ok().map(|text| text.len() + 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use belljar_domain::EndReason;
    use belljar_domain::rows::{CallKind, CallRow, ChangeKind, FileChange, RowBody};

    use super::*;

    fn row(began: u64) -> AttributedRow {
        let call = CallRow {
            number: 1,
            kind: CallKind::Process,
            is_ok: true,
            reason: EndReason::Done,
            exit_code: Some(0),
            cpu_micros: 0,
            peak_bytes: None,
            output_bytes: 0,
            files: Vec::new(),
            is_cut: false,
        };
        AttributedRow {
            id: String::new(),
            tenant: "ann".to_owned(),
            sandbox: SandboxId::from_random([1; 16]),
            attribution: None,
            began,
            micros: 1,
            body: RowBody::Call(call),
        }
    }

    fn begun(batch: &RowBatch) -> Vec<u64> {
        batch.rows.iter().map(|row| row.began).collect()
    }

    #[test]
    fn a_batch_stays_until_it_is_done_and_keeps_its_ids() {
        let queue = RowQueue::new().unwrap();
        assert_eq!(queue.batch(), None);
        (0..3).for_each(|began| queue.push(row(began)));
        let first = queue.batch().unwrap();
        // Sent again, it is the same; what comes meanwhile is behind it.
        queue.push(row(3));
        let again = queue.batch().unwrap();
        assert_eq!(again.rows[..3], first.rows);
        queue.done(&first);
        assert_eq!(begun(&queue.batch().unwrap()), [3]);
        let ids: BTreeSet<_> = again.rows.iter().map(|row| &row.id).collect();
        assert_eq!(ids.len(), 4);
        assert_ne!(RowQueue::new().unwrap().0.writer, queue.0.writer);
    }

    #[test]
    fn a_row_that_comes_with_its_id_waits_once_and_its_writer_hears_of_its_end() {
        let queue = RowQueue::new().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hearing = heard.clone();
        queue.on_done(move |ids| hearing.lock().unwrap().extend_from_slice(ids));
        let charged = |id: &str| AttributedRow { id: id.to_owned(), ..row(1) };
        ["a-1", "a-1", "a-2"].iter().for_each(|id| queue.push(charged(id)));
        queue.push(row(2));
        let batch = queue.batch().unwrap();
        assert_eq!(batch.rows.len(), 3);
        assert_eq!(heard.lock().unwrap().len(), 0);
        queue.done(&batch);
        assert_eq!(*heard.lock().unwrap(), ["a-1", "a-2"]);
        // It was stored; one that comes now is stored again, under the same id.
        queue.push(charged("a-1"));
        assert_eq!(queue.batch().unwrap().rows[0].id, "a-1");
    }

    #[test]
    fn the_oldest_rows_are_dropped_when_the_queue_is_full() {
        let queue = RowQueue::new().unwrap();
        let all = u64::try_from(MAX_QUEUED_ROWS).unwrap() + 2;
        (0..all).for_each(|began| queue.push(row(began)));
        let batch = queue.batch().unwrap();
        assert_eq!(batch.rows.len(), MAX_BATCH_ROWS);
        assert_eq!(batch.rows[0].began, 2);
        // A batch whose rows were dropped meanwhile takes no others with it.
        (0..MAX_QUEUED_ROWS).for_each(|_| queue.push(row(all)));
        queue.done(&batch);
        assert_eq!(begun(&queue.batch().unwrap())[0], all);
    }

    #[test]
    fn a_sandbox_with_many_rows_drops_no_row_of_another() {
        let queue = RowQueue::new().unwrap();
        queue.push(AttributedRow { sandbox: SandboxId::from_random([2; 16]), ..row(7) });
        let all = u64::try_from(MAX_QUEUED_ROWS).unwrap() + 5;
        (100..100 + all).for_each(|began| queue.push(row(began)));
        assert_eq!(begun(&queue.batch().unwrap())[..2], [7, 106]);
        assert_eq!(queue.waiting().rows.len(), MAX_QUEUED_ROWS);
    }

    fn with_path(path: String) -> AttributedRow {
        let mut row = row(1);
        if let RowBody::Call(call) = &mut row.body {
            call.files = vec![FileChange { path, change: ChangeKind::Removed, bytes: None }];
        }
        row
    }

    /// A control character is six bytes as it is sent.
    #[test]
    fn a_batch_is_no_longer_than_control_reads_whatever_its_characters() {
        let queue = RowQueue::new().unwrap();
        for _ in 0..9 {
            queue.push(with_path("\u{1}".repeat(MAX_BATCH_BYTES / 12)));
        }
        let mut sent = 0;
        while let Some(batch) = queue.batch() {
            assert!(serde_json::to_vec(&batch.rows).unwrap().len() <= MAX_BATCH_BYTES + 2);
            sent += batch.rows.len();
            queue.done(&batch);
        }
        assert_eq!(sent, 9);
        queue.push(with_path("\u{1}".repeat(MAX_BATCH_BYTES / 6)));
        assert_eq!(queue.batch(), None);
        assert!(queue.waiting().by_sandbox.is_empty());
    }

    #[test]
    fn a_batch_is_halved_down_to_its_rows() {
        let queue = RowQueue::new().unwrap();
        (0..3).for_each(|began| queue.push(row(began)));
        let [first, second] = queue.batch().unwrap().halves().unwrap();
        assert_eq!((begun(&first), begun(&second)), (vec![0], vec![1, 2]));
        queue.done(&second);
        assert_eq!(begun(&queue.batch().unwrap()), [0]);
        assert_eq!(first.clone().halves(), Err(first));
    }
}
