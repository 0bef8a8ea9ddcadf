//! `DELETE /v1/checkpoints/{checkpoint}`

use axum::extract::State;
use belljar_sandboxes::Actions;
use http::StatusCode;

use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::At;

pub(in crate::v1) async fn delete(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Result<StatusCode, Failure> {
    actions.delete_snapshot(&tenant, &id)?;
    Ok(StatusCode::NO_CONTENT)
}
