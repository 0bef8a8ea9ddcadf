//! `GET /v1/sandboxes`

use std::collections::BTreeMap;

use axum::extract::State;
use axum::{Extension, Json};
use belljar_api::sandbox as api;
use belljar_sandboxes::{Actions, Filter, LONGEST_PAGE, Moment, Order, PageKeys, Problem};

use super::view;
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::Query;

pub(in crate::v1) async fn list(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Query(query): Query<api::ListSandboxes>,
) -> Result<(Extension<PageKeys>, Json<api::SandboxPage>), Failure> {
    let filter = filter(&query)?;
    let order = match query.order {
        api::Order::NewestFirst => Order::NewestFirst,
        api::Order::OldestFirst => Order::OldestFirst,
    };
    let limit = query
        .limit
        .map_or(LONGEST_PAGE, |limit| usize::try_from(limit.get()).unwrap_or(LONGEST_PAGE));
    let page = actions.list(&tenant, &filter, order, limit, query.after.as_deref())?;
    let items = page.items.iter().map(|sandbox| view(&actions, sandbox)).collect();
    Ok((Extension(page.keys), Json(api::SandboxPage { items, next: page.next })))
}

fn filter(query: &api::ListSandboxes) -> Result<Filter, Problem> {
    let metadata = match &query.metadata {
        None => BTreeMap::new(),
        Some(text) => serde_json::from_str(text).map_err(|_| {
            Problem::invalid(
                "metadata must be a JSON object of strings, such as {\"team\":\"red\"}",
            )
        })?,
    };
    let started_after = match &query.started_after {
        None => None,
        Some(text) => Some(Moment::parse(&text.0).ok_or_else(|| {
            Problem::invalid("started_after must be a time such as 2026-01-31T12:00:00Z")
        })?),
    };
    Ok(Filter {
        metadata,
        running: query.state != Some(api::State::Paused),
        paused: query.state != Some(api::State::Running),
        started_after,
        template: query.template.clone(),
    })
}
