//! Which part of the surface a request is for.
//!
//! One port may serve everything, so the order matters; it is that of
//! `docs/e2b-compatibility.md`. A host that names a sandbox comes first: servers
//! inside have headers of their own. The API key comes before the sandbox's
//! header, because old SDKs leave that on calls to the control plane.

use std::sync::Arc;

use axum::body::Body;
use belljar_actions::{Actions, OnBehalf, Sandbox};
use http::{Method, Request, header};

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
    let text = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let path = request.uri().path();
    let at = |id: &str, port: u16| match actions.registry().by_id(id) {
        Some(sandbox) => Target::Port { sandbox, port },
        None => Target::Gone { id: id.to_owned() },
    };
    if let Some((port, id)) = host(request).and_then(host_pattern) {
        return Some(at(id, port));
    }
    if text("x-api-key").is_some() || request.extensions().get::<OnBehalf>().is_some() {
        return Some(Target::Control);
    }
    if path.starts_with("/volumecontent/") {
        return Some(Target::Volumes);
    }
    if let Some(id) = text("e2b-sandbox-id") {
        let port = text("e2b-sandbox-port").and_then(|port| port.parse().ok());
        return Some(at(id, port.unwrap_or(ENVD_PORT)));
    }
    let envd = |sandbox| Target::Port { sandbox, port: ENVD_PORT };
    if let Some(token) = text("x-access-token") {
        return actions.registry().by_token(token).map(envd);
    }
    if path == "/files" && [Method::GET, Method::POST].contains(request.method()) {
        return signature::find(actions, request).map(envd);
    }
    // What the server issued itself, to be used without a key.
    path.starts_with("/template-files/").then_some(Target::Control)
}

/// Whether a request says by its host or its headers which sandbox it is for.
pub fn names_a_sandbox(request: &Request<Body>) -> bool {
    let header = request.headers().contains_key("e2b-sandbox-id");
    header || host(request).and_then(host_pattern).is_some()
}

fn host(request: &Request<Body>) -> Option<&str> {
    let header = || request.headers().get(header::HOST)?.to_str().ok();
    request.uri().host().or_else(header)
}

/// The port and the sandbox of a host like `8080-<id>.example.com`.
fn host_pattern(host: &str) -> Option<(u16, &str)> {
    let (first, _) = host.split_once('.')?;
    let (port, id) = first.split_once('-')?;
    let fits = id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) && !id.is_empty();
    if fits { Some((port.parse().ok()?, id)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_name_a_port_and_a_sandbox() {
        assert_eq!(host_pattern("8080-abc2.example.com"), Some((8080, "abc2")));
        assert_eq!(host_pattern("8080-abc2.localhost:3000"), Some((8080, "abc2")));
        for other in ["example.com", "api.example.com", "x-abc.example.com", "1-A.b", "99999-a.b"] {
            assert_eq!(host_pattern(other), None, "{other}");
        }
    }
}
