//! `GET /v1/sandboxes/{sandbox}/network`

use axum::Json;
use axum::extract::State;
use belljar_api::network as api;
use belljar_sandboxes::Actions;

use super::view;
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::At;

pub(in crate::v1) async fn get(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Result<Json<api::NetworkShown>, Failure> {
    Ok(Json(view(&*actions.network(&tenant, &id)?)))
}
