//! Requests that wait until a human has decided.
//!
//! The gateway keeps no list of its own: the node has it, and answers. A request that is given up,
//! because its client left or its time is over, is taken back from the node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use belljar_domain::approval::{ApprovalAnswer, ApprovalRequest};
use belljar_peer_proto::gateway::FromGateway;
use tokio::sync::{mpsc, oneshot};

/// Requests of all sandboxes that wait at the same time.
const MAX_WAITING: usize = 1024;

/// Questions without a decision.
#[derive(Debug, Clone)]
pub(crate) struct Approvals {
    open: Arc<Mutex<Open>>,
    events: mpsc::Sender<FromGateway>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    waiting: HashMap<u64, oneshot::Sender<ApprovalAnswer>>,
}

/// The reason that there is no decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undecided {
    /// Too many wait already, or the node is gone.
    NoRoom,
    TimeOver,
}

impl Approvals {
    pub(crate) fn new(events: mpsc::Sender<FromGateway>) -> Self {
        Self { open: Arc::default(), events }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the decision.
    pub(crate) async fn ask(&self, request: ApprovalRequest) -> Result<ApprovalAnswer, Undecided> {
        let within = Duration::from_secs(request.seconds);
        let (sender, answer) = oneshot::channel();
        let question = {
            let mut open = self.open();
            if open.waiting.len() >= MAX_WAITING {
                return Err(Undecided::NoRoom);
            }
            let question = open.next;
            open.next += 1;
            open.waiting.insert(question, sender);
            question
        };
        let _given_up = GivenUp { approvals: self, question };
        let request = Box::new(request);
        let asked = self.events.send(FromGateway::Approval { question, request }).await;
        asked.map_err(|_| Undecided::NoRoom)?;
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(Undecided::NoRoom),
            Err(_) => Err(Undecided::TimeOver),
        }
    }

    /// The node's answer; one that comes too late is forgotten.
    pub(crate) fn answer(&self, question: u64, answer: ApprovalAnswer) {
        let waiting = self.open().waiting.remove(&question);
        if let Some(sender) = waiting {
            let _ = sender.send(answer);
        }
    }
}

/// Takes a question back that was not answered.
struct GivenUp<'a> {
    approvals: &'a Approvals,
    question: u64,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        if self.approvals.open().waiting.remove(&self.question).is_none() {
            return;
        }
        let (events, question) = (self.approvals.events.clone(), self.question);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = events.send(FromGateway::ApprovalOver { question }).await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use belljar_domain::SandboxId;
    use belljar_domain::approval::ApprovalAction;
    use belljar_domain::network::Subject;

    use super::*;

    fn request(seconds: u64) -> ApprovalRequest {
        let subject = Subject {
            tenant: "t".into(),
            sandbox: SandboxId::from_random([1; 16]),
            run: None,
            turn: None,
            call: None,
            process: None,
        };
        let action = ApprovalAction::Push;
        let (operation, repository) = ("code".to_owned(), "a/b".to_owned());
        ApprovalRequest {
            subject,
            operation,
            action,
            repository,
            changes: Vec::new(),
            seconds,
            tool: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_answered_or_taken_back() {
        let (events, mut told) = mpsc::channel(8);
        let approvals = Approvals::new(events);
        let other = approvals.clone();
        let asking = tokio::spawn(async move { other.ask(request(60)).await });
        let Some(FromGateway::Approval { question, .. }) = told.recv().await else { panic!() };
        approvals.answer(question + 1, ApprovalAnswer { is_approved: false, message: None });
        approvals.answer(question, ApprovalAnswer { is_approved: true, message: None });
        assert!(asking.await.unwrap().unwrap().is_approved);

        assert_eq!(approvals.ask(request(60)).await, Err(Undecided::TimeOver));
        assert!(matches!(told.recv().await, Some(FromGateway::Approval { .. })));
        let over = told.recv().await;
        assert!(matches!(over, Some(FromGateway::ApprovalOver { question: 1 })), "{over:?}");
    }

    #[tokio::test]
    async fn a_client_that_leaves_takes_its_question_back() {
        let (events, mut told) = mpsc::channel(8);
        let approvals = Approvals::new(events);
        let other = approvals.clone();
        let asking = tokio::spawn(async move { other.ask(request(60)).await });
        let Some(FromGateway::Approval { question, .. }) = told.recv().await else { panic!() };
        asking.abort();
        let over = told.recv().await;
        assert!(matches!(over, Some(FromGateway::ApprovalOver { question: n }) if n == question));
    }
}
