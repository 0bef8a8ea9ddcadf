//! `GET /v1/approvals` and `POST /v1/approvals/{approval}`

use axum::extract::State;
use axum::{Extension, Json};
use belljar_actions::{Actions, Approval, PageKeys};
use belljar_api::approval as api;
use belljar_model::approval::ApprovalAnswer;
use http::StatusCode;

use super::authenticate::Caller;
use super::failure::Failure;
use super::read::{At, Body};
use super::sandboxes::date_time;

pub(super) async fn list(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
) -> (Extension<PageKeys>, Json<api::ApprovalList>) {
    let all = actions.approvals(&tenant);
    let key = |one: &Approval| format!("{}.{}", one.asked_at.unix_micros(), one.id);
    let keys = PageKeys(all.iter().map(key).collect());
    let items = all.into_iter().map(view).collect();
    (Extension(keys), Json(api::ApprovalList { items }))
}

pub(super) async fn decide(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    Body(decided): Body<api::DecideApproval>,
) -> Result<StatusCode, Failure> {
    let answer = ApprovalAnswer {
        is_approved: decided.decision == api::ApprovalDecision::Approve,
        message: decided.message.map(String::from),
    };
    actions.decide_approval(&tenant, &id, answer)?;
    Ok(StatusCode::NO_CONTENT)
}

fn view(approval: Approval) -> api::Approval {
    let Approval { id, sandbox, request, asked_at, expires_at } = approval;
    api::Approval {
        id,
        sandbox,
        run: request.subject.run,
        turn: request.subject.turn,
        operation: request.operation,
        action: request.action.into(),
        repository: request.repository,
        changes: request.changes,
        asked_at: date_time(asked_at),
        expires_at: date_time(expires_at),
    }
}
