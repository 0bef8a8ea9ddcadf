//! Lists of sandboxes.

use axum::extract::State;
use axum::response::Response;
use belljar_sandboxes::{Actions, Filter, Moment, Order, Problem};

use super::Listed;
use crate::control::auth::Caller;
use crate::control::paged;
use crate::control::query::Query;
use crate::error::RestError;

pub(crate) async fn list(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    query: Query,
) -> Result<Response, RestError> {
    let order = match query.get("order") {
        None | Some("desc") => Order::NewestFirst,
        Some("asc") => Order::OldestFirst,
        Some(other) => {
            return Err(Problem::invalid(format!("Invalid order parameter: {other}")).into());
        }
    };
    let filter = filter(&query)?;
    let page = actions.list(&tenant, &filter, order, query.limit()?, query.get("nextToken"))?;
    Ok(paged(page, |sandbox| Listed::new(&sandbox)))
}

/// As the first clients knew it: all that run, in one answer.
pub(crate) async fn list_v1(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    query: Query,
) -> Result<Response, RestError> {
    let filter = Filter { running: true, paused: false, ..filter(&query)? };
    let all = actions.list_whole(&tenant, &filter, Order::NewestFirst);
    Ok(paged(all, |sandbox| Listed::new(&sandbox)))
}

fn filter(query: &Query) -> Result<Filter, Problem> {
    let states = query.get("state").unwrap_or("running,paused");
    let mut filter = Filter {
        metadata: query.metadata()?,
        template: query.get("template").map(str::to_owned),
        ..Filter::default()
    };
    for state in states.split(',') {
        match state {
            "running" => filter.running = true,
            "paused" => filter.paused = true,
            other => return Err(Problem::invalid(format!("there is no state {other:?}"))),
        }
    }
    if let Some(text) = query.get("startedAfter") {
        // A plus sign of a time zone may have come as a space.
        let moment = Moment::parse(&text.replace(' ', "+"));
        let wrong = || Problem::invalid(format!("startedAfter: {text:?} is not RFC 3339"));
        filter.started_after = Some(moment.ok_or_else(wrong)?);
    }
    Ok(filter)
}
