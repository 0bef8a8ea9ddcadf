//! Tool calls of runs that wait for an approval.

use std::time::Duration;

use belljar_domain::approval::MAX_PENDING_APPROVALS;
use belljar_domain::{OperationCaps, RunId, SandboxId};
use belljar_journal::event::{CallDecision, CallRef, Request, Verdict};
use belljar_journal::{Address, ApprovalQuery, CallApproval, ReadError, RunView, read_all};
use belljar_objects::Digest;
use time::OffsetDateTime;

use crate::Runs;
use crate::steer::SteerError;

/// Ids of sandboxes never begin with it.
const ID_PREFIX: &str = "run.";
/// Digits of the digest of a call in an id.
const CALL_DIGITS: usize = 16;
/// The clock by which calls expire.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(2);
/// Calls that are denied at one tick of it.
const MAX_EXPIRED: usize = 256;
/// The author of the decision about a call whose time is over.
const CLOCK: &str = "clock";

/// A tool call of a run that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunApproval {
    pub id: String,
    pub run: RunId,
    pub sandbox: Option<SandboxId>,
    pub asked: CallApproval,
}

/// The id of the approval of a call.
pub fn approval_id(run: &RunId, call: &CallRef) -> String {
    let digest = Digest::of(format!("{}:{}", call.turn, call.id).as_bytes()).to_string();
    format!("{ID_PREFIX}{run}.{}", digest.get(..CALL_DIGITS).unwrap_or(&digest))
}

/// The run in the id of an approval. None: it is that of a request that a gateway holds.
fn run_in(id: &str) -> Option<RunId> {
    id.strip_prefix(ID_PREFIX)?.split('.').next()?.parse().ok()
}

fn waiting(run: &Address, view: &RunView) -> Option<RunApproval> {
    let asked = view.undecided()?.clone();
    let id = approval_id(&run.run, &asked.call);
    Some(RunApproval { id, run: run.run.clone(), sandbox: view.sandbox.clone(), asked })
}

impl Runs {
    /// Tool calls of a tenant's runs that wait, the oldest first.
    pub async fn approvals(&self, tenant: &str) -> Result<Vec<RunApproval>, ReadError> {
        let most = MAX_PENDING_APPROVALS;
        let query = ApprovalQuery { tenant: Some(tenant), due: None, most };
        let mut found = Vec::new();
        for run in self.journal().awaiting_approval(query).await? {
            match read_all(&**self.journal(), &run).await {
                Ok(events) => found.extend(waiting(&run, &RunView::of(&events))),
                // It was deleted meanwhile.
                Err(ReadError::NoRun) => {}
                Err(error) => return Err(error),
            }
        }
        found.sort_by_key(|one| one.asked.asked_at);
        Ok(found)
    }

    /// Decides about a tool call of a run. Returns false if the id is not that of a run's call.
    pub async fn decide_approval(
        &self,
        tenant: &str,
        id: &str,
        (verdict, message): (Verdict, Option<String>),
        caps: &OperationCaps,
    ) -> Result<bool, SteerError> {
        let Some(run) = run_in(id) else { return Ok(false) };
        let run = Address { tenant: tenant.to_owned(), run };
        self.decide(&run, Some(id), (verdict, message), tenant, caps).await?;
        Ok(true)
    }

    /// With an id, only if the run waits for that call.
    async fn decide(
        &self,
        run: &Address,
        id: Option<&str>,
        (verdict, message): (Verdict, Option<String>),
        by: &str,
        caps: &OperationCaps,
    ) -> Result<(), SteerError> {
        let events = read_all(&**self.journal(), run).await.map_err(|error| match error {
            ReadError::NoRun => SteerError::NoRun,
            error => SteerError::Read(error),
        })?;
        let found = waiting(run, &RunView::of(&events));
        let is_meant = |one: &RunApproval| id.is_none_or(|id| one.id == id);
        let found = found.filter(is_meant).ok_or(SteerError::NoApproval)?;
        let decision = CallDecision { call: found.asked.call, verdict, message };
        // Of two decisions at the same moment, the first is written down.
        let key = format!("approval:{}", found.id);
        let request = Request::Decide { decision };
        match self.steer(run, request, by, caps, Some(&key)).await {
            Err(SteerError::Mismatch) => Err(SteerError::NoApproval),
            steered => steered,
        }
    }

    /// Denies calls whose time is over, again and again. Each process that works on runs does it; a
    /// call is denied once.
    pub(crate) async fn expire_approvals(&self) {
        loop {
            tokio::time::sleep(EXPIRY_INTERVAL).await;
            let due = Some(OffsetDateTime::now_utc());
            let query = ApprovalQuery { tenant: None, due, most: MAX_EXPIRED };
            let runs = match self.journal().awaiting_approval(query).await {
                Ok(runs) => runs,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "cannot look for expired approvals");
                    continue;
                }
            };
            for run in runs {
                let expired = (Verdict::Expired, None);
                let caps = OperationCaps::default();
                match self.decide(&run, None, expired, CLOCK, &caps).await {
                    // It was decided, or ended, at the same moment.
                    Ok(())
                    | Err(SteerError::NoApproval | SteerError::NoRun | SteerError::Finished) => {}
                    Err(error) => {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(error, run.id = %run.run, "approval not expired");
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_its_run_and_one_call() {
        let run = RunId::from_bits([1; 16]);
        let call = |turn, id: &str| CallRef { turn, id: id.to_owned() };
        let id = approval_id(&run, &call(1, "c1"));
        assert_eq!(run_in(&id), Some(run.clone()));
        for other in [call(2, "c1"), call(1, "c2")] {
            assert_ne!(approval_id(&run, &other), id);
        }
        for gateways in ["i0123456789abcdefghij.0123456789abcdef", "run.", "run.x.y", ""] {
            assert_eq!(run_in(gateways), None, "{gateways}");
        }
    }
}
