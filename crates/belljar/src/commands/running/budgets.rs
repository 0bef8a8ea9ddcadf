//! Slices of budgets for the gateway of a replica: it has the database itself.

use std::time::Duration;

use belljar_domain::budget::{BudgetAnswer, BudgetRequest};
use belljar_node::{BudgetLessor, LeaseFuture};
use belljar_store::Store;

/// Longest wait for the database, less than the gateway waits.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The books of a platform, as control sees them.
#[derive(Debug)]
pub(super) struct StoreBudgets(Store);

impl StoreBudgets {
    pub(super) fn new(store: &Store) -> Self {
        Self(store.clone())
    }

    async fn ask(&self, request: BudgetRequest) -> BudgetAnswer {
        let why = match self.0.answer_budget_within(TIMEOUT, None, request, ()).await {
            Some(Ok(answer)) => return answer,
            Some(Err(error)) => error.to_string(),
            None => "the database does not respond".to_owned(),
        };
        BudgetAnswer::Away { why }
    }
}

impl BudgetLessor for StoreBudgets {
    fn answer(&self, request: BudgetRequest) -> LeaseFuture<'_> {
        Box::pin(self.ask(request))
    }

    fn forfeited(&self, _slices: usize) {}
}
