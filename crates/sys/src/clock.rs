//! The processor's own clock.

use std::io;
use std::time::Duration;

use crate::check;

/// What two clocks show at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    ticks: u64,
    time: Duration,
}

impl Moment {
    /// Reads both clocks, as close to each other as can be had in a few tries.
    pub fn now() -> io::Result<Self> {
        let mut best = None;
        for _ in 0..8 {
            let before = ticks();
            let time = raw_time()?;
            let after = ticks();
            let width = after.wrapping_sub(before);
            if best.is_none_or(|(least, _)| width < least) {
                best = Some((width, Self { ticks: before + width / 2, time }));
            }
        }
        best.map(|(_, moment)| moment).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Whether `later` is at least `by` later.
    pub fn is_before(&self, later: &Self, by: Duration) -> bool {
        later.time.checked_sub(self.time).is_some_and(|passed| passed >= by)
    }

    /// How many thousand ticks a second has, judged by two moments. `None` when
    /// they are too close to each other to tell.
    pub fn kilohertz(&self, later: &Self) -> Option<u64> {
        let nanos = later.time.checked_sub(self.time)?.as_nanos();
        if nanos < 1_000_000 {
            return None;
        }
        let ticks = u128::from(later.ticks.checked_sub(self.ticks)?);
        u64::try_from(ticks * 1_000_000 / nanos).ok().filter(|rate| *rate > 0)
    }
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it only reads.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}

fn raw_time() -> io::Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to `time`, which lives until the call returns.
    let ret = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &raw mut time) };
    check(ret.into())?;
    let number = |value: i64| u64::try_from(value).map_err(|_| io::ErrorKind::InvalidData);
    Ok(Duration::from_secs(number(time.tv_sec)?) + Duration::from_nanos(number(time.tv_nsec)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_what_two_moments_say() {
        let at = |ticks, millis| Moment { ticks, time: Duration::from_millis(millis) };
        assert_eq!(at(1000, 10).kilohertz(&at(4_001_000, 12)), Some(2_000_000));
        assert_eq!(at(1000, 10).kilohertz(&at(4_001_000, 10)), None);
        assert_eq!(at(1000, 10).kilohertz(&at(1000, 20)), None);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn this_machine_has_a_rate() {
        let start = Moment::now().unwrap();
        let rate = loop {
            if let Some(rate) = start.kilohertz(&Moment::now().unwrap()) {
                break rate;
            }
        };
        assert!((100_000..20_000_000).contains(&rate), "{rate}");
    }
}
