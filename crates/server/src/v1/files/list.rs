//! `GET /v1/sandboxes/{sandbox}/files`

use axum::Json;
use axum::extract::State;
use belljar_api::file as api;
use belljar_sandboxes::Actions;

use super::{files_of, view};
use crate::v1::authenticate::Caller;
use crate::v1::calls::reach;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Query};

pub(in crate::v1) async fn list(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    Query(query): Query<api::ListQuery>,
) -> Result<Json<api::EntryList>, Failure> {
    let (sandbox, live) = reach(&actions, &tenant, &id).await?;
    let files = files_of(&live, &sandbox, query.user);
    let path = files.resolve(query.path.as_ref().map_or("", |path| path.as_str()))?;
    let depth = query.depth.map_or(1, |depth| u32::try_from(depth.get()).unwrap_or(1));
    let entries = files.list(&path, depth).await?;
    Ok(Json(api::EntryList { items: entries.iter().map(view).collect() }))
}
