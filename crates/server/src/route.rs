//! To which surface a request goes.

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use belljar_actions::Actions;
use belljar_e2b::E2b;
use http::Request;
use tower::ServiceExt as _;

/// All surfaces; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Surfaces {
    e2b: E2b,
    own: Router,
}

impl Surfaces {
    pub(crate) fn new(actions: &Actions) -> Self {
        Self { e2b: E2b::new(actions.clone()), own: crate::v1::router(actions.clone()) }
    }

    pub(crate) async fn answer(&self, request: Request<Body>) -> Response {
        if is_ours(&request) {
            let answered = self.own.clone().oneshot(request).await;
            return answered.unwrap_or_else(IntoResponse::into_response);
        }
        match self.e2b.target(&request) {
            Some(target) => self.e2b.serve(target, request).await,
            None => belljar_e2b::unauthenticated(),
        }
    }
}

/// Whether it is for our own API. A server inside a sandbox may have such paths
/// too, so that a request which names a sandbox is never ours.
fn is_ours(request: &Request<Body>) -> bool {
    let path = request.uri().path();
    let own = path == "/" || ["/v1", "/docs"].iter().any(|own| is_below(path, own));
    own && !belljar_e2b::names_a_sandbox(request)
}

fn is_below(path: &str, own: &str) -> bool {
    path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
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
}
