//! What a build says, as far as it is kept.

use std::sync::{Mutex, PoisonError};

use crate::clock::{Moment, now};
use crate::logs::Level;

#[derive(Debug, Clone)]
pub struct Entry {
    pub at: Moment,
    pub level: Level,
    pub message: String,
    /// `base`, `finalize`, or the number of a step.
    pub step: Option<String>,
}

/// The log of one build: bounded, and only ever longer, so that whoever reads
/// it in pieces can count where they are.
#[derive(Debug, Default)]
pub(super) struct Log {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: Vec<Entry>,
    bytes: usize,
    cut: bool,
}

const MOST_ENTRIES: usize = 10_000;
const MOST_BYTES: usize = 2 << 20;
/// Kept for what matters most: how it ended.
const LAST: usize = 64;

impl Log {
    pub(super) fn add(&self, level: Level, step: Option<&str>, message: impl Into<String>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut message = message.into();
        let full = inner.entries.len() >= MOST_ENTRIES || inner.bytes >= MOST_BYTES;
        if full && (level < Level::Error || inner.entries.len() >= MOST_ENTRIES + LAST) {
            if std::mem::replace(&mut inner.cut, true) {
                return;
            }
            message = "the log is full; later lines are left out".to_owned();
        }
        inner.bytes += message.len();
        let step = step.map(str::to_owned);
        inner.entries.push(Entry { at: now(), level, message, step });
    }

    /// Entries from the given one on, of at least this level.
    pub(super) fn from(&self, offset: usize, limit: usize, least: Level) -> Vec<Entry> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = inner.entries.iter().filter(|entry| entry.level >= least);
        shown.skip(offset).take(limit).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_the_failure_is_still_told() {
        let log = Log::default();
        for n in 0..MOST_ENTRIES + 50 {
            log.add(Level::Info, Some("1"), n.to_string());
        }
        log.add(Level::Error, Some("1"), "failed");
        let all = log.from(0, usize::MAX, Level::Debug);
        assert_eq!(all.len(), MOST_ENTRIES + 2);
        assert!(all[MOST_ENTRIES].message.contains("left out"));
        assert_eq!(log.from(MOST_ENTRIES + 1, 10, Level::Debug)[0].message, "failed");
        assert!(log.from(MOST_ENTRIES + 2, 10, Level::Debug).is_empty());
        assert_eq!(log.from(0, 10, Level::Error).len(), 1);
    }
}
