//! `PATCH /v1/runs/{run}`, `PUT` to its `breakpoints`, and `POST` to its `pause`, `resume`, `step`,
//! `tell`, `answer` and `cancel`. Each is recorded; the run's worker, in any process, does it next.

use axum::Json;
use belljar_api::run as api;
use belljar_domain::OperationCaps;
use belljar_journal::event::{Breakpoints, BudgetPatch, Request};
use belljar_runs::{Runs, SteerError};
use belljar_sandboxes::{Kind, Problem, Tenant, capped};
use http::{HeaderMap, StatusCode};

use super::create::{budget, over_budget, over_quota};
use super::show::shown;
use super::{Offering, address, failed, unknown};
use crate::v1::authenticate::{Caller, Capped};
use crate::v1::failure::Failure;
use crate::v1::once::idempotency_key;
use crate::v1::read::{At, Body};

type Steered = Result<(StatusCode, Json<api::Run>), Failure>;

pub(in crate::v1) async fn change(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    Capped(caps): Capped,
    At(id): At<String>,
    Body(wish): Body<api::ChangeRun>,
) -> Steered {
    let change = BudgetPatch(budget(&wish.budget));
    steer(&runs, &tenant, &id, Request::Budget { change }, &caps, None).await
}

pub(in crate::v1) async fn breakpoints(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    Capped(caps): Capped,
    At(id): At<String>,
    Body(wish): Body<api::RunBreakpoints>,
) -> Steered {
    let breakpoints = Breakpoints { turns: wish.turns, calls: wish.calls };
    steer(&runs, &tenant, &id, Request::Breakpoints { breakpoints }, &caps, None).await
}

pub(in crate::v1) async fn tell(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    Capped(caps): Capped,
    At(id): At<String>,
    headers: HeaderMap,
    Body(wish): Body<api::TellRun>,
) -> Steered {
    let request = Request::Tell { text: wish.text.into() };
    steer(&runs, &tenant, &id, request, &caps, idempotency_key(&headers)?).await
}

pub(in crate::v1) async fn answer(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    Capped(caps): Capped,
    At(id): At<String>,
    headers: HeaderMap,
    Body(wish): Body<api::AnswerRun>,
) -> Steered {
    let request = Request::Answer { text: wish.text.into() };
    steer(&runs, &tenant, &id, request, &caps, idempotency_key(&headers)?).await
}

pub(in crate::v1) async fn step(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    Capped(caps): Capped,
    At(id): At<String>,
    headers: HeaderMap,
) -> Steered {
    steer(&runs, &tenant, &id, Request::Step, &caps, idempotency_key(&headers)?).await
}

pub(in crate::v1) async fn pause(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    Capped(caps): Capped,
    At(id): At<String>,
) -> Steered {
    steer(&runs, &tenant, &id, Request::Pause, &caps, None).await
}

pub(in crate::v1) async fn resume(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    Capped(caps): Capped,
    At(id): At<String>,
) -> Steered {
    steer(&runs, &tenant, &id, Request::Resume, &caps, None).await
}

pub(in crate::v1) async fn cancel(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    Capped(caps): Capped,
    At(id): At<String>,
) -> Steered {
    steer(&runs, &tenant, &id, Request::Cancel, &caps, None).await
}

async fn steer(
    runs: &Runs,
    tenant: &Tenant,
    id: &str,
    request: Request,
    caps: &OperationCaps,
    key: Option<&str>,
) -> Steered {
    let run = address(tenant, id)?;
    let steered = runs.steer(&run, request, tenant.as_str(), caps, key).await;
    steered.map_err(|error| refused(&error))?;
    Ok((StatusCode::ACCEPTED, Json(shown(runs, &run).await?)))
}

pub(in crate::v1) fn refused(error: &SteerError) -> Failure {
    let message = error.to_string();
    match error {
        SteerError::NoRun => unknown(),
        SteerError::Finished => Problem::new(Kind::Conflict, "run_finished", message).into(),
        SteerError::Question => Problem::new(Kind::Conflict, "run_waits_for_answer", message)
            .hint("`question_asked` of the run has the question; POST /v1/runs/{run}/answer")
            .into(),
        SteerError::NoQuestion => Problem::new(Kind::Conflict, "no_question", message)
            .hint("send a message with POST /v1/runs/{run}/tell")
            .into(),
        SteerError::Approval => Problem::new(Kind::Conflict, "run_waits_for_approval", message)
            .hint("`approval_asked` of the run has the id; POST /v1/approvals/{approval}")
            .into(),
        SteerError::NoApproval => Problem::new(Kind::Conflict, "approval_over", message)
            .hint("GET /v1/approvals lists the requests that wait")
            .into(),
        SteerError::TooMany => Problem::new(Kind::TooMany, "too_many_wishes", message)
            .hint("`asked` of the run lists pending requests")
            .into(),
        SteerError::UsedUp => Problem::new(Kind::Conflict, "run_requests_used_up", message)
            .hint("cancel the run; POST /v1/runs/{run}/retry continues it as another run")
            .into(),
        SteerError::Capped(error) => capped(error.clone()).into(),
        SteerError::Budget(error) => over_budget(error).into(),
        SteerError::Quota(error) => over_quota(error),
        SteerError::Mismatch => {
            Problem::new(Kind::Conflict, "idempotency_request_mismatch", message).into()
        }
        SteerError::Read(_) | SteerError::Write(_) => failed(error),
    }
}
