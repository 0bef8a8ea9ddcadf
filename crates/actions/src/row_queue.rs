//! Rows on their way out of this process: to the node's control, or to the data directory.
//!
//! ```text
//!   calls, connections ──► queue ──batch──► store ──done──► forgotten here
//! ```
//!
//! The queue is bounded. When the store is away for too long, the oldest rows are dropped and
//! counted. A row keeps its id until it is stored, so a batch that is sent twice is stored once.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar_model::rows::AttributedRow;
use belljar_telemetry::metrics;
use tokio::sync::Notify;

/// Rows that wait at most.
const MAX_QUEUED_ROWS: usize = 20_000;
/// Rows of one batch at most, and about how many bytes.
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
}

#[derive(Debug, Default)]
struct Waiting {
    rows: VecDeque<(u64, AttributedRow)>,
    last: u64,
}

/// The oldest rows of a queue. They stay in it until they are [done](RowQueue::done).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowBatch {
    pub rows: Vec<AttributedRow>,
    last: u64,
}

impl RowQueue {
    pub fn new() -> io::Result<Self> {
        let mut bits = [0; 16];
        io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bits)?;
        let (writer, waiting) = (hex::encode(bits), Mutex::default());
        Ok(Self(Arc::new(Inner { writer, waiting, pushed: Notify::new() })))
    }

    /// Adds a row and gives it its id.
    pub fn push(&self, mut row: AttributedRow) {
        let mut waiting = self.waiting();
        waiting.last += 1;
        let number = waiting.last;
        row.id = format!("{}-{number}", self.0.writer);
        if waiting.rows.len() == MAX_QUEUED_ROWS {
            waiting.rows.pop_front();
            metrics().rows_dropped("queue_full", 1);
        }
        waiting.rows.push_back((number, row));
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
        for (number, row) in waiting.rows.iter().take(MAX_BATCH_ROWS) {
            bytes += row.weight();
            if bytes > MAX_BATCH_BYTES && !batch.rows.is_empty() {
                break;
            }
            batch.rows.push(row.clone());
            batch.last = *number;
        }
        (!batch.rows.is_empty()).then_some(batch)
    }

    /// Forgets the rows of a batch: they are stored, or never will be.
    pub fn done(&self, batch: &RowBatch) {
        let mut waiting = self.waiting();
        while waiting.rows.front().is_some_and(|(number, _)| *number <= batch.last) {
            waiting.rows.pop_front();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use belljar_model::rows::{CallKind, CallRow, RowBody};
    use belljar_model::{EndReason, SandboxId};

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
}
