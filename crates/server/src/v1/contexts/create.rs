//! `POST /v1/sandboxes/{sandbox}/contexts`

use axum::Json;
use axum::extract::State;
use belljar_api::context as api;
use belljar_node::Language;
use belljar_sandboxes::{Actions, Problem};
use http::StatusCode;

use super::{of, view};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Body};

pub(in crate::v1) async fn create(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    Body(wish): Body<api::CreateContext>,
) -> Result<(StatusCode, Json<api::Context>), Failure> {
    let contexts = of(&actions, &tenant, &id).await?;
    let language = match &wish.language {
        None => Language::Python,
        Some(name) => Language::named(name.as_str()).ok_or_else(|| {
            Problem::unsupported(format!(
                "contexts do not support the language `{}`",
                name.as_str()
            ))
        })?,
    };
    let made = contexts.create(language, wish.cwd.as_ref().map(|cwd| cwd.as_str())).await?;
    Ok((StatusCode::CREATED, Json(view(made))))
}
