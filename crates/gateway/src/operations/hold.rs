//! Tool calls in answers of models that wait until a human has decided.
//!
//! ```text
//!   stream.rs ──answer──► Holder ──what comes before the calls──► client
//!                           │                                       ▲
//!                           ├── keep-alives while it waits ─────────┤
//!                           └── ask ─► the calls, or a text ────────┘
//! ```
//!
//! The answer is over and paid for when its calls wait: its row is written, and what its request held
//! is given back. A client that leaves takes its questions back.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use ::http::{Method, Request};
use belljar_domain::approval::{ApprovalAction, ApprovalRequest, ToolApprovals, ToolCall};
use belljar_domain::network::{Decision, Kind, Reason};
use belljar_llm::dialect::Dialect;
use belljar_llm::hold::{HeldCall, Hold, HoldError, keep_alive};
use belljar_llm::refusal::{self, Kind as Refusal};
use belljar_llm::tap::Form;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use sha2::{Digest as _, Sha256};

use super::operation::Operation;
use super::refuse::{Refusal as NotHeld, Shape};
use super::serve;
use crate::approvals::Undecided;
use crate::body::{self, Answer, AnswerBody, Inner};
use crate::connection::Connection;
use crate::log::Entry;
use crate::room::GrowingRoom;
use crate::tokens::Token;

/// Clients give up after minutes without a byte.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Holds the answer to one request.
#[derive(Debug)]
pub(crate) struct Holder {
    connection: Arc<Connection>,
    token: Arc<Token>,
    approvals: Arc<ToolApprovals>,
    operation: Arc<Operation>,
    dialect: Dialect,
    method: Method,
    path: String,
}

/// Tool calls of the answer would have to wait, and cannot be found in it: its operation is not known.
#[derive(Debug)]
pub(crate) struct Unheld {
    why: NotHeld,
    shape: Shape,
}

/// A body whose tool calls wait.
struct Waiting {
    body: AnswerBody,
    dialect: Dialect,
    form: Form,
    /// Present until the calls are asked about.
    holder: Option<Holder>,
    state: State,
    /// Of the bytes that are held.
    room: GrowingRoom,
}

enum State {
    Reading(Hold),
    Asking(BoxFuture<'static, io::Result<Bytes>>),
    Over,
}

impl Holder {
    /// None: no tool call in the answer can wait.
    pub(crate) fn of(
        connection: &Arc<Connection>,
        request: &Request<Inner>,
    ) -> Result<Option<Self>, Unheld> {
        let path = request.uri().path();
        let held = serve::held(&connection.session, request);
        let held = held.map_err(|why| Unheld { why, shape: Shape::of(path, request.headers()) })?;
        let Some((token, operation, dialect)) = held else { return Ok(None) };
        let Some(approvals) = token.scope().approvals.clone() else { return Ok(None) };
        Ok(Some(Self {
            connection: Arc::clone(connection),
            token,
            approvals,
            operation,
            dialect,
            method: request.method().clone(),
            path: path.to_owned(),
        }))
    }

    /// The answer, with its tool calls held.
    pub(crate) fn hold(self, answer: Answer) -> Answer {
        if !answer.status().is_success() {
            return answer;
        }
        let (mut head, body) = answer.into_parts();
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let form = Form::of(content_type);
        head.headers.remove(CONTENT_LENGTH);
        let dialect = self.dialect;
        let state = State::Reading(Hold::new(dialect, form));
        let room = GrowingRoom::new(self.connection.session.room.clone());
        let waiting = Waiting { body, dialect, form, holder: Some(self), state, room };
        let frames = futures_util::stream::unfold(waiting, |mut waiting| async move {
            let piece = waiting.next().await?;
            Some((piece.map(Frame::data), waiting))
        });
        Answer::from_parts(head, StreamBody::new(frames).boxed_unsync())
    }

    /// Asks about each call; the first denial ends it.
    async fn decide(self, form: Form, hold: Hold, calls: Vec<HeldCall>) -> io::Result<Bytes> {
        for call in &calls {
            if let Err(why) = self.ask(call).await {
                let text = format!(
                    "[Belljar] The call of the tool `{}` was not made: {why}. No tool call of this \
                     answer was made, and the turn ends here.",
                    call.name
                );
                let denied = hold.deny(&text).map(Bytes::from);
                return denied.or_else(|error| broken(self.dialect, form, error));
            }
        }
        Ok(hold.release().into())
    }

    /// Waits for the decision about a call. The error says why it is not made.
    async fn ask(&self, call: &HeldCall) -> Result<(), String> {
        let session = &self.connection.session;
        let mut entry = Entry::begin(&self.connection, Kind::Operation).await;
        entry.asks(&self.method, &self.path);
        entry.row().operation = Some(self.operation.name.to_string());
        entry.to(self.operation.upstream.host.clone(), self.operation.upstream.port);
        let sha256 = Sha256::digest(&call.input);
        let sha256 = sha256.iter().map(|byte| format!("{byte:02x}")).collect();
        let request = ApprovalRequest {
            subject: self.connection.subject(),
            operation: self.operation.name.to_string(),
            action: ApprovalAction::ToolCall,
            repository: String::new(),
            changes: Vec::new(),
            seconds: self.approvals.seconds,
            tool: Some(ToolCall::new(&call.name, call.id.as_deref(), &call.input, sha256)),
        };
        let answered = tokio::select! {
            answered = session.shared.approvals.ask(request) => answered,
            _ = Arc::clone(&self.token).death() => {
                entry.decide(Decision::Denied, Reason::Token);
                return Err("the token expired before a human decided".to_owned());
            }
        };
        let why = match answered {
            Ok(answer) if answer.is_approved => {
                entry.decide(Decision::Allowed, Reason::Approved);
                return Ok(());
            }
            Ok(answer) => match answer.message {
                Some(message) => format!("a human denied it ({message})"),
                None => "a human denied it".to_owned(),
            },
            Err(Undecided::TimeOver) => {
                format!("no human approved it within {} seconds", self.approvals.seconds)
            }
            Err(Undecided::NoRoom) => "no human can be asked now; try again later".to_owned(),
        };
        entry.decide(Decision::Denied, Reason::NotApproved);
        Err(why)
    }
}

impl Unheld {
    /// The answer, if it refuses; or else a refusal. An operation can be gone that a cassette has
    /// answers of, or come between two looks.
    pub(crate) fn refuse(&self, answer: Answer) -> Answer {
        if answer.status().is_success() { self.why.answer(self.shape) } else { answer }
    }
}

impl Waiting {
    /// The next piece for the client.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            match &mut self.state {
                State::Over => return None,
                State::Asking(deciding) => {
                    tokio::select! {
                        decided = deciding.as_mut() => {
                            self.state = State::Over;
                            return Some(decided);
                        }
                        () = tokio::time::sleep(KEEP_ALIVE) => return Some(Ok(self.keep_alive())),
                    }
                }
                State::Reading(hold) => {
                    let frame = if hold.is_holding() {
                        tokio::select! {
                            frame = self.body.frame() => frame,
                            () = tokio::time::sleep(KEEP_ALIVE) => {
                                return Some(Ok(self.keep_alive()));
                            }
                        }
                    } else {
                        self.body.frame().await
                    };
                    let piece = match frame {
                        Some(Ok(frame)) => match frame.into_data() {
                            Ok(chunk) => {
                                let pushed = hold.push(&chunk);
                                let has_room = self.room.grow_to(hold.bytes() as u64).is_ok();
                                if has_room { pushed } else { Err(HoldError::NoRoom) }
                            }
                            // Trailers are not passed on.
                            Err(_) => continue,
                        },
                        Some(Err(error)) => {
                            self.state = State::Over;
                            self.let_go();
                            return Some(Err(error));
                        }
                        None => hold.finish().map(|(passing, calls)| {
                            self.ask(calls);
                            passing
                        }),
                    };
                    match piece {
                        Ok(bytes) if bytes.is_empty() => {}
                        Ok(bytes) => return Some(Ok(bytes.into())),
                        Err(error) => return Some(self.end(error)),
                    }
                }
            }
        }
    }

    /// Asks about the calls that the policy names; without any, everything goes on.
    fn ask(&mut self, mut calls: Vec<HeldCall>) {
        let state = std::mem::replace(&mut self.state, State::Over);
        self.let_go();
        let (State::Reading(hold), Some(holder)) = (state, self.holder.take()) else { return };
        let approvals = &holder.approvals;
        calls.retain(|call| match call.is_name_sure {
            true => approvals.names(&call.name),
            false => !approvals.is_never(),
        });
        self.state = State::Asking(Box::pin(holder.decide(self.form, hold, calls)));
    }

    /// Ends the account of the answer: a decision can take hours.
    fn let_go(&mut self) {
        self.body = body::whole(Bytes::new());
    }

    fn end(&mut self, error: HoldError) -> io::Result<Bytes> {
        tracing::warn!(%error, "tool calls of an answer cannot be held");
        self.let_go();
        match std::mem::replace(&mut self.state, State::Over) {
            State::Reading(hold) if self.form == Form::Stream => Ok(hold.broken(error).into()),
            _ => broken(self.dialect, self.form, error),
        }
    }

    fn keep_alive(&self) -> Bytes {
        Bytes::from_static(keep_alive(self.dialect, self.form))
    }
}

/// The end of an answer that cannot go on. One that is no stream is cut: its status has gone out.
fn broken(dialect: Dialect, form: Form, error: HoldError) -> io::Result<Bytes> {
    match form {
        Form::Stream => {
            let event = refusal::last_event(dialect, Refusal::BadAnswer, &error.to_string(), None);
            Ok(event.into())
        }
        Form::Whole => Err(io::Error::other(error)),
    }
}
