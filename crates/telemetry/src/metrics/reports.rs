//! Metrics of reports.

use std::fmt;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::family::{Described, Metric};

/// Counts of the reports that this process rendered.
pub struct ReportMetrics {
    rendered: Metric<0, Counter>,
    bytes: Metric<0, Counter>,
}

impl ReportMetrics {
    pub(super) fn new() -> Self {
        Self {
            rendered: Metric::new("reports_rendered", "Reports of runs that were rendered", &[]),
            bytes: Metric::new("report_bytes", "Bytes of rendered reports", &[]),
        }
    }

    pub(super) fn enter(&self, registry: &mut Registry) -> Vec<Described> {
        let Self { rendered, bytes } = self;
        vec![rendered.enter(registry), bytes.enter(registry)]
    }

    /// A report of so many bytes was rendered.
    pub fn rendered(&self, bytes: usize) {
        self.rendered.at([]).inc();
        self.bytes.at([]).inc_by(bytes as u64);
    }
}

impl fmt::Debug for ReportMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReportMetrics").finish_non_exhaustive()
    }
}
