//! Metrics of the gateway's charge log.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Metrics;
use super::family::{Described, Metric, SecondsSpent};

pub(super) struct ChargeLogMetrics {
    appends: Metric<0, Counter>,
    append_seconds: Metric<0, SecondsSpent>,
    syncs: Metric<0, Counter>,
    bytes: Metric<0, Gauge>,
    replayed: Metric<1, Counter>,
    failures: Metric<1, Counter>,
}

impl ChargeLogMetrics {
    pub(super) fn new() -> Self {
        Self {
            appends: Metric::new("charge_log_appends", "Records written to the charge log", &[]),
            append_seconds: Metric::new(
                "charge_log_append_seconds",
                "Time that requests waited for the charge log, summed",
                &[],
            ),
            syncs: Metric::new(
                "charge_log_syncs",
                "Times that the charge log was brought to the disk for waiting requests",
                &[],
            ),
            bytes: Metric::new("charge_log_bytes", "Size of the charge log", &[]),
            replayed: Metric::new(
                "charges_replayed",
                "Requests that were read from the charge log of a killed gateway, by kind",
                &["kind"],
            ),
            failures: Metric::new(
                "charge_log_failures",
                "Records that could not be written, or read, by kind",
                &["kind"],
            ),
        }
    }

    pub(super) fn enter(&self, registry: &mut Registry) -> Vec<Described> {
        let Self { appends, append_seconds, syncs, bytes, replayed, failures } = self;
        vec![
            appends.enter(registry),
            append_seconds.enter(registry),
            syncs.enter(registry),
            bytes.enter(registry),
            replayed.enter(registry),
            failures.enter(registry),
        ]
    }
}

impl Metrics {
    /// Records were written, which took so long in all, and some waited for the disk.
    pub fn charge_log_appended(&self, appends: u64, seconds: Duration, syncs: u64) {
        self.charge_log.appends.at([]).inc_by(appends);
        self.charge_log.append_seconds.at([]).inc_by(seconds.as_secs_f64());
        self.charge_log.syncs.at([]).inc_by(syncs);
    }

    pub fn charge_log_bytes(&self, bytes: u64) {
        self.charge_log.bytes.at([]).set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Requests of a gateway that was killed: `ended`, or `estimated` as they were under way.
    pub fn charges_replayed(&self, kind: &'static str, requests: u64) {
        if requests > 0 {
            self.charge_log.replayed.at([kind.into()]).inc_by(requests);
        }
    }

    /// A record could not be written (`write`) or read (`unreadable`).
    pub fn charge_log_failed(&self, kind: &'static str, records: u64) {
        if records > 0 {
            self.charge_log.failures.at([kind.into()]).inc_by(records);
        }
    }
}
