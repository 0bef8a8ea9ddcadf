//! Operations that are no model: an upstream, some of its methods and paths.

use std::sync::Arc;
use std::time::Duration;

use ::http::{Method, header};
use http_body_util::BodyExt as _;

use super::connect::{AskError, Peer};
use super::headers;
use super::metering::{End, Metering};
use super::operation::{Does, Http, Operation};
use super::read::{self, Held, ReadError};
use super::refuse::Refusal;
use super::serve::Asked;
use super::stream::{Parts, Stream};
use crate::body::{Answer, FromUpstream, Inner};
use crate::budget::{Amount, Refused, Reservation};

/// Returns an error for a method or a path that the operator does not allow.
pub(super) fn check(http: &Http, method: &Method, rest: &str) -> Result<(), Refusal> {
    if !http.allows_method(method) {
        return Err(Refusal::Method);
    }
    if !http.allows_path(rest) {
        return Err(Refusal::Path);
    }
    Ok(())
}

pub(super) async fn ask(
    asked: &mut Asked,
    rest: String,
    request: ::http::Request<Inner>,
) -> Result<Answer, Refusal> {
    let Does::Http(http) = &asked.operation.does else { return Err(Refusal::NotFound) };
    check(http, request.method(), &rest)?;
    let (head, body) = request.into_parts();
    let held = body_of(asked, body).await?;
    let most = Amount { requests: 1, ..Amount::default() };
    let reservation = reserve(asked, most).await?;
    let uri = asked.operation.upstream.uri(&rest, head.uri.query());
    let mut upstream = ::http::Request::new(Inner::from(held.bytes.clone()));
    *upstream.method_mut() = head.method;
    *upstream.uri_mut() = uri.map_err(|_| Refusal::Path)?;
    let tenant = &asked.session.subject.tenant;
    *upstream.headers_mut() = headers::to_upstream(&asked.operation, &head.headers, tenant);
    forward(asked, upstream, held, reservation, None).await
}

pub(super) async fn body_of(asked: &Asked, body: Inner) -> Result<Held, Refusal> {
    body_up_to(asked, body, asked.operation.max_body).await
}

/// Reads a body that has `most` bytes at most.
pub(super) async fn body_up_to(asked: &Asked, body: Inner, most: u64) -> Result<Held, Refusal> {
    let operation = &asked.operation;
    let within = Duration::from_secs(operation.timeouts.body_seconds);
    let room = &asked.session.room;
    let most = most.min(room.share_bytes());
    read::read(body, most, within, room).await.map_err(|error| match error {
        ReadError::TooLarge => Refusal::TooLarge(most),
        ReadError::Slow => Refusal::Slow,
        ReadError::NoRoom => Refusal::NoRoom,
        ReadError::Gone => Refusal::Gone,
    })
}

pub(super) async fn reserve(asked: &Asked, most: Amount) -> Result<Reservation, Refusal> {
    // It may have died while the body came.
    if !asked.token.is_alive() {
        return Err(Refusal::Token);
    }
    let desk = &asked.session.shared.desk;
    let tenant = &asked.session.subject.tenant;
    let reserved = desk.reserve(&asked.operation, &asked.token, tenant, most).await;
    let reservation = reserved.map_err(|refused| match refused {
        Refused::Exhausted(exhausted) => Refusal::Budget(exhausted),
        Refused::NoLease => Refusal::NoLease,
    })?;
    // It may have died while a slice was leased.
    if asked.token.is_alive() { Ok(reservation) } else { Err(Refusal::Token) }
}

/// Sends the request, and turns the upstream's answer into ours.
pub(super) async fn forward(
    asked: &mut Asked,
    request: ::http::Request<Inner>,
    held: Held,
    mut reservation: Reservation,
    mut metering: Option<Metering>,
) -> Result<Answer, Refusal> {
    let operation = Arc::clone(&asked.operation);
    if let Some(entry) = &mut asked.entry {
        entry.row().bytes.out = held.bytes.len() as u64;
        if let Some(metering) = &metering {
            let logged = entry.begin_charge(metering.estimated()).await;
            logged.map_err(|error| {
                let error = &error as &dyn std::error::Error;
                tracing::error!(operation = %operation.name, error, "request not logged; refused");
                Refusal::NoChargeLog
            })?;
        }
        // Whoever leaves now, or whatever breaks, has paid this much.
        entry.row().charge = metering.as_ref().map(Metering::assumed);
    }
    let within = Duration::from_secs(operation.timeouts.answer_seconds);
    reservation.dispatch();
    let answered = tokio::select! {
        answered = operation.pool.ask(request, within) => answered,
        _ = Arc::clone(&asked.token).death() => return Err(Refusal::Token),
    };
    let answer = match answered {
        Ok(answer) => answer,
        // Nothing was sent, so nothing was spent.
        Err(AskError::Connect(error)) => {
            tracing::warn!(operation = %operation.name, %error, "upstream unreachable");
            reservation.settle(Amount::default());
            if let Some(entry) = &mut asked.entry {
                entry.row().charge = None;
            }
            return Err(Refusal::Unreachable);
        }
        Err(AskError::Answer(error)) => {
            tracing::warn!(operation = %operation.name, %error, "upstream did not respond");
            return Err(Refusal::Upstream);
        }
        Err(AskError::Timeout) => return Err(Refusal::UpstreamTimeout),
    };
    let (mut head, body) = answer.into_parts();
    if let Some(entry) = &mut asked.entry {
        entry.first_byte();
        entry.row().address = head.extensions.get::<Peer>().map(|peer| peer.0.ip());
    }
    let wrong = look_at(&operation, &head);
    headers::from_upstream(&mut head.headers);
    if let Some(metering) = &mut metering {
        metering.answered(head.status, &head.headers, operation.secret.is_some());
    }
    let token = Arc::clone(&asked.token);
    let allowed = asked.allowed;
    let parts =
        Parts { upstream: body, operation, token, metering, reservation, request: held, allowed };
    let mut stream = Stream::new(parts);
    let wrong = match wrong {
        None => stream.fetch_if_short().await.err().map(|end| because(asked, end)),
        wrong => wrong,
    };
    if let Some(refusal) = wrong {
        let charge = stream.give_up();
        if let Some(entry) = &mut asked.entry {
            entry.row().charge = charge;
        }
        return Err(refusal);
    }
    if let Some(mut entry) = asked.entry.take() {
        entry.row().status = Some(head.status.as_u16());
        stream.log_with(entry);
    }
    let mut answer = Answer::new(stream.boxed_unsync());
    *answer.status_mut() = head.status;
    *answer.headers_mut() = head.headers;
    answer.extensions_mut().insert(FromUpstream);
    // Told by the body itself: it is not always passed on as it came.
    answer.headers_mut().remove(header::CONTENT_LENGTH);
    Ok(answer)
}

fn because(asked: &Asked, end: End) -> Refusal {
    match end {
        End::Echoed => {
            tracing::error!(
                operation = %asked.operation.name,
                sandbox.id = %asked.session.subject.sandbox,
                "credential in upstream response"
            );
            Refusal::BadAnswer
        }
        End::Token(_) => Refusal::Token,
        End::TooLong => Refusal::BadAnswer,
        End::Complete | End::Gone | End::Upstream | End::Idle => Refusal::Upstream,
    }
}

/// What is wrong with the head of an answer, if it must not be passed on.
fn look_at(operation: &Operation, head: &::http::response::Parts) -> Option<Refusal> {
    if let Some(secret) = &operation.secret {
        let needle = secret.needle();
        let is_in_head = head.headers.iter().any(|(name, value)| {
            needle.is_in(value.as_bytes()) || needle.is_in(name.as_str().as_bytes())
        });
        if is_in_head {
            tracing::error!(operation = %operation.name, "credential in upstream response");
            return Some(Refusal::BadAnswer);
        }
    }
    let is_encoded = head.headers.get(header::CONTENT_ENCODING).is_some_and(|v| v != "identity");
    match head.status.as_u16() {
        _ if is_encoded => Some(Refusal::BadAnswer),
        304 => None,
        // To be told where to go is not to be sent there with a credential.
        300..=399 => Some(Refusal::Redirect),
        100..=199 => Some(Refusal::BadAnswer),
        401 | 403 if operation.secret.is_some() => {
            let status = head.status.as_u16();
            tracing::error!(operation = %operation.name, status, "upstream refused the credential");
            Some(Refusal::Credential)
        }
        _ => None,
    }
}
