//! `PATCH /v1/runs/{run}`, and `POST` to its `pause`, `resume` and `cancel`. Each is
//! written down; whoever works on the run, wherever that is, does it next.

use axum::Json;
use belljar_actions::{Kind, Problem, Tenant};
use belljar_api::run as api;
use belljar_journal::event::{BudgetPatch, Request};
use belljar_runs::{Runs, SteerError};
use http::StatusCode;

use super::create::{budget, over_budget};
use super::show::shown;
use super::{Offering, address, failed, unknown};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Body};

type Steered = Result<(StatusCode, Json<api::Run>), Failure>;

pub(in crate::v1) async fn change(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    At(id): At<String>,
    Body(wish): Body<api::ChangeRun>,
) -> Steered {
    let change = BudgetPatch(budget(&wish.budget));
    steer(&runs, &tenant, &id, Request::Budget { change }).await
}

pub(in crate::v1) async fn pause(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Steered {
    steer(&runs, &tenant, &id, Request::Pause).await
}

pub(in crate::v1) async fn resume(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Steered {
    steer(&runs, &tenant, &id, Request::Resume).await
}

pub(in crate::v1) async fn cancel(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Steered {
    steer(&runs, &tenant, &id, Request::Cancel).await
}

async fn steer(runs: &Runs, tenant: &Tenant, id: &str, request: Request) -> Steered {
    let run = address(tenant, id)?;
    runs.steer(&run, request, tenant.as_str()).await.map_err(|error| refused(&error))?;
    Ok((StatusCode::ACCEPTED, Json(shown(runs, &run).await?)))
}

fn refused(error: &SteerError) -> Failure {
    let message = error.to_string();
    match error {
        SteerError::NoRun => unknown(),
        SteerError::Finished => Problem::new(Kind::Conflict, "run_finished", message).into(),
        SteerError::TooMany => Problem::new(Kind::TooMany, "too_many_wishes", message)
            .hint("`asked` of the run lists pending requests")
            .into(),
        SteerError::Budget(error) => over_budget(error).into(),
        SteerError::Read(_) | SteerError::Write(_) => failed(error),
    }
}
