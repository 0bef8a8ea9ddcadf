//! Templates: built, uploaded to, listed, deleted.

mod builds;
mod tags;
mod uploads;

use axum::Json;
use axum::extract::{Path, State};
use belljar_sandboxes::{Actions, BuildRecord, BuildStatus, Kind, Moment, Record};
use http::StatusCode;
use serde::Serialize;

pub(crate) use builds::{logs, request, start, status};
pub(crate) use tags::{assign, list as list_tags, remove as remove_tags};
pub(crate) use uploads::{receive, slot};

use super::auth::Caller;
use crate::ENVD_VERSION;
use crate::error::RestError;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Alias {
    #[serde(rename = "templateID")]
    template: String,
    public: bool,
}

/// A template in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shown {
    #[serde(rename = "templateID")]
    id: String,
    #[serde(rename = "buildID")]
    build: String,
    cpu_count: u32,
    #[serde(rename = "memoryMB")]
    memory: u64,
    #[serde(rename = "diskSizeMB")]
    disk: u64,
    public: bool,
    aliases: Vec<String>,
    names: Vec<String>,
    created_at: Moment,
    updated_at: Moment,
    created_by: Option<String>,
    last_spawned_at: Option<Moment>,
    spawn_count: u64,
    build_count: usize,
    envd_version: &'static str,
    build_status: &'static str,
}

/// A template with what was built of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Detail {
    #[serde(rename = "templateID")]
    id: String,
    public: bool,
    aliases: Vec<String>,
    names: Vec<String>,
    created_at: Moment,
    updated_at: Moment,
    last_spawned_at: Option<Moment>,
    spawn_count: u64,
    builds: Vec<ShownBuild>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownBuild {
    #[serde(rename = "buildID")]
    id: String,
    status: &'static str,
    created_at: Moment,
    updated_at: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Moment>,
    cpu_count: u32,
    #[serde(rename = "memoryMB")]
    memory: u64,
    envd_version: &'static str,
}

/// What a template that says nothing of it has.
const DISK_MB: u64 = 512;

impl Shown {
    fn new(record: &Record) -> Self {
        let ready = record.builds.iter().rev().find(|build| build.status == BuildStatus::Ready);
        let build = ready.or(record.builds.last());
        Self {
            id: record.id.clone(),
            build: build.map(|build| build.id.clone()).unwrap_or_default(),
            cpu_count: build.map_or(0, |build| build.cpu_count),
            memory: build.map_or(0, |build| build.memory_mb),
            disk: DISK_MB,
            public: false,
            aliases: vec![record.name.clone()],
            names: vec![record.name.clone()],
            created_at: record.created_at,
            updated_at: record.updated_at,
            created_by: None,
            last_spawned_at: None,
            spawn_count: 0,
            build_count: record.builds.len(),
            envd_version: ENVD_VERSION,
            build_status: build.map_or("waiting", |build| word(build.status)),
        }
    }
}

impl ShownBuild {
    fn new(build: &BuildRecord) -> Self {
        Self {
            id: build.id.clone(),
            status: word(build.status),
            created_at: build.created_at,
            updated_at: build.finished_at.unwrap_or(build.created_at),
            finished_at: build.finished_at,
            cpu_count: build.cpu_count,
            memory: build.memory_mb,
            envd_version: ENVD_VERSION,
        }
    }
}

fn word(status: BuildStatus) -> &'static str {
    match status {
        BuildStatus::Waiting => "waiting",
        BuildStatus::Building => "building",
        BuildStatus::Ready => "ready",
        BuildStatus::Error => "error",
    }
}

pub(crate) async fn list(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
) -> Result<Json<Vec<Shown>>, RestError> {
    Ok(Json(actions.own_templates(&tenant).await?.iter().map(Shown::new).collect()))
}

pub(crate) async fn info(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
) -> Result<Json<Detail>, RestError> {
    let record = actions.own_template(&tenant, &id).await?;
    Ok(Json(Detail {
        id: record.id,
        public: false,
        aliases: vec![record.name.clone()],
        names: vec![record.name],
        created_at: record.created_at,
        updated_at: record.updated_at,
        last_spawned_at: None,
        spawn_count: 0,
        builds: record.builds.iter().rev().map(ShownBuild::new).collect(),
    }))
}

pub(crate) async fn alias(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(name): Path<String>,
) -> Result<Json<Alias>, RestError> {
    let found = actions.template_alias(&tenant, &name).await?;
    Ok(Json(Alias { template: found.template, public: found.public }))
}

/// Deletes a snapshot or a template: clients name both in the same way.
pub(crate) async fn delete(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, RestError> {
    match actions.delete_snapshot(&tenant, &id) {
        Err(problem) if problem.kind == Kind::NotFound => {
            actions.delete_template(&tenant, &id).await?;
        }
        other => other?,
    }
    Ok(StatusCode::NO_CONTENT)
}
