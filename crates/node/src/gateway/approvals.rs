//! Requests that the gateway holds until a human has decided.
//!
//! They are in memory alone: a gateway that dies has dropped the requests with their connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use belljar_bus::gateway::ToGateway;
use belljar_model::approval::{ApprovalAnswer, ApprovalRequest};
use tokio::sync::watch;

use super::Shared;
use crate::random;

/// Requests of one sandbox that wait at the same time: what is more would hide the rest.
const MAX_OF_ONE: usize = 16;

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

/// All that wait, by the question of the gateway that runs now.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pending: Mutex<BTreeMap<u64, PendingApproval>>,
    changes: watch::Sender<u64>,
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
        if !self.insert(question, PendingApproval { id, request, asked_at: SystemTime::now() }) {
            refuse("too many requests of this sandbox wait for approval");
        }
    }

    fn insert(&self, question: u64, new: PendingApproval) -> bool {
        let sandbox = &new.request.subject.sandbox;
        let mut pending = self.pending();
        let is_its = |one: &&PendingApproval| &one.request.subject.sandbox == sandbox;
        let has_room = pending.values().filter(is_its).count() < MAX_OF_ONE;
        if has_room {
            pending.insert(question, new);
        }
        drop(pending);
        self.changed();
        has_room
    }

    /// The request was given up, or its time is over.
    pub(super) fn forget(&self, question: u64) {
        self.pending().remove(&question);
        self.changed();
    }

    /// The gateway that asked is gone.
    pub(super) fn clear(&self) {
        self.pending().clear();
        self.changed();
    }

    pub(super) fn list(&self) -> Vec<PendingApproval> {
        self.pending().values().cloned().collect()
    }

    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Takes a request out, to be decided; none: it does not wait any more.
    pub(super) fn take(&self, id: &str) -> Option<u64> {
        let mut pending = self.pending();
        let found = pending.iter().find(|(_, one)| one.id == id).map(|(question, _)| *question)?;
        pending.remove(&found);
        drop(pending);
        self.changed();
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use belljar_model::SandboxId;
    use belljar_model::approval::ApprovalAction;
    use belljar_model::network::Subject;

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
        };
        PendingApproval { id: id.into(), request, asked_at: SystemTime::UNIX_EPOCH }
    }

    #[test]
    fn a_request_is_decided_once() {
        let waiting = Waiting::default();
        assert!(waiting.insert(7, pending("a", 1)) && waiting.insert(8, pending("b", 1)));
        assert_eq!(waiting.take("a"), Some(7));
        assert_eq!(waiting.take("a"), None);
        waiting.forget(8);
        assert_eq!(waiting.take("b"), None);
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(60);
        assert_eq!(pending("a", 1).expires_at(), end);
    }

    #[test]
    fn one_sandbox_does_not_hide_the_others() {
        let waiting = Waiting::default();
        let count = (0..100).filter(|n| waiting.insert(*n, pending(&n.to_string(), 1))).count();
        assert_eq!(count, MAX_OF_ONE);
        assert!(waiting.insert(200, pending("other", 2)));
    }
}
