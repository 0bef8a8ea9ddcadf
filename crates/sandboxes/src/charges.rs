//! The charge log of a gateway, and the queue that its rows go to.

use std::time::Duration;

use belljar_node::Gateway;
use belljar_telemetry::metrics;
use tokio::sync::broadcast::error::RecvError;

use crate::row_queue::RowQueue;

/// The folder of a gateway's charge log, below its data.
pub const CHARGE_LOG_FOLDER: &str = "charges";

/// Has a gateway forget the requests whose rows the queue has stored, and send those that it left
/// when it was killed. The rows of the gateway must be taken before.
pub fn settle_charges(gateway: &Gateway, queue: &RowQueue) {
    queue.on_done(gateway.acknowledger());
    let mut reports = gateway.charge_reports();
    tokio::spawn(async move {
        loop {
            match reports.recv().await {
                Ok(report) => {
                    let seconds = Duration::from_micros(report.append_micros);
                    metrics().charge_log_appended(report.appends, seconds, report.syncs);
                    metrics().charge_log_bytes(report.bytes);
                    metrics().charges_replayed("ended", report.replayed_ended);
                    metrics().charges_replayed("estimated", report.replayed_estimated);
                    metrics().charge_log_failed("write", report.write_errors);
                    metrics().charge_log_failed("unreadable", report.unreadable);
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    });
    gateway.replay_charges();
}
