//! Whether this machine was given its cores, or waited for a host that had others to
//! serve.
//!
//! A deadline that was missed while the machine stood still says nothing about what
//! was tested. Suites that meet one here try again, and say so; what was decided is
//! never tried again.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Above this share of the time that was asked for, a result that depends on time is
/// none.
const TOO_MUCH: f64 = 0.2;

/// How often, and how long, to wait for better times.
const LOOKS: u32 = 60;
const LOOK: Duration = Duration::from_secs(3);

/// How long a look asks every core for its time.
const ASK: Duration = Duration::from_millis(500);

/// Of so few ticks, no share is taken.
const NOISE: u64 = 20;

/// Counts from when it was made.
#[derive(Debug, Clone, Copy)]
pub struct Starved {
    begin: Option<Times>,
}

/// Clock ticks of all cores together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    busy: u64,
    stolen: u64,
}

impl Starved {
    pub fn begin() -> Self {
        Self { begin: now() }
    }

    /// The share of the time that was asked for and not given.
    pub fn share(&self) -> f64 {
        match (self.begin, now()) {
            (Some(begin), Some(now)) => share(begin, now),
            _ => 0.0,
        }
    }

    /// Returns true if so much was stolen that a result that depends on time is none.
    pub fn is_too_much(&self) -> bool {
        Self::is_too_large(self.share())
    }

    pub(crate) fn is_too_large(share: f64) -> bool {
        share > TOO_MUCH
    }

    /// Waits until the machine has its cores again, for three minutes at most. `sleep`
    /// is the caller's, who knows what may block.
    pub async fn wait<F: Future<Output = ()>>(sleep: impl Fn(Duration) -> F) {
        for _ in 0..LOOKS {
            let look = Self::begin();
            // They end by themselves, well before the look does.
            drop(ask_for_all_cores());
            sleep(LOOK).await;
            if !look.is_too_much() {
                return;
            }
        }
    }
}

/// Nothing is kept from who asks for nothing: keeps every core busy for a moment.
fn ask_for_all_cores() -> Vec<JoinHandle<()>> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let until = Instant::now() + ASK;
    let ask = move || {
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    };
    (0..cores).map(|_| std::thread::spawn(ask)).collect()
}

fn now() -> Option<Times> {
    read(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// The first line of `/proc/stat`: proc(5).
fn read(stat: &str) -> Option<Times> {
    let mut fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let mut next = || fields.next()?.parse::<u64>().ok();
    let (user, nice, system) = (next()?, next()?, next()?);
    let (_idle, _waiting) = (next()?, next()?);
    let (interrupts, soft, stolen) = (next()?, next()?, next()?);
    Some(Times { busy: user + nice + system + interrupts + soft, stolen })
}

#[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
fn share(begin: Times, now: Times) -> f64 {
    let stolen = now.stolen.saturating_sub(begin.stolen);
    let asked = now.busy.saturating_sub(begin.busy) + stolen;
    if asked < NOISE { 0.0 } else { stolen as f64 / asked as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stolen_is_a_share_of_what_was_asked_for() {
        let begin = read("cpu  100 0 50 9000 10 0 5 40 0 0\ncpu0 1 2 3\n").unwrap();
        assert_eq!(begin, Times { busy: 155, stolen: 40 });
        let now = read("cpu  160 0 70 9900 10 0 5 160 0 0\n").unwrap();
        assert!((share(begin, now) - 0.6).abs() < 1e-9);
        let idle = Times { busy: begin.busy + 3, stolen: begin.stolen + 3 };
        assert!(share(begin, idle).abs() < 1e-9);
        assert_eq!(read("intr 1 2 3"), None);
        assert_eq!(read("cpu  1 2 3"), None);
    }

    #[test]
    fn a_look_asks_for_enough_to_be_told_something() {
        let begin = now().unwrap();
        for asking in ask_for_all_cores() {
            asking.join().unwrap();
        }
        let now = now().unwrap();
        let asked = (now.busy + now.stolen) - (begin.busy + begin.stolen);
        assert!(asked >= NOISE, "{asked} ticks");
    }

    #[test]
    fn this_machine_can_be_asked() {
        assert!((0.0..=1.0).contains(&Starved::begin().share()));
        assert!(now().is_some());
    }
}
