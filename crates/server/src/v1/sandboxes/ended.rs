//! `GET /v1/ended`

use axum::Json;
use axum::extract::State;
use belljar_api::sandbox as api;
use belljar_sandboxes::{Actions, LONGEST_PAGE};

use super::date_time;
use crate::v1::authenticate::Caller;
use crate::v1::read::Query;

pub(in crate::v1) async fn ended(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Query(query): Query<api::ListEnded>,
) -> Json<api::EndedList> {
    let most = query
        .limit
        .map_or(LONGEST_PAGE, |limit| usize::try_from(limit.get()).unwrap_or(LONGEST_PAGE));
    let ended = actions.ended(&tenant, most).into_iter().map(|ended| api::Ended {
        id: ended.id.to_string(),
        template: ended.template,
        started_at: date_time(ended.started_at),
        ended_at: date_time(ended.ended_at),
        reason: ended.reason,
        tier: Some(ended.tier),
    });
    Json(api::EndedList { items: ended.collect() })
}
