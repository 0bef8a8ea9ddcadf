//! When to try again.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

/// How often, and how long to wait in between: twice as long each time, up to a
/// limit, and a little less at random, so that not everybody comes back at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// The first one included.
    pub attempts: u32,
    pub first_wait: Duration,
    pub longest_wait: Duration,
    /// A provider that asks for more patience than this is given up.
    pub most_patience: Duration,
    /// Makes the waits of one client differ from those of others.
    pub seed: u64,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            attempts: 5,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(30),
            most_patience: Duration::from_mins(2),
            seed: 0,
        }
    }
}

impl Retries {
    /// How long to wait after so many failed attempts, or that it is enough.
    pub(crate) fn wait(&self, failed: u32, asked: Option<Duration>) -> Option<Duration> {
        if failed >= self.attempts {
            return None;
        }
        match asked {
            Some(asked) if asked > self.most_patience => None,
            // Nobody is helped by coming early.
            Some(asked) => Some(asked),
            None => {
                let doublings = failed.saturating_sub(1).min(16);
                let whole = self.first_wait.saturating_mul(1 << doublings).min(self.longest_wait);
                let share = scramble(self.seed ^ u64::from(failed)) % 1000;
                let less = u128::from(share) * whole.as_nanos() / 2000;
                Some(whole - Duration::from_nanos(u64::try_from(less).unwrap_or(0)))
            }
        }
    }
}

/// Splitmix64: well mixed, and the same for the same seed.
fn scramble(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// How long an answer asks to wait: in milliseconds, in seconds, or as a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let number = |text: &str| text.trim().parse::<f64>().ok();
    if let Some(milliseconds) = text("retry-after-ms").and_then(number) {
        return Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
    }
    let after = text("retry-after")?;
    if let Some(seconds) = number(after) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = OffsetDateTime::parse(after.trim(), &Rfc2822).ok()?;
    Some(SystemTime::from(date).duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_differ_by_seed() {
        let policy = Retries { attempts: 12, ..Retries::default() };
        for failed in 1..12 {
            let whole = Duration::from_millis(500 << (failed - 1)).min(policy.longest_wait);
            let wait = policy.wait(failed, None).unwrap();
            assert!(wait <= whole && wait >= whole / 2, "{failed}: {wait:?}");
        }
        assert_eq!(policy.wait(12, None), None);
        let other = Retries { seed: 1, ..policy };
        assert_ne!(policy.wait(1, None), other.wait(1, None));
        assert_eq!(policy.wait(1, None), policy.wait(1, None));
    }

    #[test]
    fn who_asks_for_patience_gets_it_up_to_a_limit() {
        let policy = Retries::default();
        let asked = Duration::from_secs(7);
        assert_eq!(policy.wait(1, Some(asked)), Some(asked));
        assert_eq!(policy.wait(5, Some(asked)), None);
        assert_eq!(policy.wait(1, Some(Duration::from_hours(1))), None);
    }

    #[test]
    fn patience_is_read_in_every_form() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_470);
        let read = |name: &'static str, value: &'static str| {
            let headers = [(name, value)].map(|(name, value)| {
                (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
            });
            retry_after(&HeaderMap::from_iter(headers), now)
        };
        assert_eq!(read("retry-after", "3"), Some(Duration::from_secs(3)));
        assert_eq!(read("retry-after", " 1.5 "), Some(Duration::from_millis(1500)));
        assert_eq!(read("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        let date = "Wed, 21 Oct 2015 07:28:00 GMT";
        assert_eq!(read("retry-after", date), Some(Duration::from_secs(10)));
        assert_eq!(read("retry-after", "Wed, 21 Oct 2015 07:00:00 GMT"), Some(Duration::ZERO));
        for odd in ["-1", "inf", "NaN", "1e300", "soon", ""] {
            assert_eq!(read("retry-after", odd), None, "{odd}");
        }
    }
}
