//! The work of the charge log beside requests: rows that are sent again, and reports.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use belljar_domain::network::Row;
use belljar_peer_proto::gateway::{ChargeLogReport, FromGateway};
use tokio::sync::mpsc;

use crate::charge_log::{ChargeLog, Durability, RESEND_AFTER};
use crate::shared::{Gateway, StartError};

/// Rows of one message.
const BATCH: usize = 64;
/// Interval of reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Reports between two looks for rows that were lost on their way.
const LOOK_REPORTS: u32 = 60;

/// Opens the log of this process, and works on it for as long as the gateway is there.
pub(crate) fn start(
    root: &Path,
    epoch: String,
    durability: Durability,
    events: mpsc::Sender<FromGateway>,
) -> Result<Arc<ChargeLog>, StartError> {
    let log = Arc::new(ChargeLog::open(root, epoch).map_err(StartError::ChargeLog)?);
    log.set_durability(durability);
    tokio::spawn(work(Arc::downgrade(&log), events));
    Ok(log)
}

async fn work(weak: Weak<ChargeLog>, events: mpsc::Sender<FromGateway>) {
    let mut last = ChargeLogReport::default();
    for look in (1..=LOOK_REPORTS).cycle() {
        tokio::time::sleep(REPORT_INTERVAL).await;
        let Some(log) = weak.upgrade() else { return };
        let report = log.report();
        let is_news = report != ChargeLogReport { bytes: last.bytes, ..ChargeLogReport::default() };
        if is_news && events.send(FromGateway::ChargeLog { report }).await.is_err() {
            return;
        }
        last = report;
        if let Some(before) = Instant::now().checked_sub(RESEND_AFTER)
            && (look == LOOK_REPORTS || log.is_next_batch_due(before))
        {
            send(log, &events, move |log| Ok(log.overdue(before))).await;
        }
    }
}

/// Sends the rows that `read` finds. They are read where no request waits for the thread.
async fn send(
    log: Arc<ChargeLog>,
    events: &mpsc::Sender<FromGateway>,
    read: impl FnOnce(&ChargeLog) -> std::io::Result<Vec<Row>> + Send + 'static,
) {
    let rows = match tokio::task::spawn_blocking(move || read(&log)).await {
        Ok(Ok(rows)) => rows,
        Ok(Err(error)) => {
            let error = &error as &dyn std::error::Error;
            return tracing::error!(error, "cannot read the charge log");
        }
        // The process is about to end.
        Err(_) => return,
    };
    for rows in rows.chunks(BATCH) {
        if events.send(FromGateway::Rows { rows: rows.to_vec() }).await.is_err() {
            return;
        }
    }
}

impl Gateway {
    /// Sends the rows of requests that gateways left in their logs when they were killed.
    pub(crate) fn replay(&self) {
        let Some(log) = self.charge_log().cloned() else { return };
        let events = self.events();
        tokio::spawn(async move { send(log, &events, ChargeLog::take_over).await });
    }

    /// Forgets requests whose rows are stored.
    pub(crate) fn charged(&self, ids: &[String]) {
        if let Some(log) = self.charge_log() {
            log.charged(ids);
        }
    }
}
