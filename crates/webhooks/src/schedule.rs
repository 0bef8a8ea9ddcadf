//! The times of the attempts at one message.

use std::time::Duration;

/// Each wait is four times as long as the one before.
const FACTOR: u32 = 4;
/// No wait is longer.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Attempts at one message: how many, and the wait after the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    pub attempts: u32,
    pub first_wait: Duration,
}

/// 8 attempts over 24 hours: after 16 s, 64 s, 4 min, 17 min, 68 min, 4.6 h and 18 h.
impl Default for Schedule {
    fn default() -> Self {
        Self { attempts: 8, first_wait: Duration::from_secs(16) }
    }
}

impl Schedule {
    /// Returns the wait after a failed attempt, counted from 1; none: it was the last one.
    /// `random` moves the wait by up to a fifth in either direction, so that messages that failed
    /// together are not sent together again.
    pub fn wait_after(&self, attempt: u32, random: u32) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        let factor = FACTOR.saturating_pow(attempt.saturating_sub(1));
        let wait = self.first_wait.saturating_mul(factor).min(LONGEST);
        let share = 0.8 + 0.4 * f64::from(random) / f64::from(u32::MAX);
        Some(wait.mul_f64(share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIDDLE: u32 = u32::MAX / 2;

    #[test]
    fn eight_attempts_take_about_a_day() {
        let schedule = Schedule::default();
        let waits: Vec<_> = (1..8).map(|n| schedule.wait_after(n, MIDDLE).unwrap()).collect();
        let total: Duration = waits.iter().sum();
        assert!((86_000..89_000).contains(&total.as_secs()), "{total:?}");
        assert!(waits.windows(2).all(|pair| pair[1] > pair[0] * 3));
        assert_eq!(schedule.wait_after(8, MIDDLE), None);
        assert_eq!(schedule.wait_after(9, MIDDLE), None);
    }

    #[test]
    fn jitter_stays_within_a_fifth() {
        let schedule = Schedule { attempts: 3, first_wait: Duration::from_secs(10) };
        let least = schedule.wait_after(1, 0).unwrap();
        let most = schedule.wait_after(1, u32::MAX).unwrap();
        assert!((7.99..8.01).contains(&least.as_secs_f64()), "{least:?}");
        assert!((11.99..12.01).contains(&most.as_secs_f64()), "{most:?}");
    }

    #[test]
    fn no_wait_is_longer_than_a_day() {
        let schedule = Schedule { attempts: 100, first_wait: Duration::from_secs(60) };
        assert!(schedule.wait_after(90, MIDDLE).unwrap() <= LONGEST);
    }
}
