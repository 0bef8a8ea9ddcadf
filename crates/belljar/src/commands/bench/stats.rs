//! Percentiles of a list of times.

use std::time::Duration;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Summary {
    pub(super) count: usize,
    pub(super) p50_ms: f64,
    pub(super) p95_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) mean_ms: f64,
}

impl Summary {
    /// `None` for no times at all.
    pub(super) fn of(times: &[Duration]) -> Option<Self> {
        let mut millis: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        millis.sort_by(f64::total_cmp);
        let count = millis.len();
        // The nearest rank, in whole numbers: ceil(count × percent / 100).
        let rank = |percent: usize| millis.get((count * percent).div_ceil(100).max(1) - 1).copied();
        Some(Self {
            count,
            p50_ms: rank(50)?,
            p95_ms: rank(95)?,
            p99_ms: rank(99)?,
            mean_ms: times.iter().sum::<Duration>().as_secs_f64() * 1e3
                / f64::from(u32::try_from(count).ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let times: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        let summary = Summary::of(&times).unwrap();
        assert_eq!((summary.p50_ms, summary.p95_ms, summary.p99_ms), (50.0, 95.0, 99.0));
        assert!((summary.mean_ms - 50.5).abs() < 1e-9);
    }

    #[test]
    fn one_time_is_every_percentile_and_none_is_none() {
        let one = Summary::of(&[Duration::from_millis(7)]).unwrap();
        assert_eq!((one.p50_ms, one.p99_ms), (7.0, 7.0));
        assert_eq!(Summary::of(&[]), None);
    }
}
