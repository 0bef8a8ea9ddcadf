//! Money of runs: what they may still spend, without their transcripts.

use belljar_domain::RunId;
use belljar_journal::event::Request;
use belljar_journal::{Address, Body, First, ReadError, ReservedMoney};
use sqlx::Row as _;

use super::look::id;
use super::{Runs, failed, unreadable};
use crate::read;

/// The most that one event adds, about a million dollars: sums of it stay in the column.
const MAX_COST: u64 = 1 << 50;

/// Changes of a run's money by events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MoneyChange {
    pub(super) spent: i64,
    /// The budget from now on, if it changes.
    pub(super) allowed: Option<i64>,
    /// A budget that is asked for: it counts if it is larger.
    pub(super) asked: Option<i64>,
}

impl MoneyChange {
    pub(super) fn of<'b>(bodies: impl IntoIterator<Item = &'b Body>) -> Self {
        let mut change = Self::default();
        for body in bodies {
            match body {
                Body::LlmResponded(answer) => change.spend(answer.nano_dollars),
                Body::LlmFailed(failed) => change.spend(failed.nano_dollars),
                Body::BudgetChanged(changed) => {
                    change.allowed = Some(read::signed(changed.budget.nano_dollars.unwrap_or(0)));
                }
                Body::ControlRequested(asked) => {
                    if let Request::Budget { change: patch } = &asked.request {
                        change.asked = change.asked.max(patch.0.nano_dollars.map(read::signed));
                    }
                }
                _ => {}
            }
        }
        change
    }

    fn spend(&mut self, nano_dollars: u64) {
        self.spent = self.spent.saturating_add(read::signed(nano_dollars.min(MAX_COST)));
    }
}

/// Returns if a new run pays for a model, and its budget. None: a fork has what the transcript of
/// its parent says.
pub(super) fn of_new(first: &First) -> (Option<bool>, i64) {
    match first {
        First::Created(created) => {
            let has_model = created.wish.as_ref().is_some_and(|wish| wish.operation.is_some());
            (Some(has_model), read::signed(created.budget.nano_dollars.unwrap_or(0)))
        }
        First::Forked(_) => (None, 0),
    }
}

impl Runs {
    pub(super) async fn reserved(
        &self,
        tenant: &str,
        except: Option<&RunId>,
    ) -> Result<ReservedMoney, ReadError> {
        let rows = sqlx::query(
            "select null as id,
                    least(coalesce(sum(greatest(allowed_nanos - spent_nanos, 0)), 0),
                          9223372036854775807)::bigint as reserved
             from run
             where tenant = $1 and state <> 'finished' and has_model
               and ($2::text is null or id <> $2)
             union all
             select id, 0 from run
             where tenant = $1 and state <> 'finished' and has_model is null
               and ($2::text is null or id <> $2)",
        )
        .bind(tenant)
        .bind(except.map(RunId::as_str))
        .fetch_all(&self.store.pool)
        .await
        .map_err(failed)?;
        let mut reserved = ReservedMoney::default();
        for row in &rows {
            match row.try_get::<Option<String>, _>("id").map_err(failed)? {
                Some(_) => {
                    let run = id(row, "id").map_err(unreadable)?;
                    reserved.unread.push(Address { tenant: tenant.to_owned(), run });
                }
                None => {
                    reserved.nano_dollars = read::number(row, "reserved").map_err(unreadable)?;
                }
            }
        }
        Ok(reserved)
    }
}

#[cfg(test)]
mod tests {
    use belljar_domain::Sequence;
    use belljar_journal::event::{
        Budget, BudgetChanged, BudgetPatch, ControlRequested, LlmFailed, LlmTrouble,
    };

    use super::*;

    fn failed(nano_dollars: u64) -> Body {
        Body::LlmFailed(LlmFailed {
            turn: 1,
            asked: Sequence(2),
            trouble: LlmTrouble::Overloaded,
            message: String::new(),
            nano_dollars,
            micros: 1,
        })
    }

    #[test]
    fn events_change_the_money_of_a_run() {
        let budget = |money| Budget { nano_dollars: Some(money), ..Budget::default() };
        let request = Request::Budget { change: BudgetPatch(budget(70)) };
        let asked = Body::ControlRequested(ControlRequested { request, by: "a".into() });
        let changed =
            Body::BudgetChanged(BudgetChanged { answers: Sequence(3), budget: budget(50) });
        let change = MoneyChange::of(&[failed(3), asked, changed, failed(4)]);
        assert_eq!(change, MoneyChange { spent: 7, allowed: Some(50), asked: Some(70) });
        assert_eq!(MoneyChange::of(&[failed(u64::MAX)]).spent, 1 << 50);
        assert_eq!(MoneyChange::of(&[]), MoneyChange::default());
    }
}
