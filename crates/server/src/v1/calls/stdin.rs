//! `POST /v1/sandboxes/{sandbox}/calls/{call}/stdin`

use axum::extract::State;
use belljar_api::call as api;
use belljar_sandboxes::{Actions, ProcessInput};
use http::StatusCode;

use super::{reach, selector};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::output;
use crate::v1::read::{At, Body};

pub(in crate::v1) async fn write_stdin(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At((id, call)): At<(String, String)>,
    Body(input): Body<api::WriteStdin>,
) -> Result<StatusCode, Failure> {
    let (_, live) = reach(&actions, &tenant, &id).await?;
    let process = live.processes.find(&selector(&call)?)?;
    let bytes = output::decoded(input.data, input.encoding)?;
    if !bytes.is_empty() {
        process.write(ProcessInput::Stdin(bytes)).await?;
    }
    if input.close {
        process.close_stdin()?;
    }
    Ok(StatusCode::NO_CONTENT)
}
