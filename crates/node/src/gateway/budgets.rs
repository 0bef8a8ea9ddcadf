//! Slices of budgets that the gateway leases: passed on to the books.
//!
//! A gateway that dies forfeits what it holds. The node counts that.

use std::collections::HashSet;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use belljar_bus::gateway::ToGateway;
use belljar_model::budget::{BudgetAnswer, BudgetRequest};

use super::Shared;

/// The answer of the books, later.
pub type LeaseFuture<'a> = Pin<Box<dyn Future<Output = BudgetAnswer> + Send + 'a>>;

/// The books of budgets that several gateways spend from: a file, or control.
pub trait BudgetLessor: Debug + Send + Sync {
    fn answer(&self, request: BudgetRequest) -> LeaseFuture<'_>;

    /// A gateway died with so many slices. They stay spent until their window ends.
    fn forfeited(&self, slices: usize);
}

/// Slices that the gateway process of now holds.
#[derive(Debug, Default)]
pub(super) struct HeldSlices(Mutex<HashSet<i64>>);

impl HeldSlices {
    /// Empties it, and returns the number of slices.
    pub(super) fn forfeit(&self) -> usize {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).len()
    }

    fn note(&self, returned: &[i64], answer: &BudgetAnswer) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            BudgetAnswer::Granted(slice) => {
                held.insert(slice.id);
            }
            BudgetAnswer::Returned { .. } => held.retain(|id| !returned.contains(id)),
            BudgetAnswer::Exhausted { .. } | BudgetAnswer::Away { .. } => {}
        }
    }
}

/// Answers a request of the gateway process that runs now.
pub(super) fn answer(shared: &Arc<Shared>, question: u64, request: BudgetRequest) {
    let Some(lessor) = shared.options.lessor.clone() else {
        let answer = BudgetAnswer::Away { why: "this node keeps no budgets".to_owned() };
        return shared.say(&ToGateway::Budget { question, answer });
    };
    let (shared, pid) = (Arc::clone(shared), shared.line().pid);
    tokio::spawn(async move {
        let returned = match &request {
            BudgetRequest::Return(slices) => slices.slices.iter().map(|slice| slice.id).collect(),
            BudgetRequest::Lease(_) => Vec::new(),
        };
        let answer = lessor.answer(request).await;
        if shared.line().pid != pid {
            // The process that asked is gone: its next one must not spend this.
            lessor.forfeited(usize::from(matches!(answer, BudgetAnswer::Granted(_))));
            return;
        }
        shared.held_slices.note(&returned, &answer);
        shared.say(&ToGateway::Budget { question, answer });
    });
}
