//! `GET /v1/checkpoints`

use axum::extract::State;
use axum::{Extension, Json};
use belljar_api::checkpoint as api;
use belljar_sandboxes::{Actions, LONGEST_PAGE, PageKeys};

use super::view;
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::Query;

pub(in crate::v1) async fn list(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Query(query): Query<api::ListCheckpoints>,
) -> Result<(Extension<PageKeys>, Json<api::CheckpointPage>), Failure> {
    let limit = query
        .limit
        .map_or(LONGEST_PAGE, |limit| usize::try_from(limit.get()).unwrap_or(LONGEST_PAGE));
    let (sandbox, name) = (query.sandbox.as_deref(), query.name.as_deref());
    let page = actions.list_snapshots(&tenant, sandbox, name, limit, query.after.as_deref())?;
    let items = page.items.iter().map(|snapshot| view(snapshot)).collect();
    Ok((Extension(page.keys), Json(api::CheckpointPage { items, next: page.next })))
}
