//! Sends rows of calls and connections to control, in batches.

use std::sync::Arc;
use std::time::Duration;

use belljar_peer_proto::member::SendRows;
use belljar_sandboxes::{RowBatch, RowQueue};
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
    let mut parts = vec![batch.clone()];
    while let Some(part) = parts.pop() {
        let message = SendRows { number: registered.number, rows: part.rows.clone() };
        match control.rows(&message).await {
            Ok(_) => queue.done(&part),
            Err(AskError::Refused(_, StatusCode::BAD_REQUEST, _)) => {
                if let Some(bad) = split(&mut parts, part) {
                    metrics().rows_dropped("refused", 1);
                    queue.done(&bad);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Splits a part that control cannot read, and returns it if it is a single row. Control never
/// will read that: it must not hold up, or take with it, what comes after it.
fn split(parts: &mut Vec<RowBatch>, refused: RowBatch) -> Option<RowBatch> {
    match refused.halves() {
        Ok([first, second]) => {
            parts.extend([second, first]);
            None
        }
        Err(single) => Some(single),
    }
}

#[cfg(test)]
mod tests {
    use belljar_domain::rows::{AttributedRow, CallKind, CallRow, RowBody};
    use belljar_domain::{EndReason, SandboxId};

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

    #[test]
    fn of_a_batch_that_is_refused_only_the_bad_rows_are_dropped() {
        let queue = RowQueue::new().unwrap();
        (0..7).for_each(|began| queue.push(row(began)));
        let is_bad = |row: &AttributedRow| matches!(row.began, 2 | 6);
        let (mut stored, mut dropped) = (Vec::new(), Vec::new());
        let mut parts = vec![queue.batch().unwrap()];
        while let Some(part) = parts.pop() {
            if part.rows.iter().any(is_bad) {
                dropped.extend(split(&mut parts, part).into_iter().flat_map(|bad| bad.rows));
            } else {
                stored.extend(part.rows);
            }
        }
        let begun = |rows: &[AttributedRow]| rows.iter().map(|row| row.began).collect::<Vec<_>>();
        assert_eq!((begun(&stored), begun(&dropped)), (vec![0, 1, 3, 4, 5], vec![2, 6]));
    }
}
