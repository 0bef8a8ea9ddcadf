//! How much a sandbox may use of the world: buckets and totals.
//!
//! A bucket is one number, the time at which it would be full again. Taking
//! from it moves that time; whoever moved it too far ahead waits for the rest.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use belljar_domain::network::{Reason, Throttle};

/// What one sandbox has used. Limits are read from its policy each time, so a
/// new policy holds at once; totals go on counting.
#[derive(Debug)]
pub(crate) struct Meter {
    start: Instant,
    connections: AtomicU32,
    turned: AtomicU32,
    arrivals: Bucket,
    bytes: Bucket,
    out: AtomicU64,
    into: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Out,
    In,
}

const SECOND: u64 = 1_000_000_000;
/// How much may go at once: connections by ten seconds, bytes by a quarter.
const ARRIVALS_AHEAD: u64 = 10 * SECOND;
const BYTES_AHEAD: u64 = SECOND / 4;
/// Connections that are told, at the same time, that there is no room for them.
const MOST_TURNED: u32 = 32;

impl Meter {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            connections: AtomicU32::new(0),
            turned: AtomicU32::new(0),
            arrivals: Bucket::default(),
            bytes: Bucket::default(),
            out: AtomicU64::new(0),
            into: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Counts a new connection, unless there are too many.
    pub(crate) fn arrive(&self, throttle: &Throttle) -> Result<(), Reason> {
        let more = |now: u32| (now < throttle.connections).then(|| now + 1);
        self.connections
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| Reason::TooMany)?;
        let rate = u64::from(throttle.connections_per_second);
        if self.arrivals.try_take(1, rate, ARRIVALS_AHEAD, self.now()) {
            return Ok(());
        }
        self.leave();
        Err(Reason::TooMany)
    }

    /// A connection that had arrived has ended.
    pub(crate) fn leave(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts one that is told why it is turned away, unless many are.
    pub(crate) fn turn_away(&self) -> Result<(), Reason> {
        let more = |now: u32| (now < MOST_TURNED).then(|| now + 1);
        let counted = self.turned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.map(drop).map_err(|_| Reason::TooMany)
    }

    pub(crate) fn turned_away(&self) {
        self.turned.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many bytes may still move.
    pub(crate) fn left(&self, way: Way, throttle: &Throttle) -> u64 {
        let (total, most) = self.total(way, throttle);
        most.saturating_sub(total.load(Ordering::Relaxed))
    }

    fn total(&self, way: Way, throttle: &Throttle) -> (&AtomicU64, u64) {
        match way {
            Way::Out => (&self.out, throttle.bytes_out),
            Way::In => (&self.into, throttle.bytes_in),
        }
    }

    /// Counts bytes that move; the wait that they cost, or `Err` when they were
    /// one too many.
    pub(crate) fn take(
        &self,
        way: Way,
        bytes: u64,
        throttle: &Throttle,
    ) -> Result<Duration, Reason> {
        let (total, most) = self.total(way, throttle);
        if total.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > most {
            return Err(Reason::BytesSpent);
        }
        let wait = self.bytes.take(bytes, throttle.bytes_per_second, BYTES_AHEAD, self.now());
        Ok(Duration::from_nanos(wait))
    }
}

#[derive(Debug, Default)]
struct Bucket(AtomicU64);

fn cost(amount: u64, rate: u64) -> u64 {
    let cost = u128::from(amount) * u128::from(SECOND) / u128::from(rate.max(1));
    u64::try_from(cost).unwrap_or(u64::MAX)
}

impl Bucket {
    /// Takes it in any case; nanoseconds to wait for it.
    fn take(&self, amount: u64, rate: u64, ahead: u64, now: u64) -> u64 {
        let cost = cost(amount, rate);
        let mut full_at = 0;
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |at| {
            full_at = at.max(now).saturating_add(cost);
            Some(full_at)
        });
        full_at.saturating_sub(now).saturating_sub(ahead)
    }

    /// Takes it if that costs no wait.
    fn try_take(&self, amount: u64, rate: u64, ahead: u64, now: u64) -> bool {
        let cost = cost(amount, rate);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |at| {
            let full_at = at.max(now).saturating_add(cost);
            (full_at - now <= ahead).then_some(full_at)
        });
        taken.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_rate_after_what_it_holds() {
        let bucket = Bucket::default();
        // 100 a second, two seconds' worth at once.
        assert!((0..200).all(|_| bucket.try_take(1, 100, 2 * SECOND, 0)));
        assert!(!bucket.try_take(1, 100, 2 * SECOND, 0));
        assert!(bucket.try_take(1, 100, 2 * SECOND, SECOND / 100));
        assert!(!bucket.try_take(1, 100, 2 * SECOND, SECOND / 100));
    }

    #[test]
    fn bytes_wait_for_what_is_over_the_rate() {
        let bucket = Bucket::default();
        assert_eq!(bucket.take(250, 1000, SECOND / 4, 0), 0);
        assert_eq!(bucket.take(1000, 1000, SECOND / 4, 0), SECOND);
    }

    #[test]
    fn totals_are_never_exceeded_unnoticed() {
        let meter = Meter::new();
        let throttle = Throttle { bytes_out: 10, ..Throttle::default() };
        assert!(meter.take(Way::Out, 10, &throttle).is_ok());
        assert_eq!(meter.take(Way::Out, 1, &throttle), Err(Reason::BytesSpent));
        assert!(meter.take(Way::In, 11, &throttle).is_ok());
    }

    #[test]
    fn connections_at_once_are_bounded() {
        let meter = Meter::new();
        let throttle = Throttle { connections: 2, ..Throttle::default() };
        assert!(meter.arrive(&throttle).is_ok() && meter.arrive(&throttle).is_ok());
        assert_eq!(meter.arrive(&throttle), Err(Reason::TooMany));
        meter.leave();
        assert!(meter.arrive(&throttle).is_ok());
    }
}
