//! Which part of the surface a request is for.
//!
//! [`RequestHead`] has the order. A request that control signed is always for the API: control
//! decided where it goes, and it did not decide by the host that this node sees.

use std::sync::Arc;

use axum::body::Body;
use belljar_domain::target::{RequestHead, RequestTarget, sandbox_of_host};
use belljar_sandboxes::{Actions, OnBehalf, Sandbox};
use http::{Request, header};

use crate::envd::signature;

/// The agent inside a sandbox; ours is outside.
pub const ENVD_PORT: u16 = 49983;
/// The code interpreter.
pub const INTERPRETER_PORT: u16 = 49999;

#[derive(Debug)]
pub enum Target {
    Control,
    /// Content of volumes.
    Volumes,
    Port {
        sandbox: Arc<Sandbox>,
        port: u16,
    },
    /// A sandbox that is not there.
    Gone {
        id: String,
    },
}

pub(crate) fn classify(actions: &Actions, request: &Request<Body>) -> Option<Target> {
    if is_signed(request) {
        return Some(Target::Control);
    }
    let head = RequestHead {
        method: request.method().as_str(),
        path: request.uri().path(),
        host: host(request),
        header: |name: &str| request.headers().get(name)?.to_str().ok(),
    };
    let at = |id: &str, port: u16| match actions.registry().by_id(id) {
        Some(sandbox) => Target::Port { sandbox, port },
        None => Target::Gone { id: id.to_owned() },
    };
    let envd = |sandbox| Target::Port { sandbox, port: ENVD_PORT };
    match head.target()? {
        RequestTarget::Host { id, port } => Some(at(id, port)),
        // The server issued the address of an upload itself, to be used without a key.
        RequestTarget::Keyed | RequestTarget::Upload(_) => Some(Target::Control),
        RequestTarget::Volume(_) => Some(Target::Volumes),
        RequestTarget::Header { id, port } => Some(at(id, port.unwrap_or(ENVD_PORT))),
        RequestTarget::Token(token) => actions.registry().by_token(token).map(envd),
        RequestTarget::SignedLink => signature::find(actions, request).map(envd),
    }
}

/// Returns true if a request names by its host or its headers the sandbox that it is for.
pub fn names_a_sandbox(request: &Request<Body>) -> bool {
    if is_signed(request) {
        return false;
    }
    let header = request.headers().contains_key("e2b-sandbox-id");
    header || host(request).and_then(sandbox_of_host).is_some()
}

/// Returns true if control signed the request, in the name of a tenant.
fn is_signed(request: &Request<Body>) -> bool {
    request.extensions().get::<OnBehalf>().is_some()
}

/// Listeners leave a request with one host, in this field.
fn host(request: &Request<Body>) -> Option<&str> {
    request.headers().get(header::HOST)?.to_str().ok()
}
