//! `DELETE /v1/sandboxes/{sandbox}/files`

use axum::extract::State;
use belljar_api::file as api;
use belljar_sandboxes::Actions;
use http::StatusCode;

use super::files_of;
use crate::v1::authenticate::Caller;
use crate::v1::calls::reach;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Query};

pub(in crate::v1) async fn delete(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    Query(query): Query<api::FileQuery>,
) -> Result<StatusCode, Failure> {
    let (sandbox, live) = reach(&actions, &tenant, &id).await?;
    let files = files_of(&live, &sandbox, query.user);
    files.remove(&files.resolve(query.path.as_str())?).await?;
    Ok(StatusCode::NO_CONTENT)
}
