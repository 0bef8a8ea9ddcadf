//! One exchange with the world: judged, sent to a vetted address, passed back.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use belljar_domain::network::{Decision, Kind, Policy, Reach, Reason};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::answer::Refusal;
use crate::body::{Answer, Inner};
use crate::connection::{Connection, UnderWay};
use crate::log::Entry;
use crate::upstream::{self, Busy, Place};
use crate::wire::Tally;

/// How long the head of an answer may take. Models think for minutes.
const ANSWER_PATIENCE: Duration = Duration::from_secs(600);

/// Why an allowed request is allowed.
pub(crate) fn allowed_by(policy: &Policy) -> Reason {
    match policy.reach {
        Reach::Open => Reason::Open,
        Reach::None | Reach::Allow(_) => Reason::Rule,
    }
}

/// Answers a request that is for `place`.
pub(crate) async fn serve(
    connection: &Arc<Connection>,
    place: Place,
    request: Request<Inner>,
    tally: &Arc<Tally>,
) -> Answer {
    let mut entry = Entry::begin(connection, Kind::Exchange).await;
    entry.count_by(tally);
    entry.to(place.destination.host.clone(), place.destination.port);
    entry.asks(request.method(), request.uri().path());
    let state = connection.session.state();
    let judged = state.judge_request(&place, request.method().as_str(), target(&request));
    if let Err(reason) = judged {
        return refuse(entry, Decision::Denied, reason);
    }
    match go_out(connection, place, request, entry, None).await {
        Outcome::Answered(answer) | Outcome::Refused(answer) => answer,
    }
}

/// What became of a request that was to go out.
pub(crate) enum Outcome {
    /// By whom it was for.
    Answered(Answer),
    /// By us.
    Refused(Answer),
}

fn target(request: &Request<Inner>) -> &str {
    request.uri().path_and_query().map_or("/", |target| target.as_str())
}

/// Writes down that nothing came of it, and says so.
pub(crate) fn refuse(mut entry: Entry, decision: Decision, reason: Reason) -> Answer {
    entry.decide(decision, reason);
    let refusal = Refusal::new(reason, entry.row().host.clone());
    entry.row().status = Some(refusal.status.as_u16());
    refusal.answer()
}

/// Sends it, if it may leave. `because` stands in the row for a better reason
/// than the rule that allows it.
pub(crate) async fn go_out(
    connection: &Arc<Connection>,
    place: Place,
    request: Request<Inner>,
    entry: Entry,
    because: Option<Reason>,
) -> Outcome {
    let state = connection.session.state();
    if let Err(reason) = state.may_leave(&place, request.method().as_str(), target(&request)) {
        return Outcome::Refused(refuse(entry, Decision::Denied, reason));
    }
    let because = because.unwrap_or_else(|| allowed_by(&state.policy));
    let sending = Sending { connection, place, request, entry, because };
    if let Some(access) = &state.packages {
        return access.serve(sending).await;
    }
    match sending.send().await {
        Ok((answer, passing)) => Outcome::Answered(pass_back(answer, passing)),
        Err(answer) => Outcome::Refused(answer),
    }
}

/// A request that may leave.
pub(crate) struct Sending<'a> {
    pub(crate) connection: &'a Arc<Connection>,
    pub(crate) place: Place,
    pub(crate) request: Request<Inner>,
    pub(crate) entry: Entry,
    because: Reason,
}

impl Sending<'_> {
    /// The head of the answer, or what we say instead of it.
    pub(crate) async fn send(self) -> Result<(Response<Incoming>, Passing), Answer> {
        let Self { connection, place, request, mut entry, because } = self;
        let method = request.method().as_str();
        let under_way = connection.exchanges(&place, method, target(&request));
        if let Err(reason) = connection.check() {
            return Err(refuse(entry, Decision::Denied, reason));
        }
        let sending = upstream::send(connection, &place, request);
        let (answer, busy) = match tokio::time::timeout(ANSWER_PATIENCE, sending).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(reason)) => return Err(refuse(entry, outcome(reason), reason)),
            Err(_) => {
                entry.decide(Decision::Failed, Reason::Upstream);
                entry.row().status = Some(StatusCode::GATEWAY_TIMEOUT.as_u16());
                let mut refusal = Refusal::new(Reason::Upstream, Some(place.destination.host));
                refusal.status = StatusCode::GATEWAY_TIMEOUT;
                return Err(refusal.answer());
            }
        };
        entry.first_byte();
        entry.row().address = Some(busy.address);
        if let Err(reason) = under_way.reached(busy.address) {
            return Err(refuse(entry, Decision::Denied, reason));
        }
        // Nothing is switched to another protocol behind our back.
        if answer.status().is_informational() {
            return Err(refuse(entry, Decision::Failed, Reason::BadAnswer));
        }
        entry.row().status = Some(answer.status().as_u16());
        entry.decide(Decision::Allowed, because);
        Ok((answer, Passing { entry, busy, _under_way: under_way }))
    }
}

/// Whether a reason is the policy's, or the world's.
pub(crate) fn outcome(reason: Reason) -> Decision {
    match reason {
        Reason::Unresolved | Reason::Unreachable | Reason::Upstream | Reason::BadAnswer => {
            Decision::Failed
        }
        _ => Decision::Denied,
    }
}

/// What lasts as long as an answer does.
pub(crate) struct Passing {
    pub(crate) entry: Entry,
    busy: Busy,
    _under_way: UnderWay,
}

impl Passing {
    /// The answer has been read to its end.
    pub(crate) fn finish(mut self) {
        let session = Arc::clone(&self.entry.connection().session);
        self.busy.done(&session.pool);
    }
}

/// Takes the head of an answer as it is passed on.
pub(crate) fn head(
    answer: Response<Incoming>,
    passing: &mut Passing,
) -> (http::response::Parts, Incoming) {
    let (mut parts, body) = answer.into_parts();
    let ours: Vec<_> = parts
        .headers
        .keys()
        .filter(|name| name.as_str().starts_with("x-belljar-"))
        .cloned()
        .collect();
    for name in ours {
        parts.headers.remove(name);
    }
    let head: usize =
        parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    passing.entry.row().bytes.into += head as u64;
    (parts, body)
}

pub(crate) fn pass_back(answer: Response<Incoming>, mut passing: Passing) -> Answer {
    let (parts, body) = head(answer, &mut passing);
    let is_over = body.is_end_stream();
    let mut body = Passed { body, passing: Some(passing) };
    if is_over {
        body.finish();
    }
    Response::from_parts(parts, body.boxed_unsync())
}

/// The body of an answer, on its way inside.
struct Passed {
    body: Incoming,
    passing: Option<Passing>,
}

impl Body for Passed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                if let (Some(data), Some(passing)) = (frame.data_ref(), &mut this.passing) {
                    passing.entry.row().bytes.into += data.len() as u64;
                }
                if this.body.is_end_stream() {
                    this.finish();
                }
                Some(Ok(frame))
            }
            Some(Err(error)) => {
                if let Some(passing) = &mut this.passing {
                    passing.entry.decide(Decision::Failed, Reason::Upstream);
                }
                this.passing = None;
                Some(Err(io::Error::other(error)))
            }
            None => {
                this.finish();
                None
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Passed {
    fn finish(&mut self) {
        if let Some(passing) = self.passing.take() {
            passing.finish();
        }
    }
}
