//! `GET /v1/data`

use axum::Json;
use belljar_api::data as api;

use super::{not_kept, view};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::runs::Offering;

pub(in crate::v1) async fn list(
    Offering(runs): Offering,
    Caller(tenant): Caller,
) -> Result<Json<api::DataList>, Failure> {
    let kept = runs.data().list(tenant.as_str()).await.map_err(|error| not_kept(&error))?;
    let items = kept.iter().map(view).collect::<Result<Vec<_>, _>>()?;
    let bytes = items.iter().map(|item| item.bytes).sum();
    let most_bytes = runs.data().limits().tenant_bytes;
    Ok(Json(api::DataList { items, bytes, most_bytes }))
}
