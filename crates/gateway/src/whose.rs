//! Whose a connection is: the kernel knows its socket, the node knows its call.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use belljar_peer_proto::gateway::{Belongs, FromGateway, Socket};
use belljar_sys::diag;
use tokio::sync::oneshot;

use crate::connection::Connection;

/// How long an answer is waited for. Nothing goes out before; after that it goes
/// out as nobody's in particular, which the row shows.
const PATIENCE: Duration = Duration::from_millis(500);

/// Questions that the node has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    next: u64,
    waiting: HashMap<u64, oneshot::Sender<Belongs>>,
}

impl Questions {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self) -> (u64, oneshot::Receiver<Belongs>) {
        let (sender, receiver) = oneshot::channel();
        let mut open = self.open();
        let question = open.next;
        open.next += 1;
        open.waiting.insert(question, sender);
        (question, receiver)
    }

    /// The node's answer; one that comes too late is forgotten.
    pub(crate) fn answer(&self, question: u64, belongs: Belongs) {
        if let Some(sender) = self.open().waiting.remove(&question) {
            let _ = sender.send(belongs);
        }
    }

    fn forget(&self, question: u64) {
        self.open().waiting.remove(&question);
    }
}

/// Finds out whose the connection from `client` to `listener` is, and writes it
/// down. The client's end is asked for: it is the one that a process inside made.
pub(crate) async fn find(
    connection: Arc<Connection>,
    diagnosis: Arc<OwnedFd>,
    client: SocketAddr,
    listener: SocketAddr,
) {
    let asked = ask(&connection, &diagnosis, client, listener);
    let belongs = tokio::time::timeout(PATIENCE, asked).await.ok().flatten();
    connection.attribute(belongs.unwrap_or_default());
}

async fn ask(
    connection: &Connection,
    diagnosis: &OwnedFd,
    client: SocketAddr,
    listener: SocketAddr,
) -> Option<Belongs> {
    // One exact socket is asked for; the kernel answers before the call returns.
    let found = diag::find(diagnosis, client, listener).ok().flatten()?;
    let shared = &connection.session.shared;
    let (question, answer) = shared.questions.ask();
    let _forget = Forget { questions: &shared.questions, question };
    let socket = Socket { cgroup: found.cgroup, inode: found.inode, uid: found.uid };
    let sandbox = connection.session.subject.sandbox.clone();
    shared.events.send(FromGateway::Whose { question, sandbox, socket }).await.ok()?;
    answer.await.ok()
}

/// Takes the question back when nobody waits for its answer any more.
struct Forget<'a> {
    questions: &'a Questions,
    question: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.questions.forget(self.question);
    }
}
