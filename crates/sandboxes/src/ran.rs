//! For how long a sandbox has run: what it is charged for.

use std::time::{Duration, Instant};

/// On the clock that nobody sets.
#[derive(Debug)]
pub(crate) struct Ran {
    before: Duration,
    /// Since when it runs, if it does.
    since: Option<Instant>,
}

impl Ran {
    pub(crate) fn new(is_running: bool) -> Self {
        Self { before: Duration::ZERO, since: is_running.then(Instant::now) }
    }

    /// Of one that stands still after it ran for so long.
    pub(crate) fn after(before: Duration) -> Self {
        Self { before, since: None }
    }

    pub(crate) fn set(&mut self, is_running: bool) {
        match (is_running, self.since) {
            (true, None) => self.since = Some(Instant::now()),
            (false, Some(since)) => {
                self.before += since.elapsed();
                self.since = None;
            }
            _ => {}
        }
    }

    pub(crate) fn so_far(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_still_does_not_count() {
        let mut ran = Ran::after(Duration::from_secs(5));
        assert_eq!(ran.so_far(), Duration::from_secs(5));
        ran.set(true);
        ran.set(true);
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(5) {}
        ran.set(false);
        let all = ran.so_far();
        assert!(all >= Duration::from_millis(5005), "{all:?}");
        assert_eq!(ran.so_far(), all);
        ran.set(false);
        assert_eq!(ran.so_far(), all);
    }
}
