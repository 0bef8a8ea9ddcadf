//! Logs of sandboxes, in both of their forms.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use belljar_sandboxes::{Actions, Level, LogLine, LogQuery, Moment, Problem};
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
    let coded = |line: &LogLine| json!({ "timestamp": line.at, "line": text(line) });
    Ok(Json(json!({
        "logs": lines.iter().map(coded).collect::<Vec<_>>(),
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

/// A line as E2B's own collector writes it: JSON in a text, with the part that wrote it. Clients
/// parse it, and show the parts that they are asked for.
fn text(line: &LogLine) -> String {
    let mut fields: serde_json::Map<_, _> =
        line.fields.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    fields.insert("message".to_owned(), line.message.as_str().into());
    fields.insert("level".to_owned(), json!(line.level));
    fields.insert("logger".to_owned(), logger(&line.message).into());
    Value::Object(fields).to_string()
}

fn logger(message: &str) -> &'static str {
    if message.starts_with("process_") {
        "process"
    } else if message.starts_with("cell_") {
        "interpreter"
    } else {
        "sandbox"
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn sample(message: &str, fields: &[(&str, &str)]) -> LogLine {
        let at = Moment::from_unix(1_700_000_000).unwrap();
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let fields: BTreeMap<_, _> = fields.iter().map(owned).collect();
        LogLine { at, level: Level::Warn, message: message.to_owned(), fields }
    }

    #[test]
    fn a_line_is_json_that_names_level_part_and_message() {
        let detail = "pid 7: say \"hi\"\n";
        let line = text(&sample("process_started", &[("detail", detail), ("level", "9")]));
        let line: Value = serde_json::from_str(&line).unwrap();
        let want = json!({
            "level": "warn", "logger": "process", "message": "process_started", "detail": detail,
        });
        assert_eq!(line, want);
    }

    #[test]
    fn every_line_has_a_part() {
        for (message, part) in
            [("created", "sandbox"), ("process_ended", "process"), ("cell_started", "interpreter")]
        {
            assert_eq!(logger(message), part);
        }
    }
}
