//! Slices of budgets for the gateway of a replica: it has the database itself.

use std::time::Duration;

use belljar_model::budget::{BudgetAnswer, BudgetRequest};
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
        // On a task of its own: a statement that is dropped on its way costs its connection.
        let store = self.0.clone();
        let asked = tokio::spawn(async move { store.answer_budget(None, &request).await });
        let why = match tokio::time::timeout(TIMEOUT, asked).await {
            Ok(Ok(Ok(answer))) => return answer,
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the database does not respond".to_owned(),
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
