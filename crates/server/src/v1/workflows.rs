//! Workflows.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use belljar_api::workflow as api;
use belljar_journal::{Failure as StoreFailure, WorkflowRecord, WorkflowRow};
use belljar_sandboxes::{Kind, Problem};
use belljar_workflow::{
    CreateWorkflowError, FileRef, State, StepValue, WantedInput, WantedWorkflow, Workflows,
};
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};

use super::authenticate::{Caller, Capped};
use super::failure::Failure;
use super::once::{idempotency_key, mark};
use super::read::{At, Body, Query};
use super::runs::moment;

/// Workflows of a list that names no limit.
const DEFAULT_LIMIT: u64 = 20;

/// The workflows that this process offers, if any; beside every request.
#[derive(Debug, Clone)]
pub(super) struct OfferedWorkflows(pub(super) Option<Workflows>);

/// The workflows that a request is about.
#[derive(Debug)]
pub(super) struct Flows(Workflows);

impl<S: Sync> FromRequestParts<S> for Flows {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let offered = parts.extensions.get::<OfferedWorkflows>();
        offered.and_then(|offered| offered.0.clone()).map(Self).ok_or_else(|| {
            let message = "this server does not offer workflows";
            Failure::new(StatusCode::NOT_FOUND, "workflows_not_offered", message)
        })
    }
}

/// The same for a workflow of another tenant.
fn unknown() -> Failure {
    let message = "the workflow does not exist or you don't have access to it";
    Problem::new(Kind::NotFound, "workflow_not_found", message).into()
}

fn failed(error: &StoreFailure) -> Failure {
    tracing::error!(error = error as &dyn std::error::Error, "workflow store request failed");
    Problem::new(Kind::Busy, "workflows_unavailable", "the store of workflows is unavailable")
        .into()
}

fn refused(error: &CreateWorkflowError) -> Failure {
    let message = error.to_string();
    match error {
        CreateWorkflowError::Definition(_) => {
            Problem::new(Kind::Invalid, "workflow_invalid", message)
                .hint("`belljar workflow validate FILE` checks a file")
                .into()
        }
        CreateWorkflowError::Input(_) => {
            Problem::new(Kind::Invalid, "workflow_input_invalid", message).into()
        }
        CreateWorkflowError::Mismatch => {
            Problem::new(Kind::Conflict, "idempotency_request_mismatch", message).into()
        }
        CreateWorkflowError::TooMany(_) => {
            Problem::new(Kind::TooMany, "too_many_workflows", message)
                .hint("wait for one to end, or cancel one")
                .into()
        }
        CreateWorkflowError::Store(error) => failed(error),
        error => Problem::internal("create a workflow", error).into(),
    }
}

pub(super) async fn create(
    Flows(workflows): Flows,
    Caller(tenant): Caller,
    Capped(caps): Capped,
    headers: HeaderMap,
    Body(wanted): Body<api::CreateWorkflow>,
) -> Result<Response, Failure> {
    let key = idempotency_key(&headers)?.map(str::to_owned);
    let mut inputs = BTreeMap::new();
    for (name, input) in wanted.inputs {
        let given = match (input.sha256, input.content, input.value) {
            (Some(sha256), None, None) => WantedInput::File(sha256.into()),
            (None, None, Some(value)) => WantedInput::Value(value),
            (None, Some(content), None) => {
                let put = workflows.files().put(tenant.as_str(), content.into()).await;
                let put = put.map_err(|error| CreateWorkflowError::Input(error.to_string()));
                WantedInput::File(put.map_err(|error| refused(&error))?)
            }
            _ => {
                let message =
                    format!("input `{name}` needs one of `sha256`, `content` and `value`");
                return Err(refused(&CreateWorkflowError::Input(message)));
            }
        };
        inputs.insert(name, given);
    }
    let definition = String::from(wanted.definition);
    let wanted = WantedWorkflow { definition, inputs, caps, key };
    let made = workflows.create(tenant.as_str(), wanted).await;
    let (id, is_repeated) = made.map_err(|error| refused(&error))?;
    let shown = shown(&workflows, tenant.as_str(), &id).await?;
    Ok(mark((StatusCode::CREATED, Json(shown)).into_response(), is_repeated))
}

pub(super) async fn list(
    Flows(workflows): Flows,
    Caller(tenant): Caller,
    Query(query): Query<api::ListWorkflows>,
) -> Result<Json<api::WorkflowList>, Failure> {
    let limit = query.limit.map_or(DEFAULT_LIMIT, Into::into);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let rows = workflows.list(tenant.as_str(), limit).await.map_err(|error| failed(&error))?;
    let items = rows.into_iter().map(|row| api::WorkflowLine {
        state: state_name(&row),
        id: row.id,
        name: row.name,
        made_at: moment(row.made_at),
        events: row.events,
    });
    Ok(Json(api::WorkflowList { items: items.collect() }))
}

pub(super) async fn get(
    Flows(workflows): Flows,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Result<Json<api::Workflow>, Failure> {
    shown(&workflows, tenant.as_str(), &id).await.map(Json)
}

pub(super) async fn cancel(
    Flows(workflows): Flows,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Result<Json<api::Workflow>, Failure> {
    let cancelled = workflows.cancel(tenant.as_str(), &id).await;
    let is_cancelled = cancelled.map_err(|error| failed(&error))?;
    let shown = shown(&workflows, tenant.as_str(), &id).await?;
    if !is_cancelled {
        let message = "the workflow is over";
        return Err(Problem::new(Kind::Conflict, "workflow_finished", message).into());
    }
    Ok(Json(shown))
}

pub(super) async fn graph(
    Flows(workflows): Flows,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Result<impl IntoResponse, Failure> {
    let _turn = workflows.reading().await;
    let (_, state) = found(&workflows, tenant.as_str(), &id).await?;
    let headers = [
        (header::CONTENT_TYPE, "image/svg+xml"),
        // Names of steps are a tenant's words: no browser takes the drawing for a page.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
    ];
    Ok((headers, belljar_workflow::graph(&state.definition, Some(&state))))
}

pub(super) async fn read_file(
    Flows(workflows): Flows,
    Caller(tenant): Caller,
    At((id, name)): At<(String, String)>,
) -> Result<impl IntoResponse, Failure> {
    let _turn = workflows.reading().await;
    let (_, state) = found(&workflows, tenant.as_str(), &id).await?;
    let outputs = state.ending.map(|ending| ending.outputs).unwrap_or_default();
    let Some(StepValue::File(file)) = outputs.get(&name) else {
        let message = "the workflow has no such file";
        return Err(Problem::new(Kind::NotFound, "file_not_found", message)
            .hint("`outputs` of the workflow lists its files once it is over")
            .into());
    };
    let content = workflows.files().get(tenant.as_str(), &file.sha256).await;
    let content = content
        .map_err(|error| Problem::new(Kind::NotFound, "data_not_found", error.to_string()))?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        // Code made it. It is never to be shown as anything else, whatever it says.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_DISPOSITION, "attachment"),
    ];
    Ok((headers, content))
}

/// Reads a workflow with its events, which the caller has a turn for.
async fn found(
    workflows: &Workflows,
    tenant: &str,
    id: &str,
) -> Result<(WorkflowRecord, State), Failure> {
    let record = workflows.find(tenant, id).await.map_err(|error| failed(&error))?;
    let record = record.ok_or_else(unknown)?;
    let state = Workflows::state(&record);
    let state = state.map_err(|error| Problem::internal("read a workflow", &error))?;
    Ok((record, state))
}

async fn shown(workflows: &Workflows, tenant: &str, id: &str) -> Result<api::Workflow, Failure> {
    let _turn = workflows.reading().await;
    let (record, state) = found(workflows, tenant, id).await?;
    let used = state.used();
    let ending = state.ending.as_ref();
    let outputs = ending.map(|ending| ending.outputs.clone()).unwrap_or_default();
    Ok(api::Workflow {
        state: state_name(&record.row),
        id: record.row.id,
        name: record.row.name,
        made_at: moment(record.row.made_at),
        error: ending.and_then(|ending| ending.error.clone()),
        is_cancelled: record.row.is_cancelled,
        steps: steps(&state),
        outputs: outputs.into_iter().map(|(name, given)| (name, output(given))).collect(),
        tokens: used.tokens,
        nano_dollars: used.nano_dollars,
    })
}

fn state_name(row: &WorkflowRow) -> String {
    row.outcome.clone().unwrap_or_else(|| "running".to_owned())
}

fn file(file: &FileRef) -> api::WorkflowFile {
    api::WorkflowFile { sha256: file.sha256.clone(), bytes: file.bytes }
}

fn output(given: StepValue) -> api::WorkflowOutput {
    match given {
        StepValue::File(of) => api::WorkflowOutput { file: Some(file(&of)), value: None },
        StepValue::Value(value) => api::WorkflowOutput { file: None, value: Some(value) },
    }
}

fn steps(state: &State) -> Vec<api::WorkflowStep> {
    let steps = state.definition.steps.iter().filter_map(|(name, step)| {
        let known = state.steps.get(name)?;
        let error = Some(state.error(name)).filter(|error| !error.is_empty());
        let attempts = known.attempts.values().flatten().map(|attempt| {
            let ended = attempt.ended.as_ref();
            let files = ended.map(|ended| &ended.outputs.files).into_iter().flatten();
            api::WorkflowAttempt {
                item: attempt.started.key.item as u64,
                attempt: attempt.started.key.attempt.into(),
                id: attempt.id.clone(),
                outcome: ended.map(|ended| ended.outcome.as_str().to_owned()),
                error: ended.and_then(|ended| ended.error.clone()),
                files: files.map(|(name, of)| (name.clone(), file(of))).collect(),
            }
        });
        Some(api::WorkflowStep {
            name: name.clone(),
            kind: step.kind.as_str().to_owned(),
            state: state.status(name).as_str().to_owned(),
            reason: known.skipped.clone().or_else(|| error.map(str::to_owned)),
            attempts: attempts.collect(),
        })
    });
    steps.collect()
}
