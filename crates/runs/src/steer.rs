//! What people want of a run that is under way.

use belljar_journal::event::{BudgetPatch, ControlRequested, Request};
use belljar_journal::{Address, Key, ReadError, RequestError, RunView, read_all};
use belljar_model::{OperationCapped, OperationCaps};

use crate::Runs;
use crate::bounds::OverBudget;
use crate::network::check_caps;
use crate::quota::QuotaError;

/// Wishes of one run that nobody has acted on. Whoever says more does not wait for
/// what comes of them.
const MOST_PENDING: usize = 64;

/// Why a wish was not written down.
#[derive(Debug, thiserror::Error)]
pub enum SteerError {
    #[error("there is no such run")]
    NoRun,
    #[error("the run is over")]
    Finished,
    #[error("the run waits for an answer to its question")]
    Question,
    #[error("the run has asked no question")]
    NoQuestion,
    #[error("{MOST_PENDING} requests wait already")]
    TooMany,
    #[error(transparent)]
    Capped(#[from] OperationCapped),
    #[error(transparent)]
    Budget(#[from] OverBudget),
    #[error(transparent)]
    Quota(#[from] QuotaError),
    #[error("cannot read the run")]
    Read(#[source] ReadError),
    #[error("cannot write the request down")]
    Write(#[source] RequestError),
}

impl Runs {
    /// Writes a wish down; whoever works on the run does it next.
    ///
    /// Caps hold for all but a pause and a cancellation: those let a run do less.
    /// With a key, it is written once. Repeating it is no error, even if the run is over by then.
    pub async fn steer(
        &self,
        run: &Address,
        request: Request,
        by: &str,
        caps: &OperationCaps,
        key: Option<&str>,
    ) -> Result<(), SteerError> {
        if let Request::Budget { change: BudgetPatch(budget) } = &request {
            self.settings().bounds.check(budget)?;
        }
        let events = read_all(&**self.journal(), run).await.map_err(|error| match error {
            ReadError::NoRun => SteerError::NoRun,
            error => SteerError::Read(error),
        })?;
        let view = RunView::of(&events);
        if !matches!(request, Request::Pause | Request::Cancel) {
            check_caps(&view, caps)?;
        }
        let key = key.map(|key| Key::new(&format!("request:{key}")));
        if key.is_some() && events.iter().any(|event| event.key == key) {
            return Ok(());
        }
        check(&view, &request)?;
        if let Request::Budget { change: BudgetPatch(budget) } = &request {
            self.check_raise(run, &view, budget).await?;
        }
        if view.pending.len() >= MOST_PENDING {
            return Err(SteerError::TooMany);
        }
        let asked = ControlRequested { request, by: by.to_owned() };
        let written = self.journal().request(run, asked, key).await;
        written.map_err(|error| match error {
            RequestError::NoRun => SteerError::NoRun,
            RequestError::Finished => SteerError::Finished,
            error => SteerError::Write(error),
        })?;
        self.0.bell.notify_one();
        Ok(())
    }
}

/// Refuses what the run as it is cannot do.
fn check(view: &RunView, request: &Request) -> Result<(), SteerError> {
    if view.finished.is_some() {
        return Err(SteerError::Finished);
    }
    match request {
        Request::Answer { .. } if view.question.is_none() => Err(SteerError::NoQuestion),
        Request::Resume | Request::Step if view.question.is_some() => Err(SteerError::Question),
        _ => Ok(()),
    }
}
