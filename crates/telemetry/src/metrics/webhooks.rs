//! Metrics of webhooks.

use std::fmt;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::family::{Described, Metric, Seconds};

/// Counts of the messages that this process sent to webhooks, and the queue of all.
pub struct WebhookMetrics {
    attempts: Metric<1, Counter>,
    waiting: Metric<0, Gauge>,
    oldest_seconds: Metric<0, Seconds>,
}

impl WebhookMetrics {
    pub(super) fn new() -> Self {
        Self {
            attempts: Metric::new(
                "webhook_attempts",
                "Attempts to deliver a message to a webhook, by result",
                &["result"],
            ),
            waiting: Metric::new("webhook_waiting", "Messages that wait for a webhook", &[]),
            oldest_seconds: Metric::new(
                "webhook_oldest_seconds",
                "Age of the oldest message that waits for a webhook",
                &[],
            ),
        }
    }

    pub(super) fn enter(&self, registry: &mut Registry) -> Vec<Described> {
        let Self { attempts, waiting, oldest_seconds } = self;
        vec![attempts.enter(registry), waiting.enter(registry), oldest_seconds.enter(registry)]
    }

    /// An attempt ended: `delivered`, `retried` or `failed`.
    pub fn attempted(&self, result: &'static str) {
        self.attempts.at([result.into()]).inc();
    }

    pub fn set_queue(&self, waiting: u64, oldest: Duration) {
        self.waiting.at([]).set(i64::try_from(waiting).unwrap_or(i64::MAX));
        self.oldest_seconds.at([]).set(oldest.as_secs_f64());
    }
}

impl fmt::Debug for WebhookMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookMetrics").finish_non_exhaustive()
    }
}
