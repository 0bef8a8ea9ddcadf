//! `POST /v1/sandboxes/{sandbox}/calls/{call}/signal`

use axum::extract::State;
use belljar_api::call as api;
use belljar_sandboxes::Actions;
use http::StatusCode;

use super::{reach, selector};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Body};

pub(in crate::v1) async fn signal(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At((id, call)): At<(String, String)>,
    Body(wish): Body<api::SignalCall>,
) -> Result<StatusCode, Failure> {
    let (_, live) = reach(&actions, &tenant, &id).await?;
    let process = live.processes.find(&selector(&call)?)?;
    process.signal(i32::try_from(wish.signal.get()).unwrap_or(i32::MAX)).await?;
    Ok(StatusCode::NO_CONTENT)
}
