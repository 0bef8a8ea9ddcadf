//! Quotas of a tenant: runs at once, and dollars per day.
//!
//! The figures of runs say what a day has cost, and the budgets of unfinished runs what they may
//! still spend: the journal has a sum of them where it can. A run gets no more money than is left
//! after both. Runs that are created at the
//! same moment see the same figures: together they can pass the quota.

use std::error::Error;

use belljar_domain::RunId;
use belljar_journal::event::{Budget, BudgetPatch, Request};
use belljar_journal::{Address, Failure, ReadError, ReservedMoney, RunView, read_all};
use futures_util::future::BoxFuture;
use time::OffsetDateTime;

use crate::Runs;
use crate::bounds::OverBudget;

/// Quotas of one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunQuota {
    /// Unfinished runs at once.
    pub runs: u64,
    /// Cost of models since midnight UTC, in billionths of a dollar; none: any.
    pub nano_dollars_per_day: Option<u64>,
}

/// The quotas of the tenant of this name.
pub type Quotas = Box<dyn Fn(&str) -> BoxFuture<'static, Result<RunQuota, NoQuota>> + Send + Sync>;

/// The quotas of a tenant cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the quotas of the tenant")]
pub struct NoQuota(#[source] pub Box<dyn Error + Send + Sync>);

/// A quota that is used up, or that cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum QuotaError {
    #[error("the quota of {quota} runs at once (max_runs) is used up: {unfinished} are unfinished")]
    Runs { quota: u64, unfinished: u64 },
    #[error(
        "the quota of {} dollars per day (max_run_dollars_per_day) is used up: {} are spent since \
         00:00 UTC, and unfinished runs may spend {}",
        dollars(*.quota), dollars(*.spent), dollars(*.reserved)
    )]
    Dollars { quota: u64, spent: u64, reserved: u64 },
    #[error(transparent)]
    Budget(#[from] OverBudget),
    #[error(transparent)]
    Read(#[from] NoQuota),
    #[error("cannot count runs")]
    Count(#[from] ReadError),
    #[error("cannot read the cost of the day")]
    Figures(#[from] Failure),
}

impl Runs {
    /// Refuses a run that exceeds a quota. Runs are counted once more when it is written down.
    pub(crate) async fn check_quota(
        &self,
        tenant: &str,
        has_model: bool,
    ) -> Result<Allowance, QuotaError> {
        let quota = (self.0.parts.quotas)(tenant).await?;
        let unfinished = self.journal().count_unfinished(tenant).await?;
        if unfinished >= quota.runs {
            return Err(QuotaError::Runs { quota: quota.runs, unfinished });
        }
        let runs = quota.runs;
        if !has_model {
            return Ok(Allowance { runs, nano_dollars: None });
        }
        match self.day(tenant, quota, None).await? {
            Some(Day { quota, spent, reserved }) if spent.saturating_add(reserved) >= quota => {
                Err(QuotaError::Dollars { quota, spent, reserved })
            }
            day => Ok(Allowance { runs, nano_dollars: day.map(Day::left) }),
        }
    }

    /// Refuses a budget that gives a run more money than is left of the day.
    pub(crate) async fn check_raise(
        &self,
        run: &Address,
        view: &RunView,
        budget: &Budget,
    ) -> Result<(), QuotaError> {
        let Some(asked) = raised(view, budget) else { return Ok(()) };
        let quota = (self.0.parts.quotas)(&run.tenant).await?;
        match self.day(&run.tenant, quota, Some(&run.run)).await? {
            Some(day) => Ok(day.check(view, asked)?),
            None => Ok(()),
        }
    }

    /// The money of the day; none: it is not bounded. One run may be left out of what unfinished
    /// runs may spend.
    async fn day(
        &self,
        tenant: &str,
        quota: RunQuota,
        but: Option<&RunId>,
    ) -> Result<Option<Day>, QuotaError> {
        let Some(quota) = quota.nano_dollars_per_day else { return Ok(None) };
        // Read before the sums: what a run spends in between is counted twice, not never.
        let reserved = self.reserved(tenant, but).await?;
        self.0.signals.freshen().await?;
        let midnight = OffsetDateTime::now_utc().replace_time(time::Time::MIDNIGHT);
        let sums = self.0.parts.figures.sums(tenant, midnight).await?;
        let spent = sums.get("nano_dollars").copied().unwrap_or(0);
        Ok(Some(Day { quota, spent, reserved }))
    }

    /// The money that unfinished runs may still spend.
    async fn reserved(&self, tenant: &str, but: Option<&RunId>) -> Result<u64, ReadError> {
        let ReservedMoney { nano_dollars, unread } =
            self.journal().reserved_money(tenant, but).await?;
        let mut reserved = nano_dollars;
        for address in &unread {
            match read_all(&**self.journal(), address).await {
                Ok(events) => {
                    reserved = reserved.saturating_add(may_spend(&RunView::of(&events)));
                }
                // No worker can go on with a damaged one.
                Err(ReadError::NoRun | ReadError::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(reserved)
    }
}

/// The quotas that a new run has to keep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    /// Unfinished runs at once.
    pub(crate) runs: u64,
    /// Money that is left of the day, if that is bounded and the run costs any.
    pub(crate) nano_dollars: Option<u64>,
}

/// The money of one day of a tenant.
#[derive(Debug, Clone, Copy)]
struct Day {
    quota: u64,
    spent: u64,
    /// The money that unfinished runs may still spend.
    reserved: u64,
}

impl Day {
    fn left(self) -> u64 {
        self.quota.saturating_sub(self.spent).saturating_sub(self.reserved)
    }

    /// Refuses a run more than it has spent and what is left.
    fn check(self, view: &RunView, asked: u64) -> Result<(), OverBudget> {
        let most = view.spent.nano_dollars.saturating_add(self.left());
        match asked > most {
            true => Err(OverBudget { name: "budget.nano_dollars", asked, most }),
            false => Ok(()),
        }
    }
}

/// The money of a budget, if it is more than a run with a model has.
fn raised(view: &RunView, budget: &Budget) -> Option<u64> {
    let asked = budget.nano_dollars.filter(|_| has_model(view))?;
    view.budget.nano_dollars.is_some_and(|now| asked > now).then_some(asked)
}

/// Returns true if a run costs money.
fn has_model(view: &RunView) -> bool {
    let wish = view.created.as_ref().and_then(|created| created.wish.as_ref());
    wish.is_some_and(|wish| wish.operation.is_some())
}

/// The money that a run may still spend, after the changes of its budget that are pending. A run
/// without a bound, from before its tenant had a quota, counts as nothing.
fn may_spend(view: &RunView) -> u64 {
    if view.finished.is_some() || !has_model(view) {
        return 0;
    }
    let pending = view.pending.iter().filter_map(|pending| match &pending.asked.request {
        Request::Budget { change: BudgetPatch(budget) } => budget.nano_dollars,
        _ => None,
    });
    let budget = pending.chain(view.budget.nano_dollars).max();
    budget.unwrap_or(0).saturating_sub(view.spent.nano_dollars)
}

/// An amount without trailing zeros.
fn dollars(nanos: u64) -> String {
    let (whole, part) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let text = format!("{whole}.{part:09}");
    let text = text.trim_end_matches('0');
    text.strip_suffix('.').unwrap_or(text).to_owned()
}

/// The smaller one of a budget's money and what is left of the day.
pub(crate) fn within(budget: Option<u64>, left: Option<u64>) -> Option<u64> {
    [budget, left].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use belljar_agent::Texts;
    use belljar_domain::Sequence;
    use belljar_journal::Pending;
    use belljar_journal::event::{ControlRequested, Environment, NetworkAccess, RunCreated, Wish};

    use super::*;

    /// A run that may spend 100 and has spent 40.
    fn run(operation: Option<&str>) -> RunView {
        let budget = Budget { nano_dollars: Some(100), ..Budget::default() };
        let network = NetworkAccess::default();
        let created = RunCreated {
            question: "q".into(),
            datasets: Vec::new(),
            model: "m".into(),
            prompt: Texts::newest_for(&network).prompt(),
            budget,
            now: OffsetDateTime::UNIX_EPOCH,
            wish: Some(Wish {
                template: "t".into(),
                environment: Environment::default(),
                network: Box::new(network),
                brief: Box::default(),
                operation: operation.map(str::to_owned),
                request: None,
                questions: false,
                traceparent: None,
            }),
        };
        let mut view = RunView { created: Some(created), budget, ..RunView::default() };
        view.spent.nano_dollars = 40;
        view
    }

    #[test]
    fn an_unfinished_run_keeps_the_rest_of_its_budget() {
        let mut view = run(Some("llm"));
        assert_eq!(may_spend(&view), 60);
        let change = BudgetPatch(Budget { nano_dollars: Some(150), ..Budget::default() });
        let asked = ControlRequested { request: Request::Budget { change }, by: "a".into() };
        view.pending.push(Pending { seq: Sequence(2), asked });
        assert_eq!(may_spend(&view), 110, "a change that is pending counts");
        assert_eq!(may_spend(&run(None)), 0, "rules cost nothing");
        let day = Day { quota: 200, spent: 40, reserved: 110 };
        assert_eq!(day.left(), 50);
        assert_eq!(Day { reserved: 170, ..day }.left(), 0);
    }

    #[test]
    fn a_run_is_given_no_more_than_its_day_has_left() {
        let view = run(Some("llm"));
        let budget = |money| Budget { nano_dollars: Some(money), ..Budget::default() };
        assert_eq!(raised(&view, &budget(101)), Some(101));
        assert_eq!(raised(&view, &budget(100)), None, "less is always allowed");
        assert_eq!(raised(&view, &Budget::default()), None);
        assert_eq!(raised(&run(None), &budget(101)), None);
        let day = Day { quota: 200, spent: 60, reserved: 20 };
        assert_eq!(day.check(&view, 160), Ok(()));
        assert_eq!(day.check(&view, 161).map_err(|error| error.most), Err(160));
    }

    #[test]
    fn a_refusal_names_the_quota_and_the_cause() {
        let error = QuotaError::Dollars { quota: 2_500_000_000, spent: 3_000_000_001, reserved: 0 };
        let text = error.to_string();
        assert!(text.contains("2.5 dollars per day") && text.contains("3.000000001 are"), "{text}");
        let text = QuotaError::Runs { quota: 2, unfinished: 2 }.to_string();
        assert!(text.contains("max_runs") && text.contains("2 are unfinished"), "{text}");
        assert_eq!((dollars(0), dollars(10_000_000_000)), ("0".to_owned(), "10".to_owned()));
    }

    #[test]
    fn a_run_gets_no_more_money_than_its_day_has() {
        assert_eq!(within(None, None), None);
        assert_eq!(within(Some(5), None), Some(5));
        assert_eq!(within(None, Some(3)), Some(3));
        assert_eq!(within(Some(5), Some(3)), Some(3));
    }
}
