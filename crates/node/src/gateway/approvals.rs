//! Requests that the gateway holds until a human has decided.
//!
//! They are in memory alone: a gateway that dies has dropped the requests with their connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use belljar_domain::approval::{
    ApprovalAction, ApprovalAnswer, ApprovalRequest, ApprovalResult, MAX_PENDING_APPROVALS,
};
use belljar_peer_proto::gateway::ToGateway;
use tokio::sync::{broadcast, watch};

use super::Shared;
use crate::random;

/// Requests of one sandbox that wait at the same time: what is more would hide the rest.
const MAX_OF_ONE: usize = 16;
/// The time by which a request can expire earlier in the gateway than here.
const EXPIRY_SLACK: Duration = Duration::from_secs(1);
/// Results that wait for a slow subscriber before it misses some.
const RESULTS_KEPT: usize = 256;

/// A request that waits.
#[derive(Debug, Clone)]
pub struct PendingApproval {
    /// Unique among those of this process, and of those before it.
    pub id: String,
    pub request: ApprovalRequest,
    pub asked_at: SystemTime,
}

impl PendingApproval {
    pub fn expires_at(&self) -> SystemTime {
        let end = self.asked_at.checked_add(Duration::from_secs(self.request.seconds));
        end.unwrap_or(self.asked_at)
    }
}

/// The bound that a request would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoRoom {
    Sandbox,
    Tenant,
}

impl NoRoom {
    fn message(self) -> String {
        match self {
            Self::Sandbox => {
                format!("{MAX_OF_ONE} requests of this sandbox wait for approval already")
            }
            Self::Tenant => {
                format!("{MAX_PENDING_APPROVALS} requests of this tenant wait for approval already")
            }
        }
    }
}

/// All that wait, by the question of the gateway that runs now.
#[derive(Debug)]
pub(super) struct Waiting {
    pending: Mutex<BTreeMap<u64, PendingApproval>>,
    changes: watch::Sender<u64>,
    results: broadcast::Sender<(ApprovalAction, ApprovalResult)>,
}

impl Default for Waiting {
    fn default() -> Self {
        let results = broadcast::Sender::new(RESULTS_KEPT);
        Self { pending: Mutex::default(), changes: watch::Sender::default(), results }
    }
}

impl Waiting {
    fn pending(&self) -> MutexGuard<'_, BTreeMap<u64, PendingApproval>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(super) fn add(&self, shared: &Arc<Shared>, question: u64, request: ApprovalRequest) {
        let refuse = |why: &str| {
            let answer = ApprovalAnswer { is_approved: false, message: Some(why.to_owned()) };
            shared.say(&ToGateway::Approval { question, answer });
        };
        let Ok(bytes) = random::bytes::<8>() else {
            return refuse("the node has no random numbers");
        };
        let id = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let action = request.action;
        let new = PendingApproval { id, request, asked_at: SystemTime::now() };
        if let Err(full) = self.insert(question, new) {
            self.ended(action, ApprovalResult::Refused);
            refuse(&full.message());
        }
    }

    fn insert(&self, question: u64, new: PendingApproval) -> Result<(), NoRoom> {
        let subject = &new.request.subject;
        let mut pending = self.pending();
        let is_its = |one: &&PendingApproval| one.request.subject.sandbox == subject.sandbox;
        if pending.values().filter(is_its).count() >= MAX_OF_ONE {
            return Err(NoRoom::Sandbox);
        }
        let is_theirs = |one: &&PendingApproval| one.request.subject.tenant == subject.tenant;
        if pending.values().filter(is_theirs).count() >= MAX_PENDING_APPROVALS {
            return Err(NoRoom::Tenant);
        }
        pending.insert(question, new);
        drop(pending);
        self.changed();
        Ok(())
    }

    /// Tells the result of a request to all that follow.
    pub(super) fn ended(&self, action: ApprovalAction, result: ApprovalResult) {
        // Without a subscriber, nothing is counted.
        let _ = self.results.send((action, result));
    }

    pub(super) fn results(&self) -> broadcast::Receiver<(ApprovalAction, ApprovalResult)> {
        self.results.subscribe()
    }

    /// The request was given up, or its time is over.
    pub(super) fn forget(&self, question: u64) {
        let gone = self.pending().remove(&question);
        if let Some(gone) = gone {
            // The clock of the gateway began a moment before ours.
            let is_over = gone.expires_at() <= SystemTime::now() + EXPIRY_SLACK;
            let result = if is_over { ApprovalResult::Expired } else { ApprovalResult::Withdrawn };
            self.ended(gone.request.action, result);
        }
        self.changed();
    }

    /// The gateway that asked is gone.
    pub(super) fn clear(&self) {
        let gone = std::mem::take(&mut *self.pending());
        for one in gone.values() {
            self.ended(one.request.action, ApprovalResult::Withdrawn);
        }
        self.changed();
    }

    pub(super) fn list(&self) -> Vec<PendingApproval> {
        self.pending().values().cloned().collect()
    }

    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Takes a request out, to be decided; none: it does not wait any more.
    pub(super) fn take(&self, id: &str) -> Option<(u64, ApprovalAction)> {
        let mut pending = self.pending();
        let found = pending.iter().find(|(_, one)| one.id == id).map(|(question, _)| *question)?;
        let action = pending.remove(&found)?.request.action;
        drop(pending);
        self.changed();
        Some((found, action))
    }
}

#[cfg(test)]
mod tests {
    use belljar_domain::SandboxId;
    use belljar_domain::network::Subject;

    use super::*;

    fn pending(id: &str, sandbox: u8) -> PendingApproval {
        let subject = Subject {
            tenant: "t".into(),
            sandbox: SandboxId::from_random([sandbox; 16]),
            run: None,
            turn: None,
            call: None,
            process: None,
        };
        let request = ApprovalRequest {
            subject,
            operation: "code".into(),
            action: ApprovalAction::Push,
            repository: "a/b".into(),
            changes: Vec::new(),
            seconds: 60,
            tool: None,
        };
        PendingApproval { id: id.into(), request, asked_at: SystemTime::UNIX_EPOCH }
    }

    #[test]
    fn a_request_is_decided_once() {
        let waiting = Waiting::default();
        assert_eq!(waiting.insert(7, pending("a", 1)), Ok(()));
        assert_eq!(waiting.insert(8, pending("b", 1)), Ok(()));
        assert_eq!(waiting.take("a"), Some((7, ApprovalAction::Push)));
        assert_eq!(waiting.take("a"), None);
        waiting.forget(8);
        assert_eq!(waiting.take("b"), None);
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(60);
        assert_eq!(pending("a", 1).expires_at(), end);
    }

    #[test]
    fn one_sandbox_does_not_hide_the_others() {
        let waiting = Waiting::default();
        let inserted: Vec<_> =
            (0..100).map(|n| waiting.insert(n, pending(&n.to_string(), 1))).collect();
        assert_eq!(inserted.iter().filter(|result| result.is_ok()).count(), MAX_OF_ONE);
        assert_eq!(inserted[99], Err(NoRoom::Sandbox));
        assert_eq!(waiting.insert(200, pending("other", 2)), Ok(()));
    }

    #[test]
    fn one_tenant_does_not_hide_the_others() {
        let waiting = Waiting::default();
        for n in 0..MAX_PENDING_APPROVALS as u64 {
            let sandbox = u8::try_from(n / MAX_OF_ONE as u64).unwrap();
            assert_eq!(waiting.insert(n, pending(&n.to_string(), sandbox)), Ok(()));
        }
        assert_eq!(waiting.insert(900, pending("more", 200)), Err(NoRoom::Tenant));
        let mut other = pending("other", 201);
        other.request.subject.tenant = "u".into();
        assert_eq!(waiting.insert(901, other), Ok(()));
    }

    #[test]
    fn every_request_has_one_result() {
        let waiting = Waiting::default();
        let mut results = waiting.results();
        let mut late = pending("late", 1);
        late.asked_at = SystemTime::now();
        assert_eq!(waiting.insert(1, pending("expired", 1)), Ok(()));
        assert_eq!(waiting.insert(2, late), Ok(()));
        for question in [1, 2, 2] {
            waiting.forget(question);
        }
        let push = ApprovalAction::Push;
        assert_eq!(results.try_recv(), Ok((push, ApprovalResult::Expired)));
        assert_eq!(results.try_recv(), Ok((push, ApprovalResult::Withdrawn)));
        assert!(results.try_recv().is_err());
    }
}
