//! The share of CPU time that the host kept for itself, over time.
//!
//! A case that failed while the host stole the cores may have failed by that alone.
//! Only then is it run again.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

/// Above this share, a failure that depends on time says nothing.
pub(crate) const TOO_MUCH: f64 = 0.2;

const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

/// Samples `/proc/stat` from its start until the program ends.
#[derive(Debug, Clone)]
pub(crate) struct StealMeter {
    samples: Arc<Mutex<Vec<(SystemTime, Ticks)>>>,
}

/// Clock ticks of all cores since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    stolen: u64,
}

impl StealMeter {
    pub(crate) fn start() -> Self {
        let meter = Self { samples: Arc::default() };
        meter.sample();
        let own = meter.clone();
        #[expect(clippy::disallowed_methods, reason = "it samples at an interval")]
        thread::spawn(move || {
            loop {
                thread::sleep(SAMPLE_INTERVAL);
                own.sample();
            }
        });
        meter
    }

    fn sample(&self) {
        let Some(ticks) = std::fs::read_to_string("/proc/stat").ok().and_then(|text| parse(&text))
        else {
            return;
        };
        self.samples
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((SystemTime::now(), ticks));
    }

    fn last(&self) -> Option<SystemTime> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.last().map(|(at, _)| *at)
    }

    /// The share of the CPU time asked for between two moments that was stolen.
    pub(crate) fn share(&self, from: SystemTime, to: SystemTime) -> f64 {
        if self.last().is_none_or(|last| last < to) {
            self.sample();
        }
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let before = samples.iter().rev().find(|(at, _)| *at <= from).or_else(|| samples.first());
        let after = samples.iter().find(|(at, _)| *at >= to).or_else(|| samples.last());
        match (before, after) {
            (Some((_, before)), Some((_, after))) => share(*before, *after),
            _ => 0.0,
        }
    }
}

/// Reads the first line of `/proc/stat`: proc(5).
fn parse(stat: &str) -> Option<Ticks> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let fields: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, stolen, ..] = fields[..] else {
        return None;
    };
    Some(Ticks { busy: user + nice + system + irq + softirq, stolen })
}

#[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
fn share(before: Ticks, after: Ticks) -> f64 {
    let stolen = after.stolen.saturating_sub(before.stolen);
    let asked = after.busy.saturating_sub(before.busy) + stolen;
    if asked == 0 { 0.0 } else { stolen as f64 / asked as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_ticks_are_a_share_of_those_asked_for() {
        let before = parse("cpu  100 0 50 9000 10 0 5 40 0 0\ncpu0 1 2 3\n").unwrap();
        assert_eq!(before, Ticks { busy: 155, stolen: 40 });
        let after = parse("cpu  160 0 70 9900 10 0 5 160 0 0\n").unwrap();
        assert!((share(before, after) - 0.6).abs() < 1e-9);
        assert_eq!(parse("intr 1 2 3"), None);
        assert_eq!(parse("cpu  1 2 3"), None);
    }

    #[test]
    fn a_moment_is_judged_by_the_samples_around_it() {
        let start = SystemTime::now();
        let at =
            |seconds, busy, stolen| (start + Duration::from_secs(seconds), Ticks { busy, stolen });
        let samples = vec![at(0, 0, 0), at(10, 100, 0), at(20, 110, 90), at(3600, 200, 90)];
        let meter = StealMeter { samples: Arc::new(Mutex::new(samples)) };
        let within = |from, to| {
            meter.share(start + Duration::from_secs(from), start + Duration::from_secs(to))
        };
        assert!(within(1, 9).abs() < 1e-9);
        assert!((within(11, 19) - 0.9).abs() < 1e-9);
    }
}
