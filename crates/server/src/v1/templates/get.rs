//! `GET /v1/templates/{template}`

use axum::Json;
use axum::extract::State;
use belljar_api::template as api;
use belljar_sandboxes::Actions;

use super::view;
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::At;

pub(in crate::v1) async fn get(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(name): At<String>,
) -> Result<Json<api::Template>, Failure> {
    Ok(Json(view(&*actions.offered_as(&tenant, &name).await?)))
}
