//! `POST /v1/sandboxes/{sandbox}/files/move`

use axum::Json;
use axum::extract::State;
use belljar_api::file as api;
use belljar_sandboxes::Actions;

use super::{files_of, view};
use crate::v1::authenticate::Caller;
use crate::v1::calls::reach;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Body};

pub(in crate::v1) async fn rename(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    Body(wish): Body<api::MoveFile>,
) -> Result<Json<api::Entry>, Failure> {
    let (sandbox, live) = reach(&actions, &tenant, &id).await?;
    let files = files_of(&live, &sandbox, wish.user);
    let (from, to) = (files.resolve(wish.from.as_str())?, files.resolve(wish.to.as_str())?);
    Ok(Json(view(&files.rename(&from, &to).await?)))
}
