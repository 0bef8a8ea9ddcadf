//! `GET /v1/sandboxes/{sandbox}/calls/{call}`

use axum::Json;
use axum::extract::State;
use belljar_api::call as api;
use belljar_sandboxes::Actions;

use super::{reach, selector, view};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::At;

pub(in crate::v1) async fn get(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At((id, call)): At<(String, String)>,
) -> Result<Json<api::Call>, Failure> {
    let (_, live) = reach(&actions, &tenant, &id).await?;
    let process = live.processes.recall(&selector(&call)?)?;
    Ok(Json(view(&process, process.ending())))
}
