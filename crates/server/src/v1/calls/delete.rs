//! `DELETE /v1/sandboxes/{sandbox}/calls/{call}`

use axum::extract::State;
use belljar_sandboxes::Actions;
use http::StatusCode;

use super::{reach, selector};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::At;

const SIGKILL: i32 = 9;

pub(in crate::v1) async fn delete(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At((id, call)): At<(String, String)>,
) -> Result<StatusCode, Failure> {
    let (_, live) = reach(&actions, &tenant, &id).await?;
    let process = live.processes.find(&selector(&call)?)?;
    process.signal(SIGKILL).await?;
    Ok(StatusCode::NO_CONTENT)
}
