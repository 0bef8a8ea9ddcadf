//! `PUT /v1/sandboxes/{sandbox}/network`

use axum::Json;
use axum::extract::State;
use belljar_api::network as api;
use belljar_sandboxes::Actions;

use super::{view, wish};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Body};

pub(in crate::v1) async fn set(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    Body(asked): Body<api::Network>,
) -> Result<Json<api::NetworkShown>, Failure> {
    actions.registry().find(&tenant, &id)?;
    let network = actions.set_network(&tenant, &id, wish(&asked)?).await?;
    Ok(Json(view(&network)))
}
