//! The charge log of the gateway process, as the node sees it: rows that are stored, and reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use belljar_peer_proto::gateway::{ChargeLogReport, ToGateway};
use tokio::sync::broadcast;

use super::{Gateway, Shared};

/// Reports that wait for a slow subscriber before it misses some.
const REPORTS_KEPT: usize = 256;
/// Ids of one message: a packet holds more.
const MAX_IDS: usize = 500;

#[derive(Debug)]
pub(super) struct Charges {
    /// Rows are taken, so each new process sends those that others left.
    is_replayed: AtomicBool,
    reports: broadcast::Sender<ChargeLogReport>,
}

impl Default for Charges {
    fn default() -> Self {
        Self { is_replayed: AtomicBool::new(false), reports: broadcast::Sender::new(REPORTS_KEPT) }
    }
}

impl Gateway {
    /// Follows the reports of the charge log from now on.
    pub fn charge_reports(&self) -> broadcast::Receiver<ChargeLogReport> {
        self.shared.charges.reports.subscribe()
    }

    /// Has the rows sent of requests that gateways left when they were killed, now and whenever the
    /// process is started again. To be called once [`Self::rows`] are taken.
    pub fn replay_charges(&self) {
        self.shared.charges.is_replayed.store(true, Ordering::Relaxed);
        self.shared.replay_charges();
    }

    /// Tells the process which rows are stored, by the ids of their charges. It keeps no gateway
    /// alive.
    pub fn acknowledger(&self) -> impl Fn(&[String]) + Send + Sync + 'static {
        let weak = Arc::downgrade(&self.shared);
        move |ids| {
            let Some(shared) = weak.upgrade() else { return };
            for ids in ids.chunks(MAX_IDS) {
                shared.say(&ToGateway::Charged { ids: ids.to_vec() });
            }
        }
    }
}

impl Shared {
    pub(super) fn replay_charges(&self) {
        if self.charges.is_replayed.load(Ordering::Relaxed) {
            self.say(&ToGateway::Replay);
        }
    }

    pub(super) fn note_charge_log(&self, report: ChargeLogReport) {
        // Without a subscriber, it is dropped.
        let _ = self.charges.reports.send(report);
    }
}
