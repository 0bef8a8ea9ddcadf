//! `POST /v1/data`

use axum::Json;
use axum::body::Body;
use belljar_api::data as api;
use http::StatusCode;

use super::{not_put, view};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::files::Source;
use crate::v1::runs::Offering;

pub(in crate::v1) async fn create(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    body: Body,
) -> Result<(StatusCode, Json<api::Data>), Failure> {
    let kept = runs.data().put(tenant.as_str(), Source::new(body)).await;
    let kept = kept.map_err(|error| not_put(&error))?;
    Ok((StatusCode::CREATED, Json(view(&kept)?)))
}
