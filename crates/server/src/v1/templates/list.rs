//! `GET /v1/templates`

use axum::Json;
use axum::extract::State;
use belljar_actions::Actions;
use belljar_api::template as api;

use super::view;
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;

pub(in crate::v1) async fn list(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
) -> Result<Json<api::TemplateList>, Failure> {
    let items = actions.offered(&tenant)?.iter().map(|known| view(known)).collect();
    let max_limits = Some(actions.max_limits().into());
    let tiers = Some(actions.choosable_tiers(&tenant));
    Ok(Json(api::TemplateList { items, max_limits, tiers }))
}
