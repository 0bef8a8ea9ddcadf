//! What control itself refuses, in the words of the surface that was asked.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use belljar_api::Envelope;
use belljar_listen::HostError;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::json;

use crate::keys::Proof;

/// Where an answer of our own API says which request it is to.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Whose words are expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surface {
    E2b,
    Own,
}

/// An error in E2B's words, to the letter as a node says it: nobody can tell who
/// refused.
#[derive(Serialize)]
struct Rest {
    code: u16,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'static str>,
}

/// Why something is not done.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: Option<&'static str>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    pub(crate) fn unauthenticated() -> Self {
        let message = "the request has no valid API key";
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", message)
            .hint("send a key as X-API-Key or as Authorization: Bearer")
    }

    pub(crate) fn no_route() -> Self {
        Self::new(StatusCode::NOT_FOUND, "route_not_found", "there is no such path")
            .hint("GET /v1/openapi.json lists all routes")
    }

    pub(crate) fn invalid_host(error: HostError) -> Self {
        tracing::debug!(%error, "request refused: invalid host");
        Self::new(StatusCode::BAD_REQUEST, "invalid_host", error.to_string())
            .hint("send one Host header, equal to the host in the request target if there is one")
    }

    pub(crate) fn forbidden(scope: &str) -> Self {
        let message = format!("this key lacks the scope `{scope}`");
        Self::new(StatusCode::FORBIDDEN, "scope_missing", message)
            .hint("use a key with that scope: `belljar admin key add`")
    }

    /// The same words for what is not there and for what is not the caller's.
    pub(crate) fn unknown_sandbox(id: &str) -> Self {
        let message = format!("sandbox \"{id}\" doesn't exist or you don't have access to it");
        Self::new(StatusCode::NOT_FOUND, "sandbox_not_found", message)
    }

    pub(crate) fn busy(code: &'static str, message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
            .hint("the request was not executed; retry in a moment")
    }

    /// No node takes new sandboxes; `states` are those that nodes are in.
    pub(crate) fn no_node(states: &[&str]) -> Self {
        let message = match states {
            [] => "no node is connected".to_owned(),
            states => format!("no node takes new sandboxes: all are {}", states.join(" or ")),
        };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "no_node", message)
            .hint("`belljar admin node list` shows every node and its state")
    }

    pub(crate) fn key_not_looked_up(proof: &Proof) -> Self {
        if *proof == Proof::Busy {
            let message = "too many keys are being checked";
            return Self::busy("too_many_lookups", message);
        }
        let message = "too many wrong keys from this address; this key was not checked";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_wrong_keys", message)
            .hint("use the right key; retry in a few seconds")
    }

    pub(crate) fn invalid_text() -> Self {
        let message = "a text in the request has a character that cannot be stored";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_text", message)
            .hint("leave out U+0000")
    }

    pub(crate) fn database() -> Self {
        Self::busy("database_away", "the platform's database does not respond")
    }

    /// Nobody knows whether it was done.
    pub(crate) fn unknown_outcome() -> Self {
        let message = "connection to the node was lost; the request may or may not have completed";
        Self::new(StatusCode::BAD_GATEWAY, "outcome_unknown", message)
            .hint("check before you retry, or use an Idempotency-Key")
    }

    pub(crate) fn into_response(self, surface: Surface) -> Response {
        let Self { status, code, message, hint } = self;
        let mut response = match surface {
            Surface::E2b => {
                let message =
                    hint.map_or_else(|| message.clone(), |hint| format!("{message} ({hint})"));
                let error_code = Some(code).filter(|code| code.contains('_'));
                let body = Rest { code: status.as_u16(), message, error_code };
                (status, Json(body)).into_response()
            }
            Surface::Own => {
                let hint = hint.map(str::to_owned);
                let request_id = request_id();
                let id = HeaderValue::try_from(request_id.as_str());
                let body = Envelope { code: code.to_owned(), message, hint, request_id };
                let mut response = (status, Json(body)).into_response();
                response.headers_mut().extend(id.ok().map(|id| (REQUEST_ID, id)));
                response
            }
        };
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// The name of a request that no node has given one.
pub(crate) fn request_id() -> String {
    static RUN: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let id = format!("req_{:08x}{number:08x}", *RUN >> 32);
    tracing::Span::current().record("request_id", id.as_str());
    id
}

/// The words that E2B's SDKs look for when a sandbox is no more.
pub(crate) fn sandbox_gone(id: &str) -> Response {
    let body = json!({ "sandboxId": id, "message": "The sandbox was not found", "code": 502 });
    (StatusCode::BAD_GATEWAY, Json(body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;

    #[test]
    fn a_platform_without_nodes_says_what_became_of_them() {
        assert_eq!(Refusal::no_node(&[]).message, "no node is connected");
        let all = Refusal::no_node(&["draining", "lost"]).message;
        assert_eq!(all, "no node takes new sandboxes: all are draining or lost");
    }

    #[tokio::test]
    async fn an_envelope_and_its_header_name_the_same_request() {
        let response = Refusal::database().into_response(Surface::Own);
        let header = response.headers()[REQUEST_ID].to_str().unwrap().to_owned();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let envelope: Envelope = serde_json::from_slice(&body).unwrap();
        assert_eq!(envelope.request_id, header);
        assert_ne!(header, request_id());
    }
}
