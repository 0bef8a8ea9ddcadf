//! `POST /v1/runs`

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use belljar_api::network::OperationName;
use belljar_api::run as api;
use belljar_domain::{OperationCaps, Question};
use belljar_journal::event::{Budget, Environment, NetworkAccess};
use belljar_objects::Digest;
use belljar_runs::{
    CreateRunError, NetworkRefused, OverBudget, PlanError, QuotaError, Source, Wanted,
};
use belljar_sandboxes::{Kind, Problem, capped, unknown_operation};
use http::{HeaderMap, StatusCode};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::show::shown;
use super::{Offering, brief, failed};
use crate::v1::authenticate::{Caller, Capped};
use crate::v1::data::{not_kept, not_put};
use crate::v1::failure::Failure;
use crate::v1::network;
use crate::v1::once::{idempotency_key, mark};
use crate::v1::read::Body;

/// Files of one run.
const MOST_DATA: usize = 64;

pub(in crate::v1) async fn create(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    Capped(caps): Capped,
    headers: HeaderMap,
    Body(wish): Body<api::CreateRun>,
) -> Result<Response, Failure> {
    let traceparent = belljar_telemetry::origin(&headers);
    let wanted = Wanted { caps, traceparent, ..translate(wish, idempotency_key(&headers)?)? };
    let made = runs.create(tenant.as_str(), wanted).await.map_err(|error| refused(&error))?;
    let run = shown(&runs, &made.run).await?;
    Ok(mark((StatusCode::CREATED, Json(run)).into_response(), made.is_repeated))
}

fn translate(wish: api::CreateRun, key: Option<&str>) -> Result<Wanted, Failure> {
    let request = serde_json::to_vec(&wish).map_err(|error| failed(&error))?;
    let key = key.map(|key| (key.to_owned(), Digest::of(&request)));
    if wish.data.len() > MOST_DATA {
        return Err(Problem::invalid(format!("a run has at most {MOST_DATA} files")).into());
    }
    let question = Question::try_from(String::from(wish.question.clone()));
    let question = question.map_err(|error| Problem::invalid(error.to_string()))?;
    let now = wish.now.as_ref().map(|now| {
        OffsetDateTime::parse(&now.0, &Rfc3339)
            .map_err(|_| Problem::invalid("now must be a time such as 2026-01-31T12:00:00Z"))
    });
    let brief = brief::wanted(&wish)?;
    Ok(Wanted {
        question,
        data: wish.data.into_iter().map(source).collect::<Result<_, _>>()?,
        template: wish.template.map(String::from),
        environment: Environment { tier: wish.tier.map(Into::into), limits: wish.limits.into() },
        network: access(wish.network.as_ref(), wish.operations)?,
        caps: OperationCaps::default(),
        operation: wish.operation.map(String::from),
        model: wish.model.map(String::from),
        budget: budget(&wish.budget),
        brief,
        now: now.transpose()?,
        questions: wish.questions,
        traceparent: None,
        key,
    })
}

fn access(
    asked: Option<&belljar_api::network::Network>,
    operations: Vec<OperationName>,
) -> Result<NetworkAccess, Problem> {
    let wish = asked.map(network::wish).transpose()?.unwrap_or_default();
    let operations = operations.into_iter().map(String::from).collect();
    Ok(NetworkAccess { policy: wish.policy, packages: wish.packages, operations })
}

fn source(data: api::RunData) -> Result<(String, Source), Problem> {
    let source = match (data.sha256, data.content) {
        (Some(sha256), None) => sha256.as_str().parse().ok().map(Source::Kept),
        (None, Some(content)) => Some(Source::Inline(content.into_bytes())),
        _ => None,
    };
    let name = String::from(data.name);
    let source = source.ok_or_else(|| {
        Problem::invalid(format!("the file `{name}` needs either `sha256` or `content`"))
    })?;
    Ok((name, source))
}

pub(super) fn budget(wish: &api::RunBudget) -> Budget {
    Budget {
        turns: wish.turns.and_then(|turns| u32::try_from(turns.get()).ok()),
        wall_ms: wish.wall_ms.map(Into::into),
        tokens: wish.tokens.map(Into::into),
        nano_dollars: wish.nano_dollars.map(Into::into),
        output_bytes: wish.output_bytes.map(Into::into),
        cpu_ms: wish.cpu_ms.map(Into::into),
    }
}

pub(super) fn over_budget(error: &OverBudget) -> Problem {
    Problem::new(Kind::Invalid, "budget_out_of_range", error.to_string())
        .hint("name less, or leave the field out")
}

pub(super) fn over_quota(error: &QuotaError) -> Failure {
    let message = error.to_string();
    match error {
        QuotaError::Runs { .. } => Problem::new(Kind::TooMany, "too_many_runs", message)
            .hint("wait for one to end, cancel one, or ask the operator for more")
            .into(),
        QuotaError::Budget(error) => over_budget(error).into(),
        QuotaError::Dollars { .. } => Problem::new(Kind::TooMany, "run_dollars_used_up", message)
            .hint("name less in `budget.nano_dollars` of runs, wait until one ends or until 00:00 UTC, or ask the operator for more")
            .into(),
        QuotaError::Read(_) | QuotaError::Count(_) | QuotaError::Figures(_) => failed(error),
    }
}

pub(super) fn refused(error: &CreateRunError) -> Failure {
    let message = error.to_string();
    let problem = match error {
        CreateRunError::Quota(error) => return over_quota(error),
        CreateRunError::Mismatch => {
            Problem::new(Kind::Conflict, "idempotency_request_mismatch", message)
        }
        CreateRunError::NoTemplate(_) => {
            Problem::new(Kind::NotFound, "template_not_found", message)
                .hint("GET /v1/templates lists templates")
        }
        CreateRunError::Limits(_) => Problem::new(Kind::Invalid, "limit_out_of_range", message)
            .hint("GET /v1/templates has the largest values in `max_limits`"),
        CreateRunError::Tier(_) => Problem::new(Kind::Unsupported, "tier_not_offered", message)
            .hint("GET /v1/templates has the tiers that you can name in `tiers`"),
        CreateRunError::Network(NetworkRefused::Capped(error)) => capped(error.clone()),
        CreateRunError::Network(NetworkRefused::Unknown(name)) => unknown_operation(name),
        CreateRunError::Network(NetworkRefused::Names) => Problem::invalid(message),
        CreateRunError::Network(NetworkRefused::NoOperations) => {
            Problem::new(Kind::Unsupported, "network_not_offered", message)
                .hint("the operator configures them in the file of --gateway")
        }
        CreateRunError::Network(NetworkRefused::TooMuch { .. }) => {
            Problem::new(Kind::Unsupported, "network_not_offered", message)
                .hint("the operator can allow more with --max-network")
        }
        CreateRunError::Budget(error) => over_budget(error),
        CreateRunError::Brief(error) => brief::refused(error),
        CreateRunError::Parameters(error) => brief::unsupported(error),
        CreateRunError::NoData(_) => Problem::new(Kind::NotFound, "data_not_found", message)
            .hint("upload the file with POST /v1/data"),
        CreateRunError::Plan(PlanError::TooLarge { .. }) => {
            Problem::new(Kind::Invalid, "data_too_large", message)
                .hint("choose more memory and disk with `limits`, another template, or less data")
        }
        CreateRunError::Model(_) => Problem::new(Kind::Invalid, "model_not_offered", message),
        CreateRunError::Name(_) => Problem::invalid(message),
        CreateRunError::Put(error) => return not_put(error),
        CreateRunError::Kept(error) => return not_kept(error),
        CreateRunError::Templates(_) => {
            tracing::warn!(error = error as &dyn std::error::Error, "run creation failed");
            Problem::new(
                Kind::Busy,
                "sandboxes_unavailable",
                "the templates and limits of the run's sandbox cannot be read",
            )
        }
        error => return failed(error),
    };
    problem.into()
}
