//! Keeps the rows of calls and connections that this process writes, and forgets old ones.

use std::sync::Arc;
use std::time::Duration;

use belljar_domain::network::Row;
use belljar_domain::rows::AttributedRow;
use belljar_journal::{Failure, RowStore};
use belljar_node::Gateway;
use belljar_sandboxes::{RowBatch, RowQueue, settle_charges};
use belljar_telemetry::metrics;
use time::OffsetDateTime;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;

/// Longest wait of a row for others.
const GATHER_INTERVAL: Duration = Duration::from_millis(200);
/// Wait before a batch that was not stored is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Interval of looks for old rows.
const FORGET_INTERVAL: Duration = Duration::from_secs(600);

/// Default retention of rows.
pub const KEEP_ROWS: Duration = Duration::from_secs(30 * 86_400);

/// Stores the rows of a queue until it is stopped.
#[derive(Debug)]
pub struct RowKeeper {
    storing: JoinHandle<()>,
    stopping: Arc<Notify>,
    forgetting: JoinHandle<()>,
}

impl RowKeeper {
    /// Starts to store rows, and to forget those that are older than `keep`.
    pub fn start(queue: RowQueue, store: Arc<dyn RowStore>, keep: Duration) -> Self {
        let stopping = Arc::new(Notify::new());
        let storing = tokio::spawn(store_all(queue, store.clone(), stopping.clone()));
        let forgetting = tokio::spawn(forget_old(store, keep));
        Self { storing, stopping, forgetting }
    }

    /// Stores what is left.
    pub async fn stop(self) {
        self.forgetting.abort();
        // A batch that is being written is not written again beside that.
        self.stopping.notify_one();
        let _ = self.storing.await;
    }
}

/// Passes rows of model requests on to a queue, from a gateway that serves no sandbox: those of
/// runs, and those that its charge log has.
pub fn forward_rows(gateway: &Gateway, queue: RowQueue) {
    let mut rows = gateway.rows();
    settle_charges(gateway, &queue);
    tokio::spawn(async move {
        loop {
            match rows.recv().await {
                Ok(batch) => {
                    let is_kept = |row: &&Row| row.subject.run.is_some() || row.charge_id.is_some();
                    let kept = batch.iter().filter(is_kept);
                    kept.for_each(|row| queue.push(AttributedRow::of_connection(row)));
                }
                Err(RecvError::Lagged(missed)) => metrics().rows_missed(missed),
                Err(RecvError::Closed) => return,
            }
        }
    });
}

/// Stores rows until it is told to stop, and then those that are left.
///
/// A batch that failed is tried again as it was: a part of it may be stored, and the charge of its
/// egress is known by the first row of the batch. With more rows, it would be taken for known.
async fn store_all(queue: RowQueue, store: Arc<dyn RowStore>, stopping: Arc<Notify>) {
    let mut is_stopping = false;
    loop {
        let Some(batch) = queue.batch() else {
            if is_stopping {
                return;
            }
            let gathered = async {
                queue.pushed().await;
                tokio::time::sleep(GATHER_INTERVAL).await;
            };
            tokio::select! {
                () = gathered => {}
                () = stopping.notified() => is_stopping = true,
            }
            continue;
        };
        while let Err(error) = store_batch(&queue, &*store, &batch).await {
            note_failure(&error, &batch, is_stopping);
            drop(error);
            if is_stopping {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_INTERVAL) => {}
                () = stopping.notified() => is_stopping = true,
            }
        }
    }
}

fn note_failure(error: &Failure, batch: &RowBatch, is_last: bool) {
    let (error, rows) = (error as &dyn std::error::Error, batch.rows.len());
    if is_last {
        tracing::warn!(error, rows, "rows not stored");
    } else {
        tracing::warn!(error, rows, "rows not stored; retrying");
    }
}

async fn store_batch(
    queue: &RowQueue,
    store: &dyn RowStore,
    batch: &RowBatch,
) -> Result<(), Failure> {
    let stored = store.put(&batch.rows).await?;
    queue.done(batch);
    metrics().rows_stored("call", stored.calls);
    metrics().rows_stored("connection", stored.connections);
    metrics().charged("models", stored.charged.models);
    metrics().charged("egress", stored.charged.egress);
    Ok(())
}

async fn forget_old(store: Arc<dyn RowStore>, keep: Duration) {
    loop {
        let before = OffsetDateTime::now_utc() - keep;
        if let Err(error) = store.forget(before).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot forget old rows");
            drop(error);
        }
        tokio::time::sleep(FORGET_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use belljar_domain::SandboxId;
    use belljar_domain::network::{Bytes, Decision, Kind, Reason};
    use belljar_domain::rows::{ConnectionRow, RowBody};
    use belljar_journal::{LedgerDirectory, LedgerStore as _, RowDirectory, UsageQuery};
    use belljar_objects::Digest;

    use super::*;

    const DAY: u64 = 86_400_000_000;

    fn row(tenant: &str, out: u64) -> AttributedRow {
        AttributedRow {
            id: String::new(),
            tenant: tenant.to_owned(),
            sandbox: SandboxId::from_random([1; 16]),
            attribution: None,
            began: DAY,
            micros: 1,
            body: RowBody::Connection(ConnectionRow {
                sequence: 1,
                kind: Kind::Connection,
                decision: Decision::Allowed,
                reason: Reason::Open,
                host: None,
                port: None,
                operation: None,
                method: None,
                path: None,
                status: None,
                bytes: Bytes { out, into: 0 },
                charge: None,
                is_late: false,
            }),
        }
    }

    /// The charges of a tenant are stored, those of another fail, and new rows come: the batch is
    /// tried again as it was, and then the new ones.
    #[tokio::test]
    async fn bytes_that_come_after_a_failed_batch_are_charged_too() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("ledger");
        let ledger = LedgerDirectory::new(root.clone());
        // One tenant's folder cannot be made: a file is in its place.
        let tenants = ["ann", "bob"];
        let folder_of = |tenant: &str| root.join(Digest::of(tenant.as_bytes()).to_string());
        let mut folders = tenants.map(|tenant| (folder_of(tenant), tenant));
        // Files are written in the order of their paths.
        folders.sort();
        let [(_, stored), (blocked, failing)] = folders;
        std::fs::create_dir_all(&root).unwrap();
        std::fs::write(&blocked, "").unwrap();
        let rows = RowDirectory::new(
            folder.path().join("rows"),
            folder.path().join("runs"),
            ledger.clone(),
        );
        let queue = RowQueue::new().unwrap();
        [stored, failing].iter().for_each(|tenant| queue.push(row(tenant, 10)));
        let keeper = RowKeeper::start(queue.clone(), Arc::new(rows), KEEP_ROWS);
        let query = UsageQuery {
            tenant: None,
            from: OffsetDateTime::UNIX_EPOCH,
            to: OffsetDateTime::UNIX_EPOCH + time::Duration::days(9),
            run: None,
            by: Vec::new(),
            limit: 10,
            after: 0,
        };
        let of_stored = UsageQuery { tenant: Some(stored.to_owned()), ..query.clone() };
        while ledger.usage(&of_stored).await.unwrap().total.amounts.egress_bytes < 10 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        queue.push(row(stored, 300));
        std::fs::remove_file(&blocked).unwrap();
        keeper.stop().await;
        assert_eq!(queue.batch(), None);
        assert_eq!(ledger.usage(&query).await.unwrap().total.amounts.egress_bytes, 320);
    }
}
