//! `POST /v1/sandboxes/{sandbox}/contexts/{context}/cells`

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use belljar_api::bounds::Millis;
use belljar_api::context as api;
use belljar_sandboxes::{Actions, Allowance, Place};
use http::HeaderMap;

use super::cells::{self, Source};
use super::of;
use crate::v1::attribution::attribution;
use crate::v1::authenticate::Caller;
use crate::v1::calls::wants_events;
use crate::v1::failure::Failure;
use crate::v1::hint::Hints;
use crate::v1::once;
use crate::v1::read::{At, Body};

pub(in crate::v1) async fn run(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At((id, context)): At<(String, String)>,
    headers: HeaderMap,
    Body(wish): Body<api::RunCell>,
) -> Result<Response, Failure> {
    let asked = once::asked(&headers, &format!("cell {context}"), &wish)?;
    let time = |millis: Millis| Duration::from_millis(millis.get());
    let allowance = Allowance {
        wall: wish.timeout_ms.map(time),
        cpu: wish.cpu_ms.map(time),
        attribution: attribution(&headers)?,
    };
    let (place, code) = (Place::Context(context), wish.code.into());
    let sandbox = actions.registry().find(&tenant, &id)?;
    let hints = Hints::new(&sandbox);
    let (source, is_repeated) = match asked {
        None => {
            let contexts = of(&actions, &tenant, &id).await?;
            let execution = contexts.run_within(&place, code, wish.env, allowance)?;
            (Source::Live(execution), false)
        }
        Some(asked) => {
            let cell = actions.cell_once(&sandbox, &asked, (place, code), wish.env, allowance);
            let heard = cell.await?;
            (Source::Kept(heard.listening), heard.is_repeated)
        }
    };
    let response = if wants_events(&headers) {
        cells::stream(source, hints).into_response()
    } else {
        Json(cells::collect(source, hints).await?).into_response()
    };
    Ok(once::mark(response, is_repeated))
}
