//! `PATCH /v1/sandboxes/{sandbox}`

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use belljar_api::sandbox as api;
use belljar_sandboxes::{Actions, Moment, Problem};

use super::view;
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Body};

pub(in crate::v1) async fn change(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    Body(change): Body<api::ChangeSandbox>,
) -> Result<Json<api::Sandbox>, Failure> {
    let sandbox = actions.registry().find(&tenant, &id)?;
    actions.set_timeout(&tenant, &id, life(&change)?)?;
    Ok(Json(view(&actions, &sandbox)))
}

fn life(change: &api::ChangeSandbox) -> Result<Duration, Problem> {
    match (change.timeout_seconds, &change.deadline) {
        (Some(seconds), None) => Ok(Duration::from_secs(seconds.get())),
        (None, Some(deadline)) => {
            let moment = Moment::parse(&deadline.0).ok_or_else(|| {
                Problem::invalid("deadline must be a time such as 2026-01-31T12:00:00Z")
            })?;
            let life = moment.remaining();
            if life.is_zero() {
                return Err(Problem::invalid(
                    "deadline is in the past; delete the sandbox instead",
                ));
            }
            Ok(life)
        }
        _ => Err(Problem::invalid("give either timeout_seconds or deadline")),
    }
}
