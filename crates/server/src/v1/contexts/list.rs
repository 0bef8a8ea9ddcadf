//! `GET /v1/sandboxes/{sandbox}/contexts`

use axum::Json;
use axum::extract::State;
use belljar_api::context as api;
use belljar_sandboxes::Actions;

use super::{of, view};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::At;

pub(in crate::v1) async fn list(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Result<Json<api::ContextList>, Failure> {
    let contexts = of(&actions, &tenant, &id).await?;
    Ok(Json(api::ContextList { items: contexts.list().into_iter().map(view).collect() }))
}
