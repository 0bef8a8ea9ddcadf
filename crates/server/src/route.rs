//! To which surface a request goes.

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use belljar_console::Console;
use belljar_e2b::{E2b, Target};
use belljar_listen::{HostError, host};
use belljar_peer_proto::behalf::{ABSENT, KEYS, WHOSE};
use belljar_sandboxes::{Actions, PageKeys};
use belljar_telemetry::Route;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, StatusCode};
use tower::ServiceExt as _;

use crate::behind::Cluster;
use crate::v1::Offers;

/// All surfaces; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Surfaces {
    actions: Actions,
    e2b: E2b,
    own: Router,
    /// Answers what is refused for its host, below our own paths.
    refusing: Router,
    console: Option<Console>,
    /// Whose word counts, if not that of keys.
    cluster: Option<Cluster>,
}

impl Surfaces {
    pub(crate) fn new(actions: &Actions, offers: Offers, cluster: Option<Cluster>) -> Self {
        let console = offers.console;
        let own = crate::v1::router(actions.clone(), offers);
        let e2b = E2b::new(actions.clone());
        let refusing = crate::v1::refusing_hosts();
        Self { actions: actions.clone(), e2b, own, refusing, console, cluster }
    }

    /// As a type that is not made of all that an answer may wait for.
    pub(crate) fn answer_later(self, request: Request<Body>) -> BoxFuture<'static, Response> {
        Box::pin(async move { self.answer(request).await })
    }

    async fn answer(&self, request: Request<Body>) -> Response {
        let mut response = self.answer_anybody(request).await;
        let keys = response.extensions_mut().remove::<PageKeys>();
        let keys = keys.filter(|_| self.cluster.is_some()).map(|keys| keys.0.join(","));
        if let Some(keys) = keys.and_then(|keys| HeaderValue::try_from(keys).ok()) {
            response.headers_mut().insert(KEYS, keys);
        }
        response
    }

    async fn answer_anybody(&self, mut request: Request<Body>) -> Response {
        if let Err(error) = host::settle(&mut request) {
            return self.refuse_host(error, request).await;
        }
        if let Some(cluster) = &self.cluster {
            if !cluster.is_serving() {
                // Whoever asks tries elsewhere, or again.
                return (StatusCode::SERVICE_UNAVAILABLE, [(ABSENT, "1")]).into_response();
            }
            request = match cluster.receive(self.actions.keys(), request).await {
                Ok(request) => request,
                Err(error) => {
                    belljar_telemetry::metrics().rejected_node_request(error.code());
                    tracing::warn!(%error, "rejected signed request");
                    return belljar_e2b::unauthenticated();
                }
            };
            if request.headers().contains_key(WHOSE) {
                return self.whose(&request);
            }
        }
        if is_ours(&request) {
            let is_page = belljar_console::is_console(request.uri().path());
            if let Some(console) = self.console.filter(|_| is_page) {
                let mut response = console.answer(&request).map(Body::new);
                response.extensions_mut().insert(Route(belljar_console::ROOT.into()));
                return response;
            }
            let answered = self.own.clone().oneshot(request).await;
            return answered.unwrap_or_else(IntoResponse::into_response);
        }
        match self.e2b.target(&request) {
            Some(target) => self.e2b.serve(target, request).await,
            None => belljar_e2b::unauthenticated(),
        }
    }
}

impl Surfaces {
    /// A request with two hosts is answered by nobody whom either of them names.
    async fn refuse_host(&self, error: HostError, mut request: Request<Body>) -> Response {
        tracing::debug!(%error, "request refused: invalid host");
        if !is_own_path(request.uri().path()) {
            return belljar_e2b::invalid_host(error.to_string());
        }
        request.extensions_mut().insert(error);
        let answered = self.refusing.clone().oneshot(request).await;
        answered.unwrap_or_else(IntoResponse::into_response)
    }

    /// Whether what a link was signed with is the token of a sandbox here.
    fn whose(&self, request: &Request<Body>) -> Response {
        match self.e2b.target(request) {
            Some(Target::Port { .. }) => StatusCode::NO_CONTENT.into_response(),
            _ => StatusCode::NOT_FOUND.into_response(),
        }
    }
}

/// Returns true for a request to our own API or the console. A server inside a sandbox may have such
/// paths too, so that a request which names a sandbox is never ours: its pages must not
/// have the console's origin.
fn is_ours(request: &Request<Body>) -> bool {
    is_own_path(request.uri().path()) && !belljar_e2b::names_a_sandbox(request)
}

fn is_own_path(path: &str) -> bool {
    path == "/" || ["/v1", "/docs", belljar_console::ROOT].iter().any(|own| is_below(path, own))
}

fn is_below(path: &str, own: &str) -> bool {
    path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use belljar_domain::OperationCaps;
    use belljar_sandboxes::OnBehalf;

    use super::*;

    #[test]
    fn a_request_that_names_a_sandbox_is_never_ours() {
        let ours = |path: &str, headers: &[(&str, &str)]| {
            let mut request = Request::builder().uri(path);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            is_ours(&request.body(Body::empty()).unwrap())
        };
        assert!(ours("/v1/sandboxes", &[("host", "localhost:3000"), ("x-api-key", "k")]));
        assert!(ours("/docs", &[]));
        assert!(!ours("/v1x", &[]));
        assert!(!ours("/v1/chat", &[("e2b-sandbox-id", "abc"), ("e2b-sandbox-port", "80")]));
        assert!(!ours("/v1/chat", &[("host", "80-abc.example.com")]));
        assert!(!ours("/sandboxes", &[]));
    }

    #[test]
    fn a_request_that_names_a_sandbox_is_never_for_the_console() {
        let ours = |path: &str, headers: &[(&str, &str)]| {
            let mut request = Request::builder().uri(path);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            is_ours(&request.body(Body::empty()).unwrap())
        };
        for path in ["/console", "/console/", "/console/assets/a.js", "/console/runs?a=b"] {
            assert!(ours(path, &[("host", "localhost:3000")]), "{path}");
            assert!(!ours(path, &[("host", "80-abc.example.com")]), "{path}");
            assert!(!ours(path, &[("e2b-sandbox-id", "abc")]), "{path}");
        }
        assert!(!ours("/consoles", &[]));
    }

    #[test]
    fn what_control_signed_goes_by_its_path_alone() {
        let ours = |path: &str| {
            let request = Request::builder().uri(path).header("host", "80-abc.example.com");
            let mut request = request.header("e2b-sandbox-id", "abc").body(Body::empty()).unwrap();
            let tenant = belljar_sandboxes::Tenant::new("one");
            request.extensions_mut().insert(OnBehalf {
                tenant,
                ids: Vec::new(),
                caps: OperationCaps::default(),
            });
            is_ours(&request)
        };
        assert!(ours("/v1/sandboxes/abc"));
        assert!(!ours("/sandboxes/abc"));
    }
}
