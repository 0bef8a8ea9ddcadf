//! `GET /v1/sandboxes/{sandbox}/files/stat`

use axum::Json;
use axum::extract::State;
use belljar_api::file as api;
use belljar_sandboxes::Actions;

use super::{files_of, view};
use crate::v1::authenticate::Caller;
use crate::v1::calls::reach;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Query};

pub(in crate::v1) async fn stat(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    Query(query): Query<api::FileQuery>,
) -> Result<Json<api::Entry>, Failure> {
    let (sandbox, live) = reach(&actions, &tenant, &id).await?;
    let files = files_of(&live, &sandbox, query.user);
    let entry = files.stat(&files.resolve(query.path.as_str())?).await?;
    Ok(Json(view(&entry)))
}
