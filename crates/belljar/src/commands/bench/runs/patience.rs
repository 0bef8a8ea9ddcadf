//! Waits for as long as something advances.
//!
//! A machine that is busy takes minutes for what an idle one does in a second, so no time is too
//! long by itself. Waiting ends when nothing has advanced for a while, which is longer on a machine
//! whose processes wait for the CPU.

use std::fs;
use std::time::{Duration, Instant};

use super::super::machine;
use crate::output::Printer;

/// Time between two lines that say how far it is.
const NOTE_INTERVAL: Duration = Duration::from_secs(10);
/// CPU time of a process that counts as an advance. One that is idle takes longer for it than
/// there is patience.
const CPU_STEP: Duration = Duration::from_secs(2);
/// The most that patience is multiplied by.
const MAX_SLOWNESS: f64 = 10.0;

/// Returns how much longer everything takes because processes wait for the CPU: 1 on an idle
/// machine.
pub(super) fn slowness() -> f64 {
    let text = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    slowness_of(waiting_share(&text).unwrap_or(0.0))
}

/// The share of the last 10 s in which some process waited for the CPU.
fn waiting_share(pressure: &str) -> Option<f64> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    let average = some.split(' ').find_map(|field| field.strip_prefix("avg10="))?;
    Some(average.parse::<f64>().ok()? / 100.0)
}

fn slowness_of(waiting: f64) -> f64 {
    (1.0 / (1.0 - waiting.clamp(0.0, 0.99))).min(MAX_SLOWNESS)
}

/// Patience with one thing.
#[derive(Debug)]
pub(super) struct Patience<T> {
    limit: Duration,
    began: Instant,
    advanced: Instant,
    noted: Instant,
    state: T,
}

impl<T: PartialEq> Patience<T> {
    /// Patience that ends `limit` after the last advance, on an idle machine.
    pub(super) fn new(limit: Duration, state: T) -> Self {
        let now = Instant::now();
        Self { limit, began: now, advanced: now, noted: now, state }
    }

    /// Returns true if nothing has advanced for too long.
    pub(super) fn is_over(&mut self, state: T) -> bool {
        if state != self.state {
            self.state = state;
            self.advanced = Instant::now();
        }
        let idle = self.advanced.elapsed();
        // The pressure is read only when it may matter.
        idle > self.limit && idle > self.limit.mul_f64(slowness())
    }

    /// Says how far it is, now and then.
    pub(super) fn note(&mut self, printer: &Printer, text: impl FnOnce() -> String) {
        if self.noted.elapsed() < NOTE_INTERVAL {
            return;
        }
        self.noted = Instant::now();
        let seconds = self.began.elapsed().as_secs();
        printer.note(format_args!("  {seconds:>4} s: {}", text()));
    }

    /// The reason for the end of patience.
    pub(super) fn reason(&self) -> String {
        format!(
            "nothing advanced for {:.0} s; everything takes {:.1} times as long as on an idle machine",
            self.advanced.elapsed().as_secs_f64(),
            slowness()
        )
    }
}

/// The advance of a process: lines of its log, and its time on the CPU with all that is below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessAdvance {
    lines: usize,
    cpu_steps: u128,
}

impl ProcessAdvance {
    pub(super) fn of(pid: Option<u32>, log: &str) -> Self {
        let cpu = pid.map(machine::cpu_of).unwrap_or_default();
        Self { lines: log.lines().count(), cpu_steps: cpu.as_millis() / CPU_STEP.as_millis() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_is_slow() {
        let text = "some avg10=75.00 avg60=1.00 avg300=0.00 total=5\nfull avg10=0.00\n";
        let waiting = waiting_share(text).unwrap();
        assert!((slowness_of(waiting) - 4.0).abs() < 1e-9);
        assert_eq!(waiting_share(""), None);
        assert!((slowness_of(0.0) - 1.0).abs() < 1e-9);
        assert!((slowness_of(1.0) - MAX_SLOWNESS).abs() < 1e-9);
    }

    #[test]
    fn patience_ends_when_nothing_advances() {
        let mut patience = Patience::new(Duration::from_secs(60), 1);
        assert!(!patience.is_over(1), "{}", patience.reason());
        patience.limit = Duration::ZERO;
        // Some time passes.
        while !patience.is_over(1) {}
        let before = patience.advanced;
        patience.limit = Duration::from_secs(60);
        assert!(!patience.is_over(2));
        assert!(patience.advanced > before, "it has advanced");
    }
}
