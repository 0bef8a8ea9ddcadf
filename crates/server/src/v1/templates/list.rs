//! `GET /v1/templates`

use axum::Json;
use axum::extract::State;
use belljar_api::template as api;
use belljar_sandboxes::Actions;

use super::view;
use crate::v1::authenticate::{Caller, Capped};
use crate::v1::failure::Failure;

pub(in crate::v1) async fn list(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Capped(caps): Capped,
) -> Result<Json<api::TemplateList>, Failure> {
    let items = actions.offered(&tenant)?.iter().map(|known| view(known)).collect();
    let max_limits = Some(actions.max_limits().into());
    let tiers = Some(actions.choosable_tiers(&tenant));
    let operations = actions.offered_operations(&caps);
    let max_network = Some(actions.config().networks.most.as_str().to_owned());
    Ok(Json(api::TemplateList { items, max_limits, tiers, operations, max_network }))
}
