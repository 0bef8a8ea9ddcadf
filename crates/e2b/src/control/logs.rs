//! Logs of sandboxes, in both of their forms.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use belljar_actions::{Actions, Level, LogLine, LogQuery, Moment, Problem};
use serde_json::{Value, json};

use super::auth::Caller;
use super::query::Query;
use crate::error::RestError;

/// The most lines of one answer.
const MOST: usize = 1000;

pub(crate) async fn first(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<Json<Value>, RestError> {
    let wish =
        LogQuery { cursor: moment(&query, "start")?, limit: limit(&query)?, ..LogQuery::default() };
    let lines = actions.logs(&tenant, &id, &wish)?;
    let plain = |line: &LogLine| json!({ "timestamp": line.at, "line": line.message });
    Ok(Json(json!({
        "logs": lines.iter().map(plain).collect::<Vec<_>>(),
        "logEntries": lines.iter().map(entry).collect::<Vec<_>>(),
    })))
}

pub(crate) async fn second(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<Json<Value>, RestError> {
    let wish = LogQuery {
        cursor: moment(&query, "cursor")?,
        backward: match query.get("direction") {
            None | Some("forward") => false,
            Some("backward") => true,
            Some(other) => {
                return Err(Problem::invalid(format!("there is no direction {other:?}")).into());
            }
        },
        level: query.get("level").map(level).transpose()?,
        search: query.get("search").map(str::to_owned),
        limit: limit(&query)?,
    };
    let lines = actions.logs(&tenant, &id, &wish)?;
    Ok(Json(json!({ "logs": lines.iter().map(entry).collect::<Vec<_>>() })))
}

fn entry(line: &LogLine) -> Value {
    json!({
        "timestamp": line.at,
        "message": line.message,
        "level": line.level,
        "fields": line.fields,
    })
}

fn limit(query: &Query) -> Result<usize, Problem> {
    Ok(query.parsed::<usize>("limit")?.unwrap_or(MOST).min(MOST))
}

/// A time in milliseconds.
fn moment(query: &Query, name: &str) -> Result<Option<Moment>, Problem> {
    let Some(millis) = query.parsed::<u64>(name)? else { return Ok(None) };
    let seconds = i64::try_from(millis / 1000).ok().and_then(Moment::from_unix);
    let wrong = || Problem::invalid(format!("{name} is not a time in milliseconds"));
    Ok(Some(seconds.ok_or_else(wrong)?.plus(Duration::from_millis(millis % 1000))))
}

fn level(text: &str) -> Result<Level, Problem> {
    match text {
        "debug" => Ok(Level::Debug),
        "info" => Ok(Level::Info),
        "warn" => Ok(Level::Warn),
        "error" => Ok(Level::Error),
        other => Err(Problem::invalid(format!("there is no level {other:?}"))),
    }
}
