//! Problems, in each of the forms that E2B's clients read.

use axum::Json;
use axum::response::{IntoResponse, Response};
use belljar_sandboxes::{Kind, Problem};
use http::StatusCode;
use serde::Serialize;
use serde_json::json;

/// An error of the control plane: `{"code": <status>, "message": …}`.
#[derive(Debug)]
pub(crate) struct RestError(pub(crate) Problem);

impl From<Problem> for RestError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

pub(crate) fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::Invalid | Kind::Unsupported => StatusCode::BAD_REQUEST,
        Kind::Unauthenticated => StatusCode::UNAUTHORIZED,
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::Conflict => StatusCode::CONFLICT,
        Kind::TooMany => StatusCode::TOO_MANY_REQUESTS,
        Kind::Busy => StatusCode::SERVICE_UNAVAILABLE,
        Kind::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
        Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The message with what to do next: E2B's envelope has no field for it.
pub(crate) fn sentence(problem: &Problem) -> String {
    match &problem.hint {
        Some(hint) => format!("{} ({hint})", problem.message),
        None => problem.message.clone(),
    }
}

/// How an error looks: clients demand the number, and that it is the status.
#[derive(Debug, Serialize)]
pub(crate) struct Envelope {
    code: u16,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'static str>,
}

impl Envelope {
    pub(crate) fn new(problem: &Problem) -> Self {
        Self {
            code: status(problem.kind).as_u16(),
            message: sentence(problem),
            error_code: Some(problem.code).filter(|code| code.contains('_')),
        }
    }
}

impl IntoResponse for RestError {
    fn into_response(self) -> Response {
        let body = Json(Envelope::new(&self.0));
        let mut response = (status(self.0.kind), body).into_response();
        // Some SDKs repeat a request for these; what they asked for may be there.
        if matches!(self.0.kind, Kind::TooMany | Kind::Busy) {
            response.headers_mut().insert("retry-after", http::HeaderValue::from_static("1"));
        }
        response
    }
}

/// The answer to whoever shows nothing that we know.
pub fn unauthenticated() -> Response {
    let problem = Problem::new(Kind::Unauthenticated, "unauthenticated", "no credential");
    RestError(problem.hint("send a key of this server as X-API-Key")).into_response()
}

/// The answer to a request whose host is refused.
pub fn invalid_host(message: String) -> Response {
    RestError(Problem::new(Kind::Invalid, "invalid_host", message)).into_response()
}

/// The words that both SDKs look for when a sandbox is no more.
pub(crate) fn sandbox_gone(id: &str) -> Response {
    let body = json!({ "sandboxId": id, "message": "The sandbox was not found", "code": 502 });
    (StatusCode::BAD_GATEWAY, Json(body)).into_response()
}

/// The words for a port that nothing listens on.
pub(crate) fn port_closed(id: &str, port: u16) -> Response {
    let message = "The sandbox is running but port is not open";
    let body = json!({ "sandboxId": id, "message": message, "port": port, "code": 502 });
    (StatusCode::BAD_GATEWAY, Json(body)).into_response()
}
