//! Latencies of a model: log-normal, p50 2 s and p99 20 s, each from the seed alone.

use std::time::Duration;

const MEDIAN_SECONDS: f64 = 2.0;
/// ln(p99 / p50) over the 99th percentile of the standard normal distribution.
const SIGMA: f64 = std::f64::consts::LN_10 / 2.326_347_874;
/// No model is waited for longer.
const MAX_SECONDS: f64 = 90.0;

/// The time until a run's answer of this turn.
pub(super) fn latency(seed: u64, run: u32, turn: u32) -> Duration {
    let number = mix(seed ^ mix((u64::from(run) << 32) | u64::from(turn)));
    let (one, other) = (uniform(mix(number ^ 1)), uniform(mix(number ^ 2)));
    let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos();
    Duration::from_secs_f64((MEDIAN_SECONDS * (SIGMA * normal).exp()).min(MAX_SECONDS))
}

/// Between 0 and 1, and never 0.
fn uniform(bits: u64) -> f64 {
    ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// SplitMix64.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_have_the_percentiles_of_the_issue_and_follow_from_the_seed() {
        let all = |seed| {
            let all = (0..20_000).map(|run| latency(seed, run, 0).as_secs_f64());
            let mut all: Vec<f64> = all.collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let sorted = all(1);
        let (p50, p99) = (sorted[10_000], sorted[19_800]);
        assert!((1.9..2.1).contains(&p50) && (18.0..22.0).contains(&p99), "{p50} {p99}");
        assert_eq!(sorted, all(1));
        assert_ne!(sorted, all(2));
    }
}
