//! Requests of sandboxes that wait until a human has decided.

use std::collections::HashMap;
use std::sync::Arc;

use belljar_domain::approval::{ApprovalAnswer, ApprovalRequest};
use belljar_node::{Gateway, PendingApproval};
use belljar_telemetry::metrics;
use tokio::sync::broadcast::error::RecvError;

use crate::clock::Moment;
use crate::keys::Tenant;
use crate::problem::{Kind, Problem};
use crate::sandbox::Sandbox;
use crate::start::Actions;

/// A request that waits.
#[derive(Debug, Clone)]
pub struct Approval {
    /// The sandbox's id, a dot, and the request's own.
    pub id: String,
    pub sandbox: String,
    pub request: ApprovalRequest,
    pub asked_at: Moment,
    pub expires_at: Moment,
}

impl Actions {
    /// Requests that wait, of all sandboxes of a tenant, the oldest first.
    pub fn approvals(&self, tenant: &Tenant) -> Vec<Approval> {
        let Some(gateway) = self.ways().started() else { return Vec::new() };
        let machines: HashMap<_, _> = self
            .registry()
            .of(tenant)
            .into_iter()
            .filter_map(|sandbox| Some((sandbox.live().ok()?.machine.id().clone(), sandbox)))
            .collect();
        let mut all: Vec<_> = gateway
            .approvals()
            .into_iter()
            .filter_map(|pending| {
                let sandbox = machines.get(&pending.request.subject.sandbox)?;
                Some(approval(sandbox, pending))
            })
            .collect();
        all.sort_by_key(|approval| approval.asked_at.unix_micros());
        all
    }

    /// Lets a request of a sandbox go on, or refuses it.
    pub fn decide_approval(
        &self,
        tenant: &Tenant,
        id: &str,
        answer: ApprovalAnswer,
    ) -> Result<(), Problem> {
        let (of, own) = id.split_once('.').unwrap_or((id, ""));
        let sandbox = self.registry().find(tenant, of)?;
        let waits = self.approvals(tenant).iter().any(|approval| approval.id == id);
        let decided = waits
            && self.ways().started().is_some_and(|gateway| {
                tracing::info!(
                    sandbox.id = %sandbox.id(),
                    approval.id = own,
                    approval.is_approved = answer.is_approved,
                    "approval decided"
                );
                gateway.decide(own, answer)
            });
        if decided {
            return Ok(());
        }
        let message = "the request does not wait any more: it was decided, or its time is over";
        Err(Problem::new(Kind::Conflict, "approval_over", message)
            .hint("GET /v1/approvals lists the requests that wait"))
    }
}

/// Counts the results of requests that waited in a gateway.
pub(super) fn count_approvals(gateway: &Gateway) {
    let mut results = gateway.approval_results();
    tokio::spawn(async move {
        loop {
            match results.recv().await {
                Ok((action, result)) => metrics().approval_ended(action.as_str(), result.as_str()),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    });
}

fn approval(sandbox: &Arc<Sandbox>, pending: PendingApproval) -> Approval {
    let sandbox = sandbox.id().to_string();
    let id = format!("{sandbox}.{}", pending.id);
    let (asked_at, expires_at) = (pending.asked_at.into(), pending.expires_at().into());
    Approval { id, sandbox, request: pending.request, asked_at, expires_at }
}
