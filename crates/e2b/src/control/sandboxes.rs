//! Sandboxes, as the control plane shows them. One verb, one file.

mod change;
mod create;
mod list;
mod network;

use axum::Json;
use axum::extract::{Path, State};
use belljar_sandboxes::{Actions, Moment, OnTimeout, Paused, Sandbox};
use http::StatusCode;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use change::{connect, fork, pause, refresh, resume, set_timeout};
pub(crate) use create::{create, create_v1};
pub(crate) use list::{list, list_v1};
pub(crate) use network::update as update_network;

use super::auth::Caller;
use super::domain::Domain;
use crate::ENVD_VERSION;
use crate::error::RestError;

/// Some clients take its absence for an error; nobody reads it.
const CLIENT: &str = "belljar";

/// What create, connect and fork answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Made {
    #[serde(rename = "templateID")]
    template: String,
    #[serde(rename = "sandboxID")]
    id: String,
    #[serde(rename = "clientID")]
    client: &'static str,
    alias: String,
    envd_version: &'static str,
    envd_access_token: String,
    /// Of a public sandbox too: its interpreter's routes need it.
    traffic_access_token: String,
    domain: String,
}

impl Made {
    pub(super) fn new(Domain(domain): &Domain, sandbox: &Sandbox) -> Self {
        let facts = sandbox.facts();
        Self {
            template: facts.template.clone(),
            id: sandbox.id().to_string(),
            client: CLIENT,
            alias: facts.alias.clone(),
            envd_version: ENVD_VERSION,
            envd_access_token: facts.token.expose().to_owned(),
            traffic_access_token: sandbox.port_token().expose().to_owned(),
            domain: domain.clone(),
        }
    }
}

/// One entry of a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listed {
    #[serde(rename = "templateID")]
    template: String,
    #[serde(rename = "sandboxID")]
    id: String,
    #[serde(rename = "clientID")]
    client: &'static str,
    alias: String,
    started_at: Moment,
    end_at: Moment,
    cpu_count: u32,
    #[serde(rename = "memoryMB")]
    memory_mb: u64,
    #[serde(rename = "diskSizeMB")]
    disk_size_mb: u64,
    state: &'static str,
    metadata: BTreeMap<String, String>,
    envd_version: &'static str,
}

impl Listed {
    fn new(sandbox: &Sandbox) -> Self {
        let (facts, limits) = (sandbox.facts(), sandbox.limits());
        Self {
            template: facts.template.clone(),
            id: sandbox.id().to_string(),
            client: CLIENT,
            alias: facts.alias.clone(),
            started_at: facts.started_at,
            end_at: sandbox.deadline(),
            cpu_count: limits.cpu_millis.div_ceil(1000),
            memory_mb: limits.memory_bytes >> 20,
            disk_size_mb: limits.disk_bytes >> 20,
            state: if sandbox.is_paused() { "paused" } else { "running" },
            metadata: facts.metadata.clone(),
            envd_version: ENVD_VERSION,
        }
    }
}

/// Everything about one sandbox.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Detail {
    #[serde(flatten)]
    listed: Listed,
    envd_access_token: String,
    allow_internet_access: bool,
    domain: String,
    network: Traffic,
    lifecycle: Lifecycle,
    #[serde(skip_serializing_if = "Option::is_none")]
    pause_mode: Option<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Traffic {
    #[serde(flatten)]
    out: network::Shown,
    allow_public_traffic: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    mask_request_host: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Lifecycle {
    auto_resume: bool,
    on_timeout: &'static str,
}

impl Detail {
    fn new(Domain(domain): &Domain, sandbox: &Arc<Sandbox>) -> Self {
        let facts = sandbox.facts();
        let (out, allow_internet_access) = network::Shown::of(&sandbox.network().wish.policy);
        let pause_mode = match sandbox.state() {
            belljar_sandboxes::State::Paused(Paused::Frozen(_) | Paused::Suspended(_)) => {
                Some("full")
            }
            belljar_sandboxes::State::Paused(Paused::Saved(_)) => Some("filesystem"),
            belljar_sandboxes::State::Running(_) | belljar_sandboxes::State::Ended(_) => None,
        };
        Self {
            listed: Listed::new(sandbox),
            envd_access_token: facts.token.expose().to_owned(),
            allow_internet_access,
            domain: domain.clone(),
            network: Traffic {
                out,
                allow_public_traffic: facts.traffic_token.is_none(),
                mask_request_host: facts.mask_host.clone(),
            },
            lifecycle: Lifecycle {
                auto_resume: facts.auto_resume,
                on_timeout: match facts.on_timeout {
                    OnTimeout::Kill => "kill",
                    OnTimeout::Pause(_) => "pause",
                },
            },
            pause_mode,
        }
    }
}

pub(crate) async fn info(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    domain: Domain,
    Path(id): Path<String>,
) -> Result<Json<Detail>, RestError> {
    let sandbox = actions.registry().find(&tenant, &id)?;
    Ok(Json(Detail::new(&domain, &sandbox)))
}

pub(crate) async fn kill(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, RestError> {
    actions.kill(&tenant, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
