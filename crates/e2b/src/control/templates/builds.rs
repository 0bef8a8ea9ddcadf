//! Builds: asked for, started, followed.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use belljar_sandboxes::builds::{Action, Base, Entry, Instructions, NewBuild, Progress, Step};
use belljar_sandboxes::{Actions, Level, Moment, Problem};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::word;
use crate::control::auth::Caller;
use crate::control::{Body, Query};
use crate::error::RestError;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewTemplate {
    name: Option<String>,
    /// What `name` was called before.
    alias: Option<String>,
    tags: Option<Vec<String>>,
    cpu_count: Option<u32>,
    #[serde(rename = "memoryMB")]
    memory: Option<u64>,
    min_free_disk_mb: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Requested {
    #[serde(rename = "templateID")]
    template: String,
    #[serde(rename = "buildID")]
    build: String,
    public: bool,
    names: Vec<String>,
    aliases: Vec<String>,
    tags: Vec<String>,
}

/// A registry's credentials may come along; nothing here could use them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Told {
    from_image: Option<String>,
    from_template: Option<String>,
    #[serde(default)]
    force: bool,
    #[serde(default)]
    steps: Vec<ToldStep>,
    start_cmd: Option<String>,
    ready_cmd: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToldStep {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    args: Vec<String>,
    files_hash: Option<String>,
    #[serde(default)]
    force: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    #[serde(rename = "templateID")]
    template: String,
    #[serde(rename = "buildID")]
    build: String,
    status: &'static str,
    logs: Vec<String>,
    log_entries: Vec<Line>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Why>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Line {
    timestamp: Moment,
    message: String,
    level: Level,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Why {
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    log_entries: Vec<Line>,
}

/// Entries of a log that one answer holds.
const LONGEST: usize = 100;

pub(crate) async fn request(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Body(body): Body<NewTemplate>,
) -> Result<Response, RestError> {
    let name = body.name.or(body.alias).ok_or_else(|| Problem::invalid("Name is required"))?;
    let wish = NewBuild {
        name,
        tags: body.tags.unwrap_or_default(),
        cpu_count: body.cpu_count,
        memory_mb: body.memory,
        disk_mb: body.min_free_disk_mb,
    };
    let made = actions.request_build(&tenant, &wish).await?;
    let requested = Requested {
        template: made.template,
        build: made.build,
        public: false,
        names: vec![made.name.clone()],
        aliases: vec![made.name],
        tags: made.tags,
    };
    Ok((StatusCode::ACCEPTED, Json(requested)).into_response())
}

pub(crate) async fn start(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path((template, build)): Path<(String, String)>,
    Body(body): Body<Told>,
) -> Result<StatusCode, RestError> {
    let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let base = match (given(body.from_template), given(body.from_image)) {
        (Some(template), None) => Base::Template(template),
        (None, Some(image)) => Base::Image(image),
        (None, None) => return Err(Problem::invalid("fromImage or fromTemplate is needed").into()),
        (Some(_), Some(_)) => {
            return Err(Problem::invalid("fromImage and fromTemplate exclude each other").into());
        }
    };
    let mut steps = Vec::with_capacity(body.steps.len());
    for (index, step) in body.steps.iter().enumerate() {
        let action = Action::parse(&step.kind, &step.args, step.files_hash.as_deref());
        let action = action.map_err(|mut problem| {
            problem.message = format!("step {}: {}", index + 1, problem.message);
            problem
        })?;
        steps.push(Step { action, force: step.force });
    }
    let told = Instructions {
        base,
        force: body.force,
        steps,
        start: given(body.start_cmd),
        ready: given(body.ready_cmd),
    };
    actions.start_build(&tenant, &template, &build, told)?;
    Ok(StatusCode::ACCEPTED)
}

pub(crate) async fn status(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path((template, build)): Path<(String, String)>,
    query: Query,
) -> Result<Json<Status>, RestError> {
    let offset = query.parsed("logsOffset")?.unwrap_or(0);
    let (limit, least) = (limit(&query)?, level(&query)?);
    let Progress { build, entries } =
        actions.build_progress(&tenant, &template, &build, (offset, limit), least)?;
    let reason = build.reason.map(|reason| Why {
        message: reason.message,
        step: reason.step,
        log_entries: Vec::new(),
    });
    Ok(Json(Status {
        template,
        build: build.id,
        status: word(build.status),
        logs: entries.iter().map(|entry| entry.message.clone()).collect(),
        log_entries: entries.into_iter().map(Line::from).collect(),
        reason,
    }))
}

/// The log alone, as command-line tools ask for it.
pub(crate) async fn logs(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path((template, build)): Path<(String, String)>,
    query: Query,
) -> Result<Json<serde_json::Value>, RestError> {
    let offset = query.parsed("offset")?.unwrap_or(0);
    let (limit, least) = (limit(&query)?, level(&query)?);
    let progress = actions.build_progress(&tenant, &template, &build, (offset, limit), least)?;
    let lines: Vec<Line> = progress.entries.into_iter().map(Line::from).collect();
    Ok(Json(serde_json::json!({ "logs": lines })))
}

fn limit(query: &Query) -> Result<usize, Problem> {
    Ok(query.parsed("limit")?.unwrap_or(LONGEST).min(LONGEST))
}

fn level(query: &Query) -> Result<Level, Problem> {
    match query.get("level") {
        None | Some("debug") => Ok(Level::Debug),
        Some("info") => Ok(Level::Info),
        Some("warn") => Ok(Level::Warn),
        Some("error") => Ok(Level::Error),
        Some(other) => Err(Problem::invalid(format!("there is no level {other:?}"))),
    }
}

impl From<Entry> for Line {
    fn from(entry: Entry) -> Self {
        Self { timestamp: entry.at, message: entry.message, level: entry.level, step: entry.step }
    }
}
