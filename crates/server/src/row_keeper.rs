//! Keeps the rows of calls and connections that this process writes, and forgets old ones.

use std::sync::Arc;
use std::time::Duration;

use belljar_actions::{RowBatch, RowQueue};
use belljar_journal::{Failure, RowStore};
use belljar_model::rows::AttributedRow;
use belljar_node::Gateway;
use belljar_telemetry::metrics;
use time::OffsetDateTime;
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
    queue: RowQueue,
    store: Arc<dyn RowStore>,
    storing: JoinHandle<()>,
    forgetting: JoinHandle<()>,
}

impl RowKeeper {
    /// Starts to store rows, and to forget those that are older than `keep`.
    pub fn start(queue: RowQueue, store: Arc<dyn RowStore>, keep: Duration) -> Self {
        let storing = tokio::spawn(store_all(queue.clone(), store.clone()));
        let forgetting = tokio::spawn(forget_old(store.clone(), keep));
        Self { queue, store, storing, forgetting }
    }

    /// Stores what is left.
    pub async fn stop(self) {
        self.storing.abort();
        self.forgetting.abort();
        // A batch that it was at may be stored again: rows are stored once.
        let _ = self.storing.await;
        while let Some(batch) = self.queue.batch() {
            if let Err(error) = store_batch(&self.queue, &*self.store, &batch).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, rows = batch.rows.len(), "rows not stored");
                return;
            }
        }
    }
}

/// Passes rows of model requests on to a queue, from a gateway that serves no sandbox.
pub fn forward_rows(gateway: &Gateway, queue: RowQueue) {
    let mut rows = gateway.rows();
    tokio::spawn(async move {
        loop {
            match rows.recv().await {
                Ok(batch) => {
                    let of_runs = batch.iter().filter(|row| row.subject.run.is_some());
                    of_runs.for_each(|row| queue.push(AttributedRow::of_connection(row)));
                }
                Err(RecvError::Lagged(missed)) => metrics().rows_missed(missed),
                Err(RecvError::Closed) => return,
            }
        }
    });
}

async fn store_all(queue: RowQueue, store: Arc<dyn RowStore>) {
    loop {
        let Some(batch) = queue.batch() else {
            queue.pushed().await;
            tokio::time::sleep(GATHER_INTERVAL).await;
            continue;
        };
        if let Err(error) = store_batch(&queue, &*store, &batch).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "rows not stored; retrying");
            drop(error);
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
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
