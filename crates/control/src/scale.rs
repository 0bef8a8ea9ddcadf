//! Whether there are too few nodes, or too many: said to whoever can change it.
//!
//! Said when it changes, and once a minute while it lasts. Whoever hears it looks
//! at the figures and decides; nothing here waits for him.

use std::time::{Duration, Instant};

use axum::body::Body;
use http::{Request, Uri, header};
use serde::Serialize;

use crate::control::Control;

const LOOK: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(5);
/// A create that waits longer than this waits for a node.
const LATE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Signal {
    /// Creates wait, or soon will.
    Grow,
    /// A node's worth of places is free, beside a reserve.
    Shrink,
    Enough,
}

/// What is said.
#[derive(Debug, Clone, Serialize)]
struct Said {
    signal: Signal,
    nodes: usize,
    slots: u64,
    free: u64,
    waiting: usize,
    oldest_ms: u64,
}

impl Control {
    /// Tells `webhook` for ever.
    pub async fn tell_scale(&self, webhook: Uri) {
        let mut last = (Signal::Enough, Instant::now());
        loop {
            tokio::time::sleep(LOOK).await;
            let said = self.scale();
            let is_due = last.0 != said.signal
                || (said.signal != Signal::Enough && last.1.elapsed() >= AGAIN);
            if is_due && self.post(&webhook, &said).await {
                last = (said.signal, Instant::now());
            }
        }
    }

    fn scale(&self) -> Said {
        let now = Instant::now();
        let (waiting, oldest) = self.turns().waiting();
        let nodes = self.roster().len(now);
        let (slots, free) = (self.slots(), self.roster().free(now));
        let signal = signal(nodes, slots, free, oldest);
        let oldest_ms = u64::try_from(oldest.as_millis()).unwrap_or(u64::MAX);
        Said { signal, nodes, slots, free, waiting, oldest_ms }
    }

    /// Whether it was heard.
    async fn post(&self, webhook: &Uri, said: &Said) -> bool {
        let Ok(body) = serde_json::to_vec(said) else { return false };
        let request = Request::post(webhook)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body));
        let Ok(request) = request else { return false };
        let answer = tokio::time::timeout(PATIENCE, self.client().request(request)).await;
        let heard = matches!(answer, Ok(Ok(answer)) if answer.status().is_success());
        if !heard {
            tracing::warn!(%webhook, "scaling webhook failed");
        }
        heard
    }
}

fn signal(nodes: usize, slots: u64, free: u64, oldest: Duration) -> Signal {
    let nodes = u64::try_from(nodes).unwrap_or(u64::MAX);
    // Less than a tenth is free, or somebody waits.
    if nodes == 0 || oldest > LATE || free * 10 < slots {
        return Signal::Grow;
    }
    // Without one node a quarter would still be free.
    let one = slots / nodes;
    if nodes > 1 && free >= one && (free - one) * 4 >= slots - one {
        return Signal::Shrink;
    }
    Signal::Enough
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_before_nothing_is_free_and_shrinks_with_a_reserve() {
        let none = Duration::ZERO;
        assert_eq!(signal(0, 0, 0, none), Signal::Grow);
        assert_eq!(signal(3, 300, 29, none), Signal::Grow);
        assert_eq!(signal(3, 300, 200, Duration::from_secs(2)), Signal::Grow);
        assert_eq!(signal(3, 300, 60, none), Signal::Enough);
        assert_eq!(signal(3, 300, 149, none), Signal::Enough);
        assert_eq!(signal(3, 300, 150, none), Signal::Shrink);
        assert_eq!(signal(1, 100, 100, none), Signal::Enough);
    }
}
