//! Quotas of a tenant: runs at once, and dollars per day.
//!
//! The figures of runs say what a day has cost. They are kept every few seconds, and runs that
//! start at the same moment see the same figures. So each run gets no more money than is left of
//! its day when it is created; runs that are created together can pass the quota by what the
//! others of them spend.

use std::error::Error;

use belljar_journal::{Failure, ReadError, State};
use futures_util::future::BoxFuture;
use time::OffsetDateTime;

use crate::Runs;

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
         00:00 UTC", dollars(*.quota), dollars(*.spent)
    )]
    Dollars { quota: u64, spent: u64 },
    #[error(transparent)]
    Read(#[from] NoQuota),
    #[error("cannot count runs")]
    Count(#[from] ReadError),
    #[error("cannot read the cost of the day")]
    Figures(#[from] Failure),
}

impl Runs {
    /// Refuses a run that exceeds a quota. Returns the money that is left of the day, if that is
    /// bounded and the run costs any.
    pub(crate) async fn check_quota(
        &self,
        tenant: &str,
        has_model: bool,
    ) -> Result<Option<u64>, QuotaError> {
        let quota = (self.0.parts.quotas)(tenant).await?;
        let mut unfinished = 0;
        for state in [State::Waiting, State::Running, State::Paused] {
            unfinished += self.journal().count(tenant, state).await?;
        }
        if unfinished >= quota.runs {
            return Err(QuotaError::Runs { quota: quota.runs, unfinished });
        }
        let Some(quota) = quota.nano_dollars_per_day.filter(|_| has_model) else {
            return Ok(None);
        };
        self.0.signals.freshen().await?;
        let midnight = OffsetDateTime::now_utc().replace_time(time::Time::MIDNIGHT);
        let sums = self.0.parts.figures.sums(tenant, midnight).await?;
        let spent = sums.get("nano_dollars").copied().unwrap_or(0);
        match quota.saturating_sub(spent) {
            0 => Err(QuotaError::Dollars { quota, spent }),
            left => Ok(Some(left)),
        }
    }
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
    use super::*;

    #[test]
    fn a_refusal_names_the_quota_and_the_cause() {
        let error = QuotaError::Dollars { quota: 2_500_000_000, spent: 3_000_000_001 };
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
