//! `GET /v1/sandboxes/{sandbox}/calls/{call}/events`

use axum::extract::State;
use axum::response::IntoResponse;
use belljar_api::call as api;
use belljar_sandboxes::Actions;

use super::source::Source;
use super::{events, reach, selector};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::hint::Hints;
use crate::v1::read::{At, Query};

pub(in crate::v1) async fn follow(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At((id, call)): At<(String, String)>,
    Query(query): Query<api::FollowCall>,
) -> Result<impl IntoResponse, Failure> {
    let (sandbox, live) = reach(&actions, &tenant, &id).await?;
    let following = live.processes.follow(&selector(&call)?)?;
    let call = (following.pid(), following.number());
    Ok(events::stream(call, Source::Live(following), query.output, Hints::new(&sandbox)))
}
