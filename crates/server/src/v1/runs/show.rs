//! `GET /v1/runs/{run}`

use axum::Json;
use belljar_api::network::Network;
use belljar_api::run as api;
use belljar_journal::event::{
    Artifact, Budget, Dataset, Finished, NetworkAccess, Outcome, Request,
};
use belljar_journal::{Address, RunRow, RunView, State, read_all};
use belljar_runs::{MANIFEST, Runs, approval_id};

use super::{Offering, address, brief, moment, unknown, unread};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::At;

pub(in crate::v1) async fn get(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Result<Json<api::Run>, Failure> {
    Ok(Json(shown(&runs, &address(&tenant, &id)?).await?))
}

/// A run as its owner sees it.
pub(super) async fn shown(runs: &Runs, run: &Address) -> Result<api::Run, Failure> {
    let row = runs.journal().find(run).await.map_err(|error| unread(&error))?;
    let events = read_all(&**runs.journal(), run).await.map_err(|error| unread(&error))?;
    view(&row, RunView::of(&events))
}

fn view(row: &RunRow, view: RunView) -> Result<api::Run, Failure> {
    let approval_asked = view.undecided().map(|asked| approval_id(&row.address.run, &asked.call));
    let environment = view.given.unwrap_or(view.environment);
    let created = view.created.ok_or_else(unknown)?;
    let wish = created.wish;
    let spent = &view.spent;
    let millis = |micros: u64| micros / 1000;
    let brief = wish.as_ref().map(|wish| (*wish.brief).clone()).unwrap_or_default();
    let mut run = api::Run {
        id: row.address.run.to_string(),
        state: state(view.finished.as_ref().map_or(row.state, |_| State::Finished)),
        question: created.question,
        data: created.datasets.iter().filter(|data| data.name != MANIFEST).map(data).collect(),
        template: wish.as_ref().map(|wish| wish.template.clone()),
        tier: environment.tier,
        // Those of a run come from a request, or are a sandbox's: they fit.
        limits: environment.limits.try_into().unwrap_or_default(),
        network: network(&view.network),
        operations: view.network.operations,
        operation: wish.and_then(|wish| wish.operation),
        model: view.model,
        agent: None,
        models: api::RunModels::default(),
        parameters: api::RunParameters::default(),
        instructions: None,
        skills: Vec::new(),
        recording: None,
        replay: None,
        guards: api::RunGuards::default(),
        approvals: None,
        now: moment(created.now),
        made_at: moment(row.made_at),
        events: view.head.0,
        budget: budget(&view.budget),
        used: api::RunUsed {
            turns: view.turns,
            tokens: spent.tokens.total(),
            nano_dollars: spent.nano_dollars,
            calls: spent.calls,
            output_bytes: spent.output_bytes,
            cpu_ms: millis(spent.cpu_micros),
            model_ms: millis(spent.model_micros),
            call_ms: millis(spent.call_micros),
        },
        asked: view.pending.iter().map(|one| word(&one.asked.request).to_owned()).collect(),
        breakpoints: api::RunBreakpoints {
            turns: view.breakpoints.turns,
            calls: view.breakpoints.calls,
        },
        approval_asked,
        question_asked: view.question.filter(|_| view.finished.is_none()).map(|it| it.text),
        retry_of: view.retry.and(row.parent.as_ref()).map(|parent| parent.run.to_string()),
        sandbox: view.sandbox.filter(|_| view.finished.is_none()).map(|id| id.to_string()),
        files: view.artifacts.iter().map(file).collect(),
        end: view.finished.map(end),
    };
    let made = brief::ShownRecording {
        recording: view.recording,
        cassette: view.cassette,
        incomplete: view.recording_incomplete,
    };
    brief::show(&mut run, brief, made);
    Ok(run)
}

fn network(access: &NetworkAccess) -> Option<Network> {
    let is_none = access.policy.is_none() && !access.packages;
    (!is_none).then(|| Network::of(&access.policy, access.packages))
}

pub(super) fn state(state: State) -> api::RunState {
    match state {
        State::Waiting => api::RunState::Waiting,
        State::Running => api::RunState::Running,
        State::Paused => api::RunState::Paused,
        State::Finished => api::RunState::Finished,
    }
}

fn word(request: &Request) -> &'static str {
    match request {
        Request::Pause => "pause",
        Request::Resume => "resume",
        Request::Cancel => "cancel",
        Request::Tell { .. } => "tell",
        Request::Budget { .. } => "budget",
        Request::Step => "step",
        Request::Breakpoints { .. } => "breakpoints",
        Request::Answer { .. } => "answer",
        Request::Decide { .. } => "decide",
    }
}

/// As its owner brought it, whatever was made of it to fit.
fn data(data: &Dataset) -> api::RunFile {
    let (name, bytes, fingerprint) = match &data.origin {
        Some(origin) => (&origin.name, origin.bytes, &origin.fingerprint),
        None => (&data.name, data.bytes, &data.fingerprint),
    };
    api::RunFile { name: name.clone(), bytes, sha256: fingerprint.to_string(), media_type: None }
}

fn file(artifact: &Artifact) -> api::RunFile {
    api::RunFile {
        name: artifact.name.clone(),
        bytes: artifact.content.bytes,
        sha256: artifact.content.sha256.to_string(),
        media_type: Some(artifact.media_type.clone()),
    }
}

fn budget(budget: &Budget) -> api::RunBudget {
    let count = |number: Option<u64>| number.and_then(|number| number.try_into().ok());
    api::RunBudget {
        turns: budget.turns.and_then(|turns| u64::from(turns).try_into().ok()),
        wall_ms: count(budget.wall_ms),
        tokens: count(budget.tokens),
        nano_dollars: count(budget.nano_dollars),
        output_bytes: count(budget.output_bytes),
        cpu_ms: count(budget.cpu_ms),
    }
}

fn end(finished: Finished) -> api::RunEnd {
    let error = finished.error.and_then(|error| serde_json::to_value(error).ok());
    api::RunEnd {
        outcome: match finished.outcome {
            Outcome::Answered => api::RunOutcome::Answered,
            Outcome::Exhausted => api::RunOutcome::Exhausted,
            Outcome::Cancelled => api::RunOutcome::Cancelled,
            Outcome::Failed => api::RunOutcome::Failed,
        },
        error: error.and_then(|error| error.as_str().map(str::to_owned)),
        message: finished.message,
        result: finished.result,
    }
}
