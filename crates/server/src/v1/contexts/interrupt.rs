//! `POST /v1/sandboxes/{sandbox}/contexts/{context}/interrupt`

use axum::extract::State;
use belljar_sandboxes::Actions;
use http::StatusCode;

use super::of;
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::At;

pub(in crate::v1) async fn interrupt(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At((id, context)): At<(String, String)>,
) -> Result<StatusCode, Failure> {
    let contexts = of(&actions, &tenant, &id).await?;
    contexts.interrupt(&context)?;
    Ok(StatusCode::NO_CONTENT)
}
