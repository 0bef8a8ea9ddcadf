//! `GET /v1/approvals` and `POST /v1/approvals/{approval}`

use axum::extract::State;
use axum::{Extension, Json};
use belljar_api::approval as api;
use belljar_domain::OperationCaps;
use belljar_domain::approval::ApprovalAnswer;
use belljar_journal::event::Verdict;
use belljar_runs::{RunApproval, Runs};
use belljar_sandboxes::{Actions, Approval, PageKeys, Tenant};
use http::StatusCode;

use super::authenticate::{Caller, Capped};
use super::failure::Failure;
use super::read::{At, Body};
use super::runs::{Offered, Offering, moment, refused, unread};
use super::sandboxes::date_time;

/// Bytes of inputs that one list shows. With everything else, and all of it escaped in JSON, a list
/// stays below 8 MiB, the longest answer that a control node reads.
const MAX_LISTED_INPUT: usize = 1 << 20;

type Listed = (Extension<PageKeys>, Json<api::ApprovalList>);
/// An approval, and its place in a list.
type Placed = ((i128, String), api::Approval);

pub(super) async fn list(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Extension(Offered(runs)): Extension<Offered>,
) -> Result<Listed, Failure> {
    let mut all: Vec<Placed> = actions.approvals(&tenant).into_iter().map(of_gateway).collect();
    if let Some(runs) = runs {
        all.extend(of_runs(&runs, &tenant).await?);
    }
    Ok(listed(all))
}

/// Those of runs alone, for a process that has no sandboxes itself.
pub(super) async fn list_of_runs(
    Offering(runs): Offering,
    Caller(tenant): Caller,
) -> Result<Listed, Failure> {
    Ok(listed(of_runs(&runs, &tenant).await?))
}

pub(super) async fn decide(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Capped(caps): Capped,
    Extension(Offered(runs)): Extension<Offered>,
    At(id): At<String>,
    Body(decided): Body<api::DecideApproval>,
) -> Result<StatusCode, Failure> {
    if let Some(runs) = runs
        && decide_run(&runs, &tenant, &id, &decided, &caps).await?
    {
        return Ok(StatusCode::NO_CONTENT);
    }
    let answer = ApprovalAnswer {
        is_approved: decided.decision == api::ApprovalDecision::Approve,
        message: decided.message.map(String::from),
    };
    actions.decide_approval(&tenant, &id, answer)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Those of runs alone, likewise.
pub(super) async fn decide_of_run(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    Capped(caps): Capped,
    At(id): At<String>,
    Body(decided): Body<api::DecideApproval>,
) -> Result<StatusCode, Failure> {
    match decide_run(&runs, &tenant, &id, &decided, &caps).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(refused(&belljar_runs::SteerError::NoApproval)),
    }
}

/// Returns false if the id is not that of a run's call.
async fn decide_run(
    runs: &Runs,
    tenant: &Tenant,
    id: &str,
    decided: &api::DecideApproval,
    caps: &OperationCaps,
) -> Result<bool, Failure> {
    let verdict = match decided.decision {
        api::ApprovalDecision::Approve => Verdict::Approved,
        api::ApprovalDecision::Deny => Verdict::Denied,
    };
    let decision = (verdict, decided.message.clone().map(String::from));
    let done = runs.decide_approval(tenant.as_str(), id, decision, caps).await;
    done.map_err(|error| refused(&error))
}

fn listed(mut all: Vec<Placed>) -> Listed {
    shorten(all.iter_mut().filter_map(|(_, item)| item.tool.as_mut()).collect());
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    let keys = all.iter().map(|((micros, id), _)| format!("{micros}.{id}")).collect();
    let items = all.into_iter().map(|(_, item)| item).collect();
    (Extension(PageKeys(keys)), Json(api::ApprovalList { items }))
}

/// Shows less of long inputs, where all of them are too much for one list.
fn shorten(calls: Vec<&mut api::ApprovalToolCall>) {
    if calls.iter().map(|call| call.input.len()).sum::<usize>() <= MAX_LISTED_INPUT {
        return;
    }
    let share = MAX_LISTED_INPUT / calls.len();
    for call in calls {
        call.input.truncate(call.input.floor_char_boundary(share));
    }
}

async fn of_runs(runs: &Runs, tenant: &Tenant) -> Result<Vec<Placed>, Failure> {
    let found = runs.approvals(tenant.as_str()).await.map_err(|error| unread(&error))?;
    Ok(found.into_iter().map(of_run).collect())
}

fn of_run(approval: RunApproval) -> Placed {
    let RunApproval { id, run, sandbox, asked } = approval;
    let micros = asked.asked_at.unix_timestamp_nanos() / 1000;
    let item = api::Approval {
        id: id.clone(),
        sandbox: sandbox.map(|id| id.to_string()).unwrap_or_default(),
        run: Some(run.to_string()),
        turn: Some(asked.call.turn),
        operation: String::new(),
        action: api::ApprovalAction::ToolCall,
        repository: String::new(),
        changes: Vec::new(),
        asked_at: moment(asked.asked_at),
        expires_at: moment(asked.until),
        tool: Some(asked.tool.into()),
    };
    ((micros, id), item)
}

fn of_gateway(approval: Approval) -> Placed {
    let Approval { id, sandbox, request, asked_at, expires_at } = approval;
    let place = (asked_at.unix_micros(), id.clone());
    let item = api::Approval {
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
        tool: request.tool.map(Into::into),
    };
    (place, item)
}

#[cfg(test)]
mod tests {
    use belljar_domain::approval::{MAX_PENDING_APPROVALS, MAX_SHOWN_INPUT, ToolCall};

    use super::*;

    /// A control node reads no list that is too long, so that all of it would be missing.
    #[test]
    fn many_long_inputs_are_shown_in_part() {
        let call = |input: &str| {
            api::ApprovalToolCall::from(ToolCall::new("shell", None, input, "00".to_owned()))
        };
        let long = "é".repeat(MAX_SHOWN_INPUT / 2);
        // Those of the gateway, and those of runs.
        let mut calls = vec![call(&long); 2 * MAX_PENDING_APPROVALS - 1];
        calls.push(call("ls"));
        shorten(calls.iter_mut().collect());
        let shown: usize = calls.iter().map(|call| call.input.len()).sum();
        assert!(shown <= MAX_LISTED_INPUT, "{shown}");
        assert_eq!((calls[0].input.len(), calls[0].bytes), (2048, long.len() as u64));
        assert_eq!(calls.last().unwrap().input, "ls");

        let mut few = vec![call(&long); 3];
        shorten(few.iter_mut().collect());
        assert!(few.iter().all(|call| call.input == long));
    }
}
