//! `POST /v1/sandboxes/{sandbox}/files/directories`

use axum::Json;
use axum::extract::State;
use belljar_api::file as api;
use belljar_sandboxes::Actions;
use http::StatusCode;

use super::{files_of, view};
use crate::v1::authenticate::Caller;
use crate::v1::calls::reach;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Body};

pub(in crate::v1) async fn make_directory(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    Body(wish): Body<api::MakeDirectory>,
) -> Result<(StatusCode, Json<api::Entry>), Failure> {
    let (sandbox, live) = reach(&actions, &tenant, &id).await?;
    let files = files_of(&live, &sandbox, wish.user);
    let entry = files.make_dir(&files.resolve(wish.path.as_str())?).await?;
    Ok((StatusCode::CREATED, Json(view(&entry))))
}
