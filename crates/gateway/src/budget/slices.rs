//! Slices that an account holds of a budget that others spend from as well.
//!
//! The account may spend the sum of its slices. They are worth nothing when their window ends,
//! which is measured from the moment of asking: a gateway never holds a window for longer than
//! the books do.

use std::time::Duration;

use belljar_domain::budget::{BudgetKey, ReturnSlices, Slice, UnusedSlice};
use tokio::time::Instant;

use super::{Amount, Limit, State, What, by_kind};

/// Slices of the window of now.
#[derive(Debug)]
pub(super) struct Holding {
    pub(super) key: BudgetKey,
    slices: Vec<Slice>,
    granted: Amount,
    /// The size of the slice that came last.
    last: Amount,
    /// None: nothing was leased yet, or the window has no end.
    pub(super) ends: Option<Instant>,
    /// The time of the last reservation.
    pub(super) used: Instant,
}

impl Holding {
    pub(super) fn new(operation: &str, tenant: Option<&str>, limit: Limit) -> Self {
        let key = BudgetKey {
            operation: operation.to_owned(),
            tenant: tenant.map(str::to_owned),
            every_seconds: every_seconds(limit),
        };
        Self {
            key,
            slices: Vec::new(),
            granted: Amount::default(),
            last: Amount::default(),
            ends: None,
            used: Instant::now(),
        }
    }

    pub(super) fn change_window(&mut self, limit: Limit) {
        self.key.every_seconds = every_seconds(limit);
    }
}

pub(super) fn every_seconds(limit: Limit) -> u64 {
    limit.every.map_or(0, |every| every.as_secs())
}

impl State {
    /// Forgets everything of the window that was.
    pub(super) fn begin_window(&mut self) {
        if let Some(holding) = &mut self.holding {
            holding.slices.clear();
            holding.granted = Amount::default();
            holding.ends = None;
            self.spent = Amount::default();
            self.reserved = Amount::default();
            self.window += 1;
        }
    }

    /// The part of `more` that the slices do not have; none if they have all of it.
    pub(super) fn missing(&self, more: Amount) -> Option<(What, Amount)> {
        let holding = self.holding.as_ref()?;
        let wanted = self.spent.plus(self.reserved).plus(more);
        let lacks = wanted.minus(holding.granted);
        let kinds = by_kind(&self.limit, self.spent, self.reserved, lacks);
        let bounded = |of: What| {
            kinds.iter().find(|kind| kind.0 == of && kind.1.is_some()).map_or(0, |kind| kind.4)
        };
        let missing = Amount {
            requests: bounded(What::Requests),
            tokens: bounded(What::Tokens),
            nano_dollars: bounded(What::Dollars),
        };
        let what = kinds.iter().find(|kind| kind.1.is_some() && kind.4 > 0)?.0;
        Some((what, missing))
    }

    /// Returns true if less than a quarter of the last slice is left in anything that is bounded.
    pub(super) fn is_running_low(&self) -> bool {
        let Some(holding) = &self.holding else { return false };
        let left = holding.granted.minus(self.spent.plus(self.reserved));
        let quarter = Amount {
            requests: holding.last.requests / 4,
            tokens: holding.last.tokens / 4,
            nano_dollars: holding.last.nano_dollars / 4,
        };
        by_kind(&self.limit, left, quarter, Amount::default())
            .iter()
            .any(|(_, limit, left, quarter, _)| limit.is_some() && left < quarter)
    }

    /// Adds a slice. One of a later window ends the one of now.
    pub(super) fn take_slice(&mut self, slice: Slice, asked: Instant) {
        let Some(holding) = &self.holding else { return };
        let ends = slice.ends_in_ms.map(|left| asked + Duration::from_millis(left));
        // Clocks drift apart in a long window.
        let later = Duration::from_secs(holding.key.every_seconds / 2);
        let is_later = ends.zip(holding.ends).is_some_and(|(new, old)| new > old + later);
        if is_later {
            self.begin_window();
        }
        let Some(holding) = &mut self.holding else { return };
        holding.slices.push(slice);
        holding.granted = holding.granted.plus(slice.amount);
        holding.last = slice.amount;
        holding.ends = ends;
    }

    /// Takes all slices out, with what is left of each, unless a request is under way or the
    /// account was used after `before`.
    pub(super) fn take_unused(&mut self, gateway: &str, before: Instant) -> Option<ReturnSlices> {
        let is_under_way = self.reserved != Amount::default();
        let holding = self.holding.as_mut()?;
        if is_under_way || holding.used > before || holding.slices.is_empty() {
            return None;
        }
        let mut left = holding.granted.minus(self.spent);
        // The newest first: it is the most likely one to be whole.
        let slices = holding.slices.drain(..).rev().map(|slice| {
            let unused = slice.amount.min(left);
            left = left.minus(unused);
            UnusedSlice { id: slice.id, unused }
        });
        let slices = slices.collect();
        // An amount that an upstream charged beyond its word is still owed.
        self.spent = self.spent.minus(holding.granted);
        holding.granted = Amount::default();
        Some(ReturnSlices { gateway: gateway.to_owned(), key: holding.key.clone(), slices })
    }
}
