//! `POST /v1/sandboxes/{sandbox}/contexts/{context}/cells`

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use belljar_actions::{Actions, Place};
use belljar_api::context as api;
use http::HeaderMap;

use super::{cells, of};
use crate::v1::authenticate::Caller;
use crate::v1::calls::wants_events;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Body};

pub(in crate::v1) async fn run(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At((id, context)): At<(String, String)>,
    headers: HeaderMap,
    Body(wish): Body<api::RunCell>,
) -> Result<Response, Failure> {
    let contexts = of(&actions, &tenant, &id).await?;
    let limit = wish.timeout_ms.map(|millis| Duration::from_millis(millis.get()));
    let place = Place::Context(context);
    let execution = contexts.run_within(&place, wish.code.into(), wish.env, limit)?;
    if wants_events(&headers) {
        return Ok(cells::stream(execution).into_response());
    }
    Ok(Json(cells::collect(execution).await?).into_response())
}
