//! What operators see of a replica. Nothing here decides anything.

use axum::body::Body;
use axum::response::Response;
use belljar_api::Operation;
use belljar_listen::host;
use belljar_peer_proto::enrolment::{CLOCK, ENROL, RENEW};
use belljar_peer_proto::member::{REGISTER, SYNC};
use belljar_store::NodeState;
use belljar_telemetry::{Route, metrics};
use http::Request;

use crate::control::Control;
use crate::refuse::Refusal;
use crate::route::To;

/// Answers a request, under the eyes of metrics and traces.
pub(crate) async fn answer(control: &Control, request: Request<Body>) -> Response {
    belljar_telemetry::observe(request, async |mut request| {
        // Before anything is decided by the host.
        let (route, mut response) = match host::settle(&mut request) {
            Ok(()) => {
                let pattern = pattern(&request);
                match crate::route::to(&request) {
                    To::Sandbox(id) => {
                        tracing::Span::current().record("sandbox", id);
                    }
                    _ => belljar_telemetry::name_sandbox(pattern, request.uri().path()),
                }
                let route = Route(pattern.into());
                (route, crate::route::answer(control, request).await)
            }
            Err(error) => {
                let surface = crate::route::surface(request.uri().path());
                (Route("invalid_host".into()), Refusal::invalid_host(error).into_response(surface))
            }
        };
        response.extensions_mut().insert(route);
        response
    })
    .await
}

/// Answers a node, likewise.
pub(crate) async fn answer_node(control: &Control, request: Request<Body>) -> Response {
    belljar_telemetry::observe(request, async |request| {
        let known = [ENROL, RENEW, CLOCK, REGISTER, SYNC];
        let path = known.into_iter().find(|path| *path == request.uri().path());
        let route = Route(path.unwrap_or("other").into());
        let mut response = crate::nodes::answer(control, request).await;
        response.extensions_mut().insert(route);
        response
    })
    .await
}

/// What a path looks like: never the path itself, of which there are as many as
/// clients like.
fn pattern(request: &Request<Body>) -> &'static str {
    let path = request.uri().path();
    match crate::route::to(request) {
        To::Health => "/health",
        To::Ready => "/v1/ready",
        To::Sandbox(_) => "sandbox",
        To::Node(_) => "node",
        To::Link => "/files",
        To::Public => "public",
        To::Console => belljar_console::ROOT,
        To::Keyed | To::Inside(_) => known(path).unwrap_or("other"),
        To::Nobody => "unauthenticated",
    }
}

fn known(path: &str) -> Option<&'static str> {
    let own = Operation::ALL.iter().map(|operation| operation.route().path);
    let all = own.chain(E2B.iter().copied());
    all.filter(|pattern| fits(pattern, path)).min_by_key(|pattern| pattern.matches('{').count())
}

fn fits(pattern: &str, path: &str) -> bool {
    let (mut words, mut names) = (pattern.split('/'), path.split('/'));
    loop {
        match (words.next(), names.next()) {
            (None, None) => return true,
            (Some(word), Some(name)) if word == name || word.starts_with('{') => {}
            _ => return false,
        }
    }
}

/// E2B's routes that need a key; `belljar-e2b` has their handlers.
const E2B: &[&str] = &[
    "/sandboxes",
    "/v2/sandboxes",
    "/sandboxes/metrics",
    "/sandboxes/{id}",
    "/sandboxes/{id}/timeout",
    "/sandboxes/{id}/refreshes",
    "/sandboxes/{id}/pause",
    "/sandboxes/{id}/resume",
    "/sandboxes/{id}/connect",
    "/v2/sandboxes/{id}/connect",
    "/sandboxes/{id}/fork",
    "/sandboxes/{id}/network",
    "/sandboxes/{id}/metrics",
    "/sandboxes/{id}/logs",
    "/v2/sandboxes/{id}/logs",
    "/sandboxes/{id}/snapshots",
    "/snapshots",
    "/v3/templates",
    "/v2/templates",
    "/templates",
    "/templates/tags",
    "/templates/aliases/{name}",
    "/templates/{id}",
    "/templates/{id}/tags",
    "/templates/{id}/files/{hash}",
    "/v2/templates/{id}/builds/{build}",
    "/templates/{id}/builds/{build}/status",
    "/templates/{id}/builds/{build}/logs",
    "/volumes",
    "/volumes/{id}",
    "/secrets",
    "/secrets/{name}",
];

impl Control {
    /// Has metrics tell of what this replica knows.
    pub(crate) fn observe(&self) {
        let control = self.weakly();
        metrics().before_scrape(move |metrics| {
            let Some(control) = control() else { return };
            let (waiting, oldest) = control.turns().waiting();
            metrics.set_queue(waiting, oldest);
            let free = control.roster().free(std::time::Instant::now());
            metrics.set_slots_free(usize::try_from(free).unwrap_or(usize::MAX));
            metrics.set_certificate_left(control.keyring().certificate_left());
            for state in [NodeState::Up, NodeState::Draining, NodeState::Lost] {
                metrics.set_nodes(state.as_str(), control.count_nodes(state));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_the_pattern_that_names_most_of_them() {
        assert_eq!(known("/sandboxes/metrics"), Some("/sandboxes/metrics"));
        assert_eq!(known("/sandboxes/abc"), Some("/sandboxes/{id}"));
        assert_eq!(known("/v1/sandboxes"), Some("/v1/sandboxes"));
        assert_eq!(known("/sandboxes/abc/made-up"), None);
        assert_eq!(known("/v1/sandboxes/"), known("/v1/sandboxes/x"));
    }

    #[test]
    fn a_clients_words_are_in_no_pattern() {
        for path in ["/made-up", "/v1/made-up", "/secrets/hunter2", "/sandboxes/x/y/z"] {
            let request = Request::get(path).header("x-api-key", "k").body(Body::empty()).unwrap();
            let pattern = pattern(&request);
            assert!(!pattern.contains("made-up") && !pattern.contains("hunter2"), "{pattern}");
        }
    }
}
