//! How much a sandbox uses, over time.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::clock::Moment;

/// What a sandbox used at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    pub at: Moment,
    pub cpu_count: f64,
    /// Of one core, in per cent; over the time since the last sample.
    pub cpu_percent: f64,
    pub memory_used: u64,
    pub memory_total: u64,
    pub memory_cache: u64,
    pub disk_used: u64,
    pub disk_total: u64,
}

/// Samples of one sandbox, the oldest forgotten first.
#[derive(Debug, Default)]
pub(crate) struct History {
    samples: Mutex<VecDeque<Figures>>,
}

/// An hour's worth at one every five seconds.
const MOST: usize = 720;

impl History {
    pub(crate) fn add(&self, figures: Figures) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() >= MOST {
            samples.pop_front();
        }
        samples.push_back(figures);
    }

    pub(crate) fn between(&self, start: Option<Moment>, end: Option<Moment>) -> Vec<Figures> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |figures: &&Figures| {
            start.is_none_or(|start| figures.at >= start) && end.is_none_or(|end| figures.at <= end)
        };
        samples.iter().filter(fits).copied().collect()
    }
}
