//! Slices of budgets for this node's gateway: control hands them out.

use std::sync::{Arc, OnceLock};

use belljar_domain::budget::{BudgetAnswer, BudgetRequest};
use belljar_node::{BudgetLessor, LeaseFuture};
use belljar_peer_proto::member::AskBudget;

use super::ask::Control;
use crate::behind::Cluster;

/// The books of a platform, as its nodes see them. They can be asked once the node has joined.
#[derive(Debug, Clone, Default)]
pub struct PlatformBudgets(Arc<OnceLock<(Cluster, Arc<Control>)>>);

impl PlatformBudgets {
    pub(super) fn connect(&self, cluster: Cluster, control: Arc<Control>) {
        // A process joins once.
        let _ = self.0.set((cluster, control));
    }

    async fn ask(&self, request: BudgetRequest) -> BudgetAnswer {
        let away = |why: String| BudgetAnswer::Away { why };
        let Some((cluster, control)) = self.0.get() else {
            return away("this node has not joined its platform yet".to_owned());
        };
        let Some(registered) = cluster.registered() else {
            return away("this node is not registered".to_owned());
        };
        let asked = AskBudget { number: registered.number, request };
        control.budget(&asked).await.unwrap_or_else(|error| away(error.to_string()))
    }
}

impl BudgetLessor for PlatformBudgets {
    fn answer(&self, request: BudgetRequest) -> LeaseFuture<'_> {
        Box::pin(self.ask(request))
    }

    fn forfeited(&self, _slices: usize) {}
}
