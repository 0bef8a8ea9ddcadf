//! `GET /v1/sandboxes/{sandbox}/connections`

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use belljar_api::network as api;
use belljar_domain::network::Row;
use belljar_sandboxes::{Actions, Connections, RowQuery};
use futures_util::{Stream, stream};
use http::HeaderMap;

use crate::v1::authenticate::Caller;
use crate::v1::calls::wants_events;
use crate::v1::failure::Failure;
use crate::v1::output::event;
use crate::v1::read::{At, Query};

/// Rows of one page when nobody says.
const PAGE: usize = 100;

pub(in crate::v1) async fn connections(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    headers: HeaderMap,
    Query(asked): Query<api::ListConnections>,
) -> Result<Response, Failure> {
    let follows = wants_events(&headers);
    let query = query(&asked, if follows { last_event(&headers) } else { None });
    if follows {
        let following = actions.follow_connections(&tenant, &id, query)?;
        return Ok(Sse::new(told(following)).keep_alive(KeepAlive::default()).into_response());
    }
    let limit = query.limit;
    let rows = actions.connections(&tenant, &id, query).await?;
    let next = rows.last().filter(|_| rows.len() == limit).map(|row| row.sequence);
    let items = rows.iter().map(|row| api::Connection::from(&**row)).collect();
    Ok(Json(api::ConnectionPage { items, next }).into_response())
}

fn query(asked: &api::ListConnections, after: Option<u64>) -> RowQuery {
    RowQuery {
        after: asked.after.map(Into::into).or(after),
        call: asked.call.and_then(|call| u32::try_from(call.get()).ok()),
        decision: asked.decision.map(Into::into),
        kind: asked.kind.map(Into::into),
        limit: asked.limit.map_or(PAGE, |limit| usize::try_from(limit.get()).unwrap_or(PAGE)),
    }
}

/// What a client saw last that was cut off and comes again.
fn last_event(headers: &HeaderMap) -> Option<u64> {
    headers.get("last-event-id")?.to_str().ok()?.parse().ok()
}

fn told(following: Connections) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    let state = (following, VecDeque::<Arc<Row>>::new());
    stream::unfold(state, async |(mut following, mut waiting)| {
        while waiting.is_empty() {
            // Whoever cannot be told more sees the stream end, and asks again.
            waiting.extend(following.next().await?.ok()?);
        }
        let row = waiting.pop_front()?;
        let shown = event("connection", &api::Connection::from(&*row));
        Some((Ok(shown.id(row.sequence.to_string())), (following, waiting)))
    })
}
