//! `POST /v1/runs/{run}/retry`

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use belljar_api::run as api;
use belljar_runs::{Larger, NoRetry, RetryError};
use belljar_sandboxes::{Kind, Problem, capped};
use http::StatusCode;

use super::create::{budget, over_budget, over_quota, refused as not_created};
use super::show::shown;
use super::{Offering, address, failed, unknown};
use crate::v1::authenticate::{Caller, Capped};
use crate::v1::failure::Failure;
use crate::v1::once::mark;
use crate::v1::read::{At, Body};

pub(in crate::v1) async fn retry(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    Capped(caps): Capped,
    At(id): At<String>,
    Body(wish): Body<api::RetryRun>,
) -> Result<Response, Failure> {
    let run = address(&tenant, &id)?;
    let memory_bytes = wish.memory_bytes.map(Into::into);
    let larger = Larger { budget: budget(&wish.budget), memory_bytes };
    let made = runs.retry(&run, &larger, &caps).await.map_err(|error| refused(&error))?;
    let run = shown(&runs, &made.run).await?;
    Ok(mark((StatusCode::CREATED, Json(run)).into_response(), made.is_repeated))
}

fn refused(error: &RetryError) -> Failure {
    let message = error.to_string();
    let conflict = |code| Problem::new(Kind::Conflict, code, message.clone());
    match error {
        RetryError::NoRun => unknown(),
        RetryError::NoRetry(NoRetry::Unfinished) => conflict("run_unfinished")
            .hint("cancel it first, or give it more with PATCH /v1/runs/{run}")
            .into(),
        RetryError::NoRetry(NoRetry::Answered) => {
            conflict("run_answered").hint("create another run with POST /v1/runs").into()
        }
        RetryError::NoRetry(NoRetry::NothingLeft(_)) => {
            conflict("run_budget_used_up").hint("name this bound in `budget`").into()
        }
        RetryError::Retried(_) => {
            conflict("run_retried").hint("look at that run; retry it when it has ended").into()
        }
        RetryError::Capped(error) => capped(error.clone()).into(),
        RetryError::Budget(error) => over_budget(error).into(),
        RetryError::Quota(error) => over_quota(error),
        RetryError::Environment(error) => not_created(error),
        RetryError::Read(_) | RetryError::Name(_) | RetryError::Create(_) => failed(error),
    }
}
