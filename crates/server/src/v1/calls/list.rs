//! `GET /v1/sandboxes/{sandbox}/calls`

use axum::Json;
use axum::extract::State;
use belljar_api::call as api;
use belljar_sandboxes::Actions;

use super::{reach, view};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::At;

pub(in crate::v1) async fn list(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Result<Json<api::CallList>, Failure> {
    let (_, live) = reach(&actions, &tenant, &id).await?;
    let items = live.processes.list().iter().map(|process| view(process, None)).collect();
    Ok(Json(api::CallList { items }))
}
