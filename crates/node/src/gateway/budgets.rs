//! Slices of budgets that the gateway leases: passed on to the books.
//!
//! A gateway that dies forfeits what it holds. The node counts that.

use std::collections::HashMap;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use belljar_domain::budget::{BudgetAnswer, BudgetRequest};
use belljar_peer_proto::gateway::ToGateway;

use super::Shared;

/// The answer of the books, later.
pub type LeaseFuture<'a> = Pin<Box<dyn Future<Output = BudgetAnswer> + Send + 'a>>;

/// The books of budgets that several gateways spend from: a file, or control.
pub trait BudgetLessor: Debug + Send + Sync {
    fn answer(&self, request: BudgetRequest) -> LeaseFuture<'_>;

    /// A gateway died with so many slices. They stay spent until their window ends.
    fn forfeited(&self, slices: usize);
}

/// Slices that the gateway process of now holds, and the ends of their windows; none: no end.
#[derive(Debug, Default)]
pub(super) struct HeldSlices(Mutex<HashMap<i64, Option<Instant>>>);

impl HeldSlices {
    /// Empties it, and returns the number of slices whose windows have not ended.
    pub(super) fn forfeit(&self) -> usize {
        let held = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let now = Instant::now();
        held.into_values().filter(|ends| has_time(*ends, now)).count()
    }

    fn note(&self, returned: &[i64], answer: &BudgetAnswer) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            BudgetAnswer::Granted(slice) => {
                let now = Instant::now();
                held.retain(|_, ends| has_time(*ends, now));
                let left = slice.ends_in_ms.map(Duration::from_millis);
                // An end that no clock reaches is none.
                held.insert(slice.id, left.and_then(|left| now.checked_add(left)));
            }
            BudgetAnswer::Returned { .. } => held.retain(|id, _| !returned.contains(id)),
            BudgetAnswer::Exhausted { .. } | BudgetAnswer::Away { .. } => {}
        }
    }
}

/// Returns true if a window has not ended.
fn has_time(ends: Option<Instant>, now: Instant) -> bool {
    ends.is_none_or(|ends| now < ends)
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
        let answer = lessor.answer(request.clone()).await;
        if shared.line().pid != pid {
            // The process that asked is gone, and has spent nothing of this: its next one must not
            // spend it either.
            if let Some(back) = request.return_of(&answer) {
                let answer = lessor.answer(BudgetRequest::Return(back)).await;
                let is_back = matches!(answer, BudgetAnswer::Returned { .. });
                lessor.forfeited(usize::from(!is_back));
            }
            return;
        }
        shared.held_slices.note(&returned, &answer);
        shared.say(&ToGateway::Budget { question, answer });
    });
}

#[cfg(test)]
mod tests {
    use belljar_domain::budget::{BudgetAmount, Slice};

    use super::*;

    #[test]
    fn slices_of_windows_that_ended_are_not_kept() {
        let held = HeldSlices::default();
        let granted = |id, ends_in_ms| {
            BudgetAnswer::Granted(Slice { id, amount: BudgetAmount::default(), ends_in_ms })
        };
        (0..100).for_each(|id| held.note(&[], &granted(id, Some(0))));
        assert_eq!(held.0.lock().unwrap().len(), 1);
        held.note(&[], &granted(100, Some(3_600_000)));
        held.note(&[], &granted(101, None));
        held.note(&[], &granted(102, Some(u64::MAX)));
        held.note(&[101], &BudgetAnswer::Returned { accepted: 1 });
        assert_eq!(held.forfeit(), 2);
        assert_eq!(held.forfeit(), 0);
    }
}
