//! What a request is about. Decided by its headers and its path alone, so that
//! nothing has to be looked up for what names a sandbox.

use axum::body::Body;
use axum::extract::Query;
use axum::response::{IntoResponse as _, Response};
use belljar_domain::target::{RequestHead, RequestTarget, is_link_signature};
use belljar_domain::{NodeNumber, SandboxId};
use belljar_listen::PeerAddress;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::{HeaderName, HeaderValue, Request, StatusCode, Uri, header};
use serde::Deserialize;

use crate::control::Control;
use crate::forward::Unreached;
use crate::keys::{Proof, ShownKey, shown};
use crate::refuse::{REQUEST_ID, Refusal, Surface, request_id, sandbox_gone};

/// Where a request goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum To {
    Health,
    Ready,
    /// Into a sandbox; its own token proves who may.
    Sandbox(String),
    /// The same by our own API.
    Inside(NodeNumber),
    /// To whoever made this token.
    Node(NodeNumber),
    /// A link that names no sandbox.
    Link,
    /// For everybody, the same on every node.
    Public,
    /// Files of the console, which control itself has.
    Console,
    /// With a key.
    Keyed,
    Nobody,
}

pub(crate) async fn answer(control: &Control, request: Request<Body>) -> Response {
    let surface = surface(request.uri().path());
    let to = to(&request);
    let is_ours = surface == Surface::Own && !matches!(to, To::Sandbox(_));
    let mut response = answer_to(control, surface, to, request).await;
    if is_ours && !response.headers().contains_key(REQUEST_ID) {
        let id = HeaderValue::try_from(request_id());
        response.headers_mut().extend(id.ok().map(|id| (REQUEST_ID, id)));
    }
    response
}

async fn answer_to(
    control: &Control,
    surface: Surface,
    to: To,
    request: Request<Body>,
) -> Response {
    match to {
        To::Health => match surface {
            Surface::E2b => StatusCode::NO_CONTENT.into_response(),
            Surface::Own => well(),
        },
        To::Ready => ready(control).await,
        To::Sandbox(id) => into_sandbox(control, &id, request).await,
        To::Inside(node) => match control.forward(node, request).await {
            // Nobody is left who could say what the token was good for.
            Err(Unreached::Gone) => Refusal::unauthenticated().into_response(surface),
            answer => passed(answer, surface),
        },
        To::Node(node) => passed(control.forward(node, request).await, surface),
        To::Link => link(control, request).await,
        To::Public => anywhere(control, request).await,
        To::Console => match control.console() {
            Some(console) => console.answer(&request).map(Body::new),
            None => Refusal::no_route().into_response(Surface::Own),
        },
        To::Keyed => crate::keyed::answer(control, surface, request).await,
        To::Nobody => Refusal::unauthenticated().into_response(surface),
    }
}

/// Returns where a request goes. Nodes read a request by the same [`RequestHead`].
pub(crate) fn to(request: &Request<Body>) -> To {
    let text = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let path = request.uri().path();
    let host = text(header::HOST.as_str());
    let head = RequestHead { method: request.method().as_str(), path, host, header: text };
    let target = head.target();
    if let Some(RequestTarget::Host { id, .. }) = target {
        return To::Sandbox(id.to_owned());
    }
    let named = text("e2b-sandbox-id");
    match path {
        "/health" | "/v1/health" if named.is_none() => return To::Health,
        "/" | "/docs" | "/v1/openapi.json" if named.is_none() => return To::Public,
        "/v1/ready" if named.is_none() => return To::Ready,
        path if belljar_console::is_console(path) && named.is_none() => return To::Console,
        _ => {}
    }
    let ours = path.starts_with("/v1/") && named.is_none();
    if ours && text("x-access-token").is_some() && shown(request.headers()) == ShownKey::None {
        return inside(path).map_or(To::Nobody, To::Inside);
    }
    match target {
        _ if ours => To::Keyed,
        Some(RequestTarget::Keyed) => To::Keyed,
        Some(RequestTarget::Volume(id)) => marked(id.strip_prefix("vol").unwrap_or_default()),
        Some(RequestTarget::Host { id, .. } | RequestTarget::Header { id, .. }) => {
            To::Sandbox(id.to_owned())
        }
        Some(RequestTarget::Token(token) | RequestTarget::Upload(token)) => marked(token),
        Some(RequestTarget::SignedLink) if has_signature(request.uri()) => To::Link,
        Some(RequestTarget::SignedLink) => To::Nobody,
        None => To::Nobody,
    }
}

/// Returns true if a link may be some sandbox's. Every node is asked for such a link, so it
/// must at least have the form of one.
fn has_signature(uri: &Uri) -> bool {
    #[derive(Default, Deserialize)]
    struct Link {
        signature: Option<String>,
    }
    let link = Query::<Link>::try_from_uri(uri).map(|query| query.0).unwrap_or_default();
    link.signature.is_some_and(|signature| is_link_signature(&signature))
}

/// The node of the sandbox that a path of ours names. What the token opens there, the
/// node knows.
fn inside(path: &str) -> Option<NodeNumber> {
    let (id, _) = path.strip_prefix("/v1/sandboxes/")?.split_once('/')?;
    id.parse::<SandboxId>().ok()?.node()
}

/// What a node makes begins with its number.
fn marked(text: &str) -> To {
    mark(text).map_or(To::Nobody, To::Node)
}

pub(crate) fn mark(text: &str) -> Option<NodeNumber> {
    NodeNumber::new(u16::from_str_radix(text.get(..4)?, 16).ok()?)
}

pub(crate) fn surface(path: &str) -> Surface {
    if path == "/v1" || path.starts_with("/v1/") { Surface::Own } else { Surface::E2b }
}

async fn ready(control: &Control) -> Response {
    if control.well_for().is_none() {
        return Refusal::database().into_response(Surface::Own);
    }
    match control.no_node() {
        Some(refusal) => refusal.into_response(Surface::Own),
        None => well(),
    }
}

fn well() -> Response {
    let version = env!("CARGO_PKG_VERSION");
    axum::Json(serde_json::json!({ "status": "ok", "version": version })).into_response()
}

async fn into_sandbox(control: &Control, id: &str, mut request: Request<Body>) -> Response {
    let node = id.parse::<SandboxId>().ok().and_then(|id| id.node());
    let Some(node) = node else { return sandbox_gone(id) };
    let from = request.extensions().get::<PeerAddress>().copied();
    // A key that came along is no business of what is inside.
    for name in [HeaderName::from_static("x-api-key"), header::AUTHORIZATION] {
        let value = request.headers().get(&name).and_then(|value| value.to_str().ok());
        let Some(key) = value.and_then(crate::keys::in_value) else { continue };
        match control.proofs().prove(control.store(), &key, from).await {
            Ok(Proof::Unknown) => {}
            // A header that may be a key is not passed on.
            Ok(_) | Err(_) => drop(request.headers_mut().remove(&name)),
        }
    }
    match control.forward(node, request).await {
        Ok(response) => response,
        Err(Unreached::Gone) => sandbox_gone(id),
        Err(error) => unreached(&error, Surface::E2b),
    }
}

/// Asks every node whether such a link is one of its own.
async fn link(control: &Control, request: Request<Body>) -> Response {
    // All at once: one that does not answer keeps nobody waiting.
    let mut asked: FuturesUnordered<_> = control
        .nodes()
        .into_iter()
        .map(|node| {
            let mut asked = Request::new(Body::empty());
            *asked.method_mut() = request.method().clone();
            *asked.uri_mut() = request.uri().clone();
            async move { control.ask_whose(node, asked).await.then_some(node) }
        })
        .collect();
    while let Some(found) = asked.next().await {
        if let Some(node) = found {
            drop(asked);
            return passed(control.forward(node, request).await, Surface::E2b);
        }
    }
    Refusal::unauthenticated().into_response(Surface::E2b)
}

async fn anywhere(control: &Control, request: Request<Body>) -> Response {
    match control.nodes().first() {
        Some(&node) => passed(control.forward(node, request).await, Surface::Own),
        None => Refusal::busy("no_node", "no node is available").into_response(Surface::Own),
    }
}

pub(crate) fn passed(answer: Result<Response, Unreached>, surface: Surface) -> Response {
    answer.unwrap_or_else(|error| unreached(&error, surface))
}

pub(crate) fn unreached(error: &Unreached, surface: Surface) -> Response {
    let refusal = match error {
        Unreached::Gone | Unreached::Connect(_) => {
            Refusal::busy("node_unreachable", "the node hosting this resource is not responding")
        }
        Unreached::BrokeOff(_) => Refusal::unknown_outcome(),
        Unreached::Database => Refusal::database(),
        Unreached::Form(_) => {
            let message = "this request cannot be proxied";
            Refusal::new(StatusCode::BAD_REQUEST, "unreadable_request", message)
        }
    };
    let mut response = refusal.into_response(surface);
    // Whoever reports it can name it, on E2B's surface too.
    if !response.headers().contains_key(REQUEST_ID) {
        let id = HeaderValue::try_from(request_id());
        response.headers_mut().extend(id.ok().map(|id| (REQUEST_ID, id)));
    }
    // The request's span has its id, its sandbox and its node.
    tracing::warn!(error = error as &dyn std::error::Error, "request not forwarded");
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn went(path: &str, headers: &[(&str, &str)]) -> To {
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        to(&request.body(Body::empty()).unwrap())
    }

    #[test]
    fn what_names_a_sandbox_goes_there_whatever_its_path() {
        let id = "aaefghijklmnopqrstuvwxyz23";
        let host = format!("8080-{id}.example.com");
        for path in ["/", "/v1/sandboxes", "/internal/nodes/sync", "/health"] {
            assert_eq!(went(path, &[("host", &host)]), To::Sandbox(id.into()), "{path}");
        }
        assert_eq!(went("/files", &[("e2b-sandbox-id", id)]), To::Sandbox(id.into()));
        assert_eq!(went("/v1/chat", &[("e2b-sandbox-id", id)]), To::Sandbox(id.into()));
    }

    #[test]
    fn the_console_is_on_the_hosts_of_no_sandbox() {
        let id = "aaefghijklmnopqrstuvwxyz23";
        let host = format!("8080-{id}.example.com");
        for path in ["/console", "/console/", "/console/assets/a.js", "/console/runs?a=b"] {
            assert_eq!(went(path, &[("host", "api.example.com")]), To::Console, "{path}");
            assert_eq!(went(path, &[("x-api-key", "k")]), To::Console, "{path}");
            assert_eq!(went(path, &[("host", &host)]), To::Sandbox(id.into()), "{path}");
            assert_eq!(went(path, &[("e2b-sandbox-id", id)]), To::Sandbox(id.into()), "{path}");
        }
        assert_eq!(went("/consoles", &[]), To::Nobody);
    }

    #[test]
    fn keys_come_before_the_header_of_old_clients() {
        let headers = [("x-api-key", "k"), ("e2b-sandbox-id", "abc")];
        assert_eq!(went("/sandboxes", &headers), To::Keyed);
        assert_eq!(went("/v1/sandboxes", &[]), To::Keyed);
        assert_eq!(went("/sandboxes", &[]), To::Nobody);
    }

    #[test]
    fn tokens_say_who_made_them() {
        let two = NodeNumber::new(2).unwrap();
        assert_eq!(went("/files", &[("x-access-token", "0002abcd")]), To::Node(two));
        assert_eq!(went("/volumecontent/vol0002ab/file", &[]), To::Node(two));
        assert_eq!(went("/template-files/0002ff", &[]), To::Node(two));
        assert_eq!(went("/template-files/zz", &[]), To::Nobody);
        assert_eq!(went("/template-files/0000ff", &[]), To::Nobody);
        let signature = "v1_HEW7fDvq8wDd0bCgcYpP4vKMGjo6waU8ir2ibcmhKGY";
        assert_eq!(went(&format!("/files?path=a&signature={signature}"), &[]), To::Link);
        // It may have been written with escapes.
        let escaped = signature.replace('H', "%48");
        assert_eq!(went(&format!("/files?signature={escaped}"), &[]), To::Link);
    }

    #[test]
    fn no_node_is_asked_for_a_link_without_a_signature() {
        let long = format!("/files?signature=v1_{}", "A".repeat(44));
        for path in ["/files", "/files?path=a", "/files?signature=", "/files?signature=x", &long] {
            assert_eq!(went(path, &[]), To::Nobody, "{path}");
        }
    }

    #[test]
    fn a_sandboxs_token_opens_only_what_is_in_it() {
        let id = SandboxId::on_node(NodeNumber::new(2).unwrap(), [7; 16]);
        let path = format!("/v1/sandboxes/{id}/files/content?path=a");
        let token = ("x-access-token", "0002abcd");
        assert_eq!(went(&path, &[token]), To::Inside(NodeNumber::new(2).unwrap()));
        assert_eq!(went(&path, &[token, ("x-api-key", "k")]), To::Keyed);
        assert_eq!(went(&path, &[token, ("authorization", "Bearer k")]), To::Keyed);
        for path in ["/v1/sandboxes", "/v1/events", "/v1/sandboxes/x/files", "/v1/checkpoints"] {
            assert_eq!(went(path, &[token]), To::Nobody, "{path}");
        }
        assert_eq!(went(&format!("/v1/sandboxes/{id}"), &[token]), To::Nobody);
    }
}
