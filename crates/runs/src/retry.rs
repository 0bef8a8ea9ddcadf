//! Another attempt at a run that ended without an answer, with a larger allocation.

use belljar_agent::{Larger, NoRetry, next_attempt, retry};
use belljar_domain::{OperationCapped, OperationCaps, RunId};
use belljar_journal::event::{Body, Budget, ForkedFrom};
use belljar_journal::{Address, CreateError, Created, First, NewRun, ReadError, RunView, read_all};

use crate::Runs;
use crate::bounds::OverBudget;
use crate::brief::hand_name_over;
use crate::create::{CreateRunError, Made};
use crate::network::check_caps;
use crate::quota::{QuotaError, within};

/// The reason that there is no other attempt.
#[derive(Debug, thiserror::Error)]
pub enum RetryError {
    #[error("there is no such run")]
    NoRun,
    #[error(transparent)]
    NoRetry(#[from] NoRetry),
    #[error("the run was retried as {0} with another allocation")]
    Retried(RunId),
    #[error(transparent)]
    Capped(#[from] OperationCapped),
    #[error(transparent)]
    Budget(#[from] OverBudget),
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// The sandbox that it wants cannot be had.
    #[error(transparent)]
    Environment(CreateRunError),
    #[error("cannot read the run")]
    Read(#[source] ReadError),
    #[error("cannot give the name of the recording to the retry")]
    Name(#[source] CreateRunError),
    #[error("cannot write the run down")]
    Create(#[source] CreateError),
}

impl Runs {
    /// Makes the next attempt. Asked again for the same, it is the same run.
    pub async fn retry(
        &self,
        run: &Address,
        larger: &Larger,
        caps: &OperationCaps,
    ) -> Result<Made, RetryError> {
        let bounds = self.settings().bounds;
        bounds.check(&larger.budget)?;
        let events = read_all(&**self.journal(), run).await.map_err(|error| match error {
            ReadError::NoRun => RetryError::NoRun,
            error => RetryError::Read(error),
        })?;
        let view = RunView::of(&events);
        check_caps(&view, caps)?;
        let mut forked = retry(&run.run, &events, larger)?;
        let budget = bounds.over(forked.budget.unwrap_or_default());
        forked.budget = Some(budget);
        let address = Address { tenant: run.tenant.clone(), run: next_attempt(&run.run) };
        let mut first = forked.clone();
        let wish = view.created.as_ref().and_then(|created| created.wish.as_ref());
        let recording = wish.and_then(|wish| wish.brief.record.clone());
        let mut most_unfinished = None;
        match self.journal().find(&address).await {
            Ok(_) => {}
            Err(ReadError::NoRun) => {
                let has_model = wish.is_some_and(|wish| wish.operation.is_some());
                let allowance = self.check_quota(&run.tenant, has_model).await?;
                let nano_dollars = within(budget.nano_dollars, allowance.nano_dollars);
                most_unfinished = Some(allowance.runs);
                first.budget = Some(Budget { nano_dollars, ..budget });
                let mut environment = view.environment;
                environment.limits.memory_bytes =
                    larger.memory_bytes.or(environment.limits.memory_bytes);
                let checked = self.check_environment(&run.tenant, &environment).await;
                checked.map_err(RetryError::Environment)?;
            }
            Err(error) => return Err(RetryError::Read(error)),
        }
        let new = NewRun { address: address.clone(), first: First::Forked(first), most_unfinished };
        match self.journal().create(&new).await.map_err(not_created)? {
            Created::Made => {
                self.0.bell.notify_one();
                self.name_retry(recording.as_deref(), run, &address).await?;
                Ok(Made { run: address, is_repeated: false })
            }
            Created::Already(event) => match event.body {
                // The money may have been less, because of the day's quota.
                Body::ForkedFrom(before) if is_same(&before, &forked) => {
                    self.name_retry(recording.as_deref(), run, &address).await?;
                    Ok(Made { run: address, is_repeated: true })
                }
                _ => Err(RetryError::Retried(address.run)),
            },
        }
    }

    /// Lets the retry of a recorded run have the name of the recording.
    async fn name_retry(
        &self,
        name: Option<&str>,
        run: &Address,
        retry: &Address,
    ) -> Result<(), RetryError> {
        let Some(name) = name else { return Ok(()) };
        let belongings = self.data().of(&run.tenant);
        let belongings = belongings.map_err(|error| RetryError::Name(error.into()))?;
        let done = hand_name_over(&belongings.plans, name, &run.run, &retry.run).await;
        done.map_err(RetryError::Name)
    }
}

fn not_created(error: CreateError) -> RetryError {
    match error {
        CreateError::TooManyUnfinished { most: quota, unfinished } => {
            QuotaError::Runs { quota, unfinished }.into()
        }
        error => RetryError::Create(error),
    }
}

/// Returns true if both begin the same attempt, apart from what the day's quota left of the money.
fn is_same(made: &ForkedFrom, wanted: &ForkedFrom) -> bool {
    let money = made.budget.and_then(|budget| budget.nano_dollars);
    let wanted_money = wanted.budget.and_then(|budget| budget.nano_dollars);
    let is_less = match (money, wanted_money) {
        (Some(made), Some(wanted)) => made <= wanted,
        (made, wanted) => made.is_some() || wanted.is_none(),
    };
    let budget = wanted.budget.map(|budget| Budget { nano_dollars: money, ..budget });
    let wanted = ForkedFrom { budget, ..wanted.clone() };
    is_less && *made == wanted
}
