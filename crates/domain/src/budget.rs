//! Slices of budgets: a gateway leases one and spends it without asking for each request.
//!
//! ```text
//!   gateway ──lease──► node ──lease──► control ──► PostgreSQL
//!      │                 └───────────────────────► a file, where a server is alone
//!      ├─ spends the slice in memory
//!      └──return──► the unused part; after a crash it stays spent until the window ends
//! ```
//!
//! The sum of all slices of a window that were not given back never passes the limit.

use serde::{Deserialize, Serialize};

/// A budget that several gateways spend from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BudgetKey {
    pub operation: String,
    /// None: the budget of all tenants together.
    pub tenant: Option<String>,
    /// Length of a window; 0: one window without an end.
    pub every_seconds: u64,
}

/// Quantities of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BudgetAmount {
    pub requests: u64,
    /// All kinds together.
    pub tokens: u64,
    /// In billionths of a dollar.
    pub nano_dollars: u64,
}

/// The most that may be spent in a window. None: not bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BudgetLimit {
    pub requests: Option<u64>,
    pub tokens: Option<u64>,
    pub nano_dollars: Option<u64>,
}

/// Asks for a slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskSlice {
    /// The epoch of the gateway: a random word that each process of it has of its own.
    pub gateway: String,
    pub key: BudgetKey,
    pub limit: BudgetLimit,
    /// A smaller slice is of no use.
    pub at_least: BudgetAmount,
}

/// A part of a budget that one gateway may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    pub id: i64,
    /// 0 in what is not bounded.
    pub amount: BudgetAmount,
    /// The rest of the window, in milliseconds; none: it has no end.
    pub ends_in_ms: Option<u64>,
}

/// The unused part of a slice, which its gateway spends no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusedSlice {
    pub id: i64,
    pub unused: BudgetAmount,
}

/// Gives slices back. Each is accepted once, and from the gateway that leased it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnSlices {
    pub gateway: String,
    pub key: BudgetKey,
    pub slices: Vec<UnusedSlice>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetRequest {
    Lease(AskSlice),
    Return(ReturnSlices),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetAnswer {
    Granted(Slice),
    /// Less than what is needed is left in this window. `is_held`: other slices of it are held,
    /// and part of them may come back.
    Exhausted {
        is_held: bool,
    },
    /// The number of slices that were accepted.
    Returned {
        accepted: u64,
    },
    /// The books cannot be reached, or refuse.
    Away {
        why: String,
    },
}

/// The largest slice beyond what a single request needs.
pub const MAX_SLICE: BudgetAmount =
    BudgetAmount { requests: 10_000, tokens: 50_000_000, nano_dollars: 20_000_000_000 };

/// A slice is this part of what remains, or what is needed at least.
pub const SLICE_DIVISOR: u64 = 16;

impl BudgetAmount {
    pub fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            tokens: self.tokens.saturating_add(other.tokens),
            nano_dollars: self.nano_dollars.saturating_add(other.nano_dollars),
        }
    }

    pub fn minus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(other.requests),
            tokens: self.tokens.saturating_sub(other.tokens),
            nano_dollars: self.nano_dollars.saturating_sub(other.nano_dollars),
        }
    }

    /// The smaller one of each quantity.
    pub fn min(self, other: Self) -> Self {
        Self {
            requests: self.requests.min(other.requests),
            tokens: self.tokens.min(other.tokens),
            nano_dollars: self.nano_dollars.min(other.nano_dollars),
        }
    }
}

impl BudgetRequest {
    /// The message that gives back the whole slice of an answer to this request; none if the
    /// answer has no slice.
    pub fn return_of(&self, answer: &BudgetAnswer) -> Option<ReturnSlices> {
        let (Self::Lease(asked), BudgetAnswer::Granted(slice)) = (self, answer) else {
            return None;
        };
        Some(ReturnSlices {
            gateway: asked.gateway.clone(),
            key: asked.key.clone(),
            slices: vec![UnusedSlice { id: slice.id, unused: slice.amount }],
        })
    }
}

impl BudgetLimit {
    /// The slice that a window may hand out of which `leased` is out; none if less than
    /// `at_least` remains. PostgreSQL computes the same in `budget_slice_size`.
    pub fn slice(&self, leased: BudgetAmount, at_least: BudgetAmount) -> Option<BudgetAmount> {
        let size = |limit: Option<u64>, leased: u64, at_least: u64, most: u64| {
            let Some(limit) = limit else { return Some(0) };
            let remains = limit.checked_sub(leased).filter(|remains| *remains >= at_least)?;
            Some((remains / SLICE_DIVISOR).min(most).max(at_least))
        };
        Some(BudgetAmount {
            requests: size(self.requests, leased.requests, at_least.requests, MAX_SLICE.requests)?,
            tokens: size(self.tokens, leased.tokens, at_least.tokens, MAX_SLICE.tokens)?,
            nano_dollars: size(
                self.nano_dollars,
                leased.nano_dollars,
                at_least.nano_dollars,
                MAX_SLICE.nano_dollars,
            )?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dollars(nano_dollars: u64) -> BudgetAmount {
        BudgetAmount { nano_dollars, ..BudgetAmount::default() }
    }

    #[test]
    fn a_slice_is_a_part_of_what_remains_and_never_more() {
        let limit = BudgetLimit { nano_dollars: Some(1600), ..BudgetLimit::default() };
        assert_eq!(limit.slice(dollars(0), dollars(1)), Some(dollars(100)));
        assert_eq!(limit.slice(dollars(0), dollars(700)), Some(dollars(700)));
        assert_eq!(limit.slice(dollars(1500), dollars(100)), Some(dollars(100)));
        assert_eq!(limit.slice(dollars(1501), dollars(100)), None);
        assert_eq!(limit.slice(dollars(1601), dollars(0)), None);
        let large = BudgetLimit { nano_dollars: Some(u64::MAX), ..BudgetLimit::default() };
        assert_eq!(large.slice(dollars(0), dollars(1)), Some(dollars(MAX_SLICE.nano_dollars)));
        // A quantity without a bound takes nothing.
        assert_eq!(BudgetLimit::default().slice(dollars(9), dollars(9)), Some(dollars(0)));
    }
}
