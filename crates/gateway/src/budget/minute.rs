//! How many requests the last minute had.

use std::time::Duration;

use tokio::time::Instant;

const SLOTS: usize = 61;

/// Requests counted by the second, for the second that runs and the sixty before
/// it. Whichever minute one looks at lies within these, so no minute ever has more
/// than the limit; a request is forgotten up to a second late, never early.
#[derive(Debug)]
pub(crate) struct Minute {
    began: Instant,
    slots: Box<[u32; SLOTS]>,
    /// The second, since `began`, that was counted last.
    last: u64,
    sum: u64,
}

impl Default for Minute {
    fn default() -> Self {
        Self { began: Instant::now(), slots: Box::new([0; SLOTS]), last: 0, sum: 0 }
    }
}

fn slot(second: u64) -> usize {
    usize::try_from(second % SLOTS as u64).unwrap_or(0)
}

#[expect(clippy::indexing_slicing, reason = "`slot` is below the number of slots")]
impl Minute {
    fn forget(&mut self, now: Instant) {
        let second = now.saturating_duration_since(self.began).as_secs();
        let passed = second.saturating_sub(self.last).min(SLOTS as u64);
        for back in 0..passed {
            let count = std::mem::take(&mut self.slots[slot(second - back)]);
            self.sum -= u64::from(count);
        }
        self.last = self.last.max(second);
    }

    /// Whether one more fits, or how long it takes until the oldest is forgotten.
    pub(crate) fn room(&mut self, most: u32, now: Instant) -> Result<(), Duration> {
        self.forget(now);
        if self.sum < u64::from(most) {
            return Ok(());
        }
        let oldest = (0..SLOTS as u64).find(|back| {
            let second = self.last + 1 + back;
            self.slots[slot(second)] > 0
        });
        Err(Duration::from_secs(oldest.unwrap_or(SLOTS as u64) + 1))
    }

    pub(crate) fn count(&mut self, now: Instant) {
        self.forget(now);
        self.slots[slot(self.last)] += 1;
        self.sum += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_minute_has_more_than_the_limit() {
        let mut minute = Minute::default();
        let mut granted = Vec::new();
        for _ in 0..1000 {
            let now = Instant::now();
            if minute.room(7, now).is_ok() {
                minute.count(now);
                granted.push(now);
            }
            tokio::time::advance(Duration::from_millis(333)).await;
        }
        let most = granted
            .iter()
            .map(|start| {
                granted.iter().filter(|at| *at >= start && **at - *start < Duration::from_secs(60))
            })
            .map(Iterator::count)
            .max();
        assert_eq!(most, Some(7));
        assert!(granted.len() >= 35, "{}", granted.len());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_as_long_as_told_is_enough() {
        let mut minute = Minute::default();
        tokio::time::advance(Duration::from_millis(1700)).await;
        minute.count(Instant::now());
        tokio::time::advance(Duration::from_millis(20_500)).await;
        minute.count(Instant::now());
        let wait = minute.room(2, Instant::now()).unwrap_err();
        assert!(wait <= Duration::from_secs(61), "{wait:?}");
        tokio::time::advance(wait).await;
        assert_eq!(minute.room(2, Instant::now()), Ok(()));
    }
}
