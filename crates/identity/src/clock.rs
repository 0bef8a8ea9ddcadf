//! The platform's clock: the database's, carried forward by this host's monotonic clock.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustls_pki_types::UnixTime;
use time::OffsetDateTime;
use tokio_rustls::rustls::time_provider::TimeProvider;

/// The time that certificates and signatures are judged by; cheap to clone.
///
/// A host whose own clock jumps must not lose its certificate's validity, so the
/// host's clock counts only until control, or the database, has said what time it is.
#[derive(Debug, Clone, Default)]
pub struct PlatformClock(Arc<RwLock<Option<Reading>>>);

/// Milliseconds since 1970, and the moment at which they were right.
#[derive(Debug, Clone, Copy)]
struct Reading {
    millis: u64,
    at: Instant,
}

impl PlatformClock {
    /// Sets the clock to milliseconds since 1970.
    pub fn set(&self, millis: u64) {
        let reading = Reading { millis, at: Instant::now() };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(reading);
    }

    /// Milliseconds since 1970.
    pub fn now(&self) -> u64 {
        match *self.0.read().unwrap_or_else(PoisonError::into_inner) {
            Some(Reading { millis, at }) => millis.saturating_add(whole(at.elapsed())),
            None => whole(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
        }
    }

    pub(crate) fn date(&self) -> OffsetDateTime {
        let seconds = i64::try_from(self.now() / 1000).unwrap_or(i64::MAX);
        OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }
}

impl TimeProvider for PlatformClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_millis(self.now())))
    }
}

fn whole(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platform_clock_replaces_the_hosts() {
        let clock = PlatformClock::default();
        assert!(clock.now() > 1_700_000_000_000, "the host's own, at first");
        clock.set(5_000);
        assert!((5_000..60_000).contains(&clock.now()));
        assert!((5..60).contains(&clock.date().unix_timestamp()));
    }
}
