//! Sends rows of calls and connections to control, in batches.

use std::sync::Arc;
use std::time::Duration;

use belljar_actions::{RowBatch, RowQueue};
use belljar_bus::member::SendRows;
use belljar_telemetry::metrics;
use http::StatusCode;

use super::PATIENCE;
use super::ask::{AskError, Control};
use crate::behind::Cluster;

/// Longest wait of a row for others.
const GATHER_INTERVAL: Duration = Duration::from_millis(500);
/// Wait before a batch that control did not store is sent again.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Sends rows for good. A batch is sent until it is stored; meanwhile the queue is bounded.
pub(super) async fn send(cluster: Cluster, control: Arc<Control>, queue: RowQueue) {
    let mut has_failed = false;
    loop {
        let Some(batch) = queue.batch() else {
            queue.pushed().await;
            tokio::time::sleep(GATHER_INTERVAL).await;
            continue;
        };
        match send_batch(&cluster, &control, &queue, &batch).await {
            Ok(()) => has_failed = false,
            Err(error) => {
                if !std::mem::replace(&mut has_failed, true) {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "rows not sent to control; retrying"
                    );
                }
                drop(error);
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
    }
}

/// Sends what is left when the node stops, as far as control takes it in time.
pub(super) async fn send_rest(cluster: &Cluster, control: &Control, queue: &RowQueue) {
    let rest = async {
        while let Some(batch) = queue.batch() {
            if send_batch(cluster, control, queue, &batch).await.is_err() {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(PATIENCE * 2, rest).await;
}

async fn send_batch(
    cluster: &Cluster,
    control: &Control,
    queue: &RowQueue,
    batch: &RowBatch,
) -> Result<(), AskError> {
    let Some(registered) = cluster.registered() else { return Err(AskError::NoControl) };
    let message = SendRows { number: registered.number, rows: batch.rows.clone() };
    match control.rows(&message).await {
        Ok(_) => {
            queue.done(batch);
            Ok(())
        }
        // Control cannot read it, and never will: it must not hold up what comes after it.
        Err(AskError::Refused(_, StatusCode::BAD_REQUEST, _)) => {
            metrics().rows_dropped("refused", batch.rows.len() as u64);
            queue.done(batch);
            Ok(())
        }
        Err(error) => Err(error),
    }
}
