//! Who asked lately, and how often.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

/// Over how long demand is measured.
const MEMORY: Duration = Duration::from_secs(10);

/// Somebody who asks; only told apart from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Claimant(u64);

impl Claimant {
    pub fn new(name: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Claims of the last seconds.
#[derive(Debug, Default)]
pub(super) struct Demand {
    claims: VecDeque<(Instant, Claimant)>,
    counts: HashMap<Claimant, usize>,
}

impl Demand {
    pub(super) fn note(&mut self, at: Instant, whose: Claimant) {
        self.forget(at);
        self.claims.push_back((at, whose));
        *self.counts.entry(whose).or_default() += 1;
    }

    fn forget(&mut self, now: Instant) {
        while let Some(&(at, whose)) = self.claims.front()
            && now.saturating_duration_since(at) > MEMORY
        {
            self.claims.pop_front();
            if let Some(count) = self.counts.get_mut(&whose) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&whose);
                }
            }
        }
    }

    /// As many as are claimed in a second.
    pub(super) fn in_a_second(&mut self, now: Instant) -> usize {
        self.forget(now);
        per_second(self.claims.len())
    }

    /// How many must be left for others when this one takes: none, unless it asks for
    /// more than its equal part.
    pub(super) fn left_for_others(&self, whose: Claimant) -> usize {
        let own = self.counts.get(&whose).copied().unwrap_or_default();
        let others = self.claims.len() - own;
        if own * self.counts.len() > self.claims.len() { per_second(others) } else { 0 }
    }
}

fn per_second(count: usize) -> usize {
    let seconds = usize::try_from(MEMORY.as_secs()).unwrap_or(1);
    count.div_ceil(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(claims: &[(&str, usize)], at: Instant) -> Demand {
        let mut demand = Demand::default();
        for &(name, count) in claims {
            for _ in 0..count {
                demand.note(at, Claimant::new(name));
            }
        }
        demand
    }

    #[test]
    fn whoever_asks_for_most_leaves_as_many_as_others_want() {
        let demand = demand(&[("flood", 400), ("ann", 50), ("bob", 30)], Instant::now());
        assert_eq!(demand.left_for_others(Claimant::new("flood")), 8);
        assert_eq!(demand.left_for_others(Claimant::new("ann")), 0);
        assert_eq!(demand.left_for_others(Claimant::new("never came")), 0);
    }

    #[test]
    fn whoever_is_alone_or_one_of_equals_leaves_nothing() {
        let alone = demand(&[("ann", 400)], Instant::now());
        assert_eq!(alone.left_for_others(Claimant::new("ann")), 0);
        let equals = demand(&[("ann", 40), ("bob", 40)], Instant::now());
        assert_eq!(equals.left_for_others(Claimant::new("bob")), 0);
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let begin = Instant::now();
        let mut demand = demand(&[("flood", 95), ("ann", 10)], begin);
        assert_eq!(demand.in_a_second(begin), 11);
        let later = begin + MEMORY + Duration::from_secs(1);
        demand.note(later, Claimant::new("ann"));
        assert_eq!(demand.in_a_second(later), 1);
        assert_eq!(demand.left_for_others(Claimant::new("ann")), 0);
        assert_eq!(demand.counts.len(), 1);
    }
}
