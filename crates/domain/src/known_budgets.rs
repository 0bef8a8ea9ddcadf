//! The budgets that an operator wrote down for control: what nodes claim is judged by these.

use std::collections::BTreeMap;

use crate::budget::{BudgetKey, BudgetLimit};

/// Limits by operation, by whose budget it is, and by the length of its window.
///
/// A budget with another window is another budget: it would have its own books. So a key that is
/// not here has no limit that could be used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnownBudgets(BTreeMap<(String, BudgetOwner, u64), BudgetLimit>);

/// The tenants that spend from one budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetOwner {
    AllTenants,
    /// Each tenant has a budget of this size.
    EachTenant,
}

impl KnownBudgets {
    pub fn add(
        &mut self,
        operation: String,
        owner: BudgetOwner,
        every_seconds: u64,
        limit: BudgetLimit,
    ) {
        self.0.insert((operation, owner, every_seconds), limit);
    }

    /// The limit of a budget; none if the operator wrote down no such budget.
    pub fn limit_of(&self, key: &BudgetKey) -> Option<BudgetLimit> {
        let owner = match key.tenant.as_deref() {
            None => BudgetOwner::AllTenants,
            // The books have the budget of all tenants under this name.
            Some("") => return None,
            Some(_) => BudgetOwner::EachTenant,
        };
        self.0.get(&(key.operation.clone(), owner, key.every_seconds)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_written_down_has_a_limit() {
        let limit = |requests| BudgetLimit { requests: Some(requests), ..BudgetLimit::default() };
        let mut known = KnownBudgets::default();
        known.add("llm".to_owned(), BudgetOwner::AllTenants, 60, limit(100));
        known.add("llm".to_owned(), BudgetOwner::EachTenant, 60, limit(7));
        let of = |operation: &str, tenant: Option<&str>, every_seconds| {
            let (operation, tenant) = (operation.to_owned(), tenant.map(str::to_owned));
            known.limit_of(&BudgetKey { operation, tenant, every_seconds })
        };
        assert_eq!(of("llm", None, 60), Some(limit(100)));
        assert_eq!(of("llm", Some("ann"), 60), Some(limit(7)));
        // Another window or operation would have books of its own.
        assert_eq!(of("llm", None, 61), None);
        assert_eq!(of("llm", Some("ann"), 0), None);
        assert_eq!(of("llm2", None, 60), None);
        // The books have one budget for these two.
        assert_eq!(of("llm", Some(""), 60), None);
    }
}
