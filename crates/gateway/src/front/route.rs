//! What a request is for, and who answers it.

use std::sync::Arc;

use belljar_domain::network::{Host, Reason};
use belljar_egress::Destination;
use belljar_egress::http1::{Head, Target};
use belljar_peer_proto::gateway::{OWN_NAME, PORT};
use futures_util::future::BoxFuture;
use http::header::{CONTENT_LENGTH, EXPECT, HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::BodyExt as _;

use super::Pinned;
use crate::answer::Refusal;
use crate::body::{Answer, Inner};
use crate::connection::Connection;
use crate::tape;
use crate::upstream::Place;
use crate::wire::{Lent, Reader, Tally, Wire};

#[derive(Debug)]
pub(super) enum Route {
    Tunnel(Destination),
    Forward(Place),
    /// For the gateway itself.
    Operation,
}

/// Whether this is where the gateway listens, seen from inside.
pub(super) fn is_gateway(destination: &Destination) -> bool {
    match &destination.host {
        Host::Name(name) => name.as_str() == OWN_NAME,
        Host::Address(address) => address.is_loopback() && destination.port == PORT,
    }
}

/// What clients may call the gateway when they speak to it directly. A name that
/// somebody else's resolver could be made to lead here is none of them.
fn is_own_host(head: &Head) -> bool {
    match head.host() {
        Some((Host::Name(name), _)) => [OWN_NAME, "localhost"].contains(&name.as_str()),
        Some((Host::Address(address), _)) => address.is_loopback(),
        None => true,
    }
}

impl Route {
    pub(super) fn of(head: &Head, pinned: Option<&Pinned>) -> Result<Self, Reason> {
        // Protocols are not changed in mid-connection: what follows could not be
        // judged. HTTP/2 without TLS is only ever an offer.
        let asks_upgrade = |value: &[u8]| !value.eq_ignore_ascii_case(b"h2c");
        if head.fields().all("upgrade").any(asks_upgrade) {
            return Err(Reason::Malformed);
        }
        match (head.target(), pinned) {
            (Target::Authority(_), Some(_)) => Err(Reason::Malformed),
            (Target::Authority(to), None) if is_gateway(to) => Err(Reason::Private),
            (Target::Authority(to), None) => Ok(Self::Tunnel(to.clone())),
            (_, Some(Pinned { destination, secure })) => {
                let usual = if *secure { 443 } else { 80 };
                if !head.is_for(destination, usual) {
                    return Err(Reason::NameMismatch);
                }
                Ok(Self::Forward(Place { destination: destination.clone(), secure: *secure }))
            }
            (Target::Absolute { destination, .. }, None) if is_gateway(destination) => {
                Ok(Self::Operation)
            }
            (Target::Absolute { destination, .. }, None) => {
                Ok(Self::Forward(Place { destination: destination.clone(), secure: false }))
            }
            (Target::Origin(_), None) if is_own_host(head) => Ok(Self::Operation),
            (Target::Origin(_), None) => Err(Reason::Foreign),
        }
    }

    /// Whether there is a point in having the client send its body.
    pub(super) fn may_send_body(&self, connection: &Connection, head: &Head) -> bool {
        let Self::Forward(place) = self else { return true };
        let state = connection.session.state();
        let target = head.target().path_and_query().unwrap_or("/");
        tape::is_playing(&state.policy) || state.may_leave(place, head.method(), target).is_ok()
    }

    /// Starts to answer; the reader comes back when the body has been read.
    pub(super) fn answer(
        self,
        head: Head,
        reader: Reader,
        connection: &Arc<Connection>,
    ) -> (BoxFuture<'static, Answer>, Lent) {
        let tally = Arc::new(Tally::default());
        let (body, lent) = Wire::new(reader, head.framing(), connection, &tally);
        let body = match self {
            Self::Operation => body.map(Wire::in_one_piece),
            Self::Forward(_) | Self::Tunnel(_) => body,
        };
        let body = body.map_or(Inner::Empty, |body| Inner::Streamed(body.boxed_unsync()));
        let Some(mut request) = request(&head, body, &tally) else {
            let answer = Refusal::new(Reason::Malformed, None).answer();
            return (Box::pin(async { answer }), lent);
        };
        let connection = Arc::clone(connection);
        let answering: BoxFuture<'static, Answer> = match self {
            Self::Forward(place) => {
                Box::pin(async move { tape::serve(&connection, place, request, &tally).await })
            }
            Self::Operation | Self::Tunnel(_) => Box::pin(async move {
                request.extensions_mut().insert(Arc::clone(&connection));
                request.extensions_mut().insert(tally);
                tape::operate(&connection, request).await
            }),
        };
        (answering, lent)
    }
}

/// The request as typed values, without what was said about this connection or
/// about who asks. Lengths are written anew from the body.
fn request(head: &Head, body: Inner, tally: &Tally) -> Option<Request<Inner>> {
    let target = head.target().path_and_query()?;
    let mut request = Request::new(body);
    *request.method_mut() = Method::from_bytes(head.method().as_bytes()).ok()?;
    *request.uri_mut() = Uri::try_from(target).ok()?;
    let mut size = head.method().len() + target.len() + 12;
    request.headers_mut().reserve(head.fields().len());
    for (name, value) in head.fields().forwarded() {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        size += name.as_str().len() + value.len() + 4;
        if name == EXPECT || name == CONTENT_LENGTH {
            continue;
        }
        request.headers_mut().append(name, HeaderValue::from_bytes(value).ok()?);
    }
    tally.count_out(size);
    Some(request)
}
