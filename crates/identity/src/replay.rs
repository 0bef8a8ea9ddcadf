//! Requests that were seen before.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Nonces that were used within the freshness window, at most so many.
///
/// When it is full, the oldest is forgotten, and from then on nothing that was signed
/// as early as that is accepted: a nonce that is forgotten cannot be used again.
#[derive(Debug)]
pub struct ReplayCache {
    window_ms: u64,
    capacity: usize,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// When each was signed, and its nonce.
    nonces: BTreeSet<(u64, [u8; 16])>,
    /// What was signed at this time or before is refused.
    too_early: Option<u64>,
}

impl ReplayCache {
    pub fn new(window_ms: u64, capacity: usize) -> Self {
        Self { window_ms, capacity, seen: Mutex::default() }
    }

    /// Returns true if this nonce, signed at `at`, is new at `now`; it is not new again.
    pub fn admit(&self, at: u64, nonce: [u8; 16], now: u64) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // What is this old is refused as stale, whether or not it is remembered here.
        let oldest = now.saturating_sub(self.window_ms.saturating_mul(2));
        while seen.nonces.first().is_some_and(|&(at, _)| at < oldest) {
            seen.nonces.pop_first();
        }
        if seen.too_early.is_some_and(|too_early| at <= too_early) {
            return false;
        }
        if !seen.nonces.insert((at, nonce)) {
            return false;
        }
        if seen.nonces.len() > self.capacity
            && let Some((forgotten, _)) = seen.nonces.pop_first()
        {
            seen.too_early = Some(forgotten);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonce(number: u8) -> [u8; 16] {
        [number; 16]
    }

    #[test]
    fn nonce_is_accepted_once() {
        let cache = ReplayCache::new(60_000, 8);
        assert!(cache.admit(100, nonce(1), 100));
        assert!(!cache.admit(100, nonce(1), 101));
        assert!(cache.admit(100, nonce(2), 101));
    }

    #[test]
    fn full_cache_accepts_no_replay() {
        let cache = ReplayCache::new(60_000, 3);
        for at in 1..=10 {
            assert!(cache.admit(at, nonce(7), 10), "{at}");
        }
        for at in 1..=10 {
            assert!(!cache.admit(at, nonce(7), 10), "{at} again");
        }
        assert!(cache.admit(10, nonce(8), 10), "what is new enough is still accepted");
        assert!(cache.seen.lock().unwrap().nonces.len() <= 3);
    }

    #[test]
    fn nonces_older_than_the_window_take_no_room() {
        let cache = ReplayCache::new(10, 100);
        for at in 0..50 {
            assert!(cache.admit(at * 100, nonce(1), at * 100));
        }
        assert!(cache.seen.lock().unwrap().nonces.len() <= 2);
    }
}
