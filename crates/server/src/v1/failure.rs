//! A problem on its way out. The body is made by [`super::label`], which knows
//! the request's id.

use axum::response::{IntoResponse, Response};
use belljar_api::Envelope;
use belljar_sandboxes::{Kind, Problem};
use http::{HeaderValue, StatusCode, header};

#[derive(Debug, Clone)]
pub(super) struct Failure {
    status: StatusCode,
    problem: Problem,
}

impl Failure {
    /// For what HTTP has a status of its own.
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let kind = if status.is_server_error() { Kind::Internal } else { Kind::Invalid };
        Self { status, problem: Problem::new(kind, code, message) }
    }

    #[must_use]
    pub(super) fn hint(mut self, hint: &str) -> Self {
        self.problem = self.problem.hint(hint);
        self
    }

    pub(super) fn envelope(self, request_id: &str) -> Envelope {
        envelope(self.problem, request_id)
    }
}

/// What the caller is told. What went wrong inside is for the log, which has it
/// under the same id.
pub(super) fn envelope(problem: Problem, request_id: &str) -> Envelope {
    let Problem { kind, code, message, hint } = problem;
    let message = match kind {
        Kind::Internal => {
            "the server failed; its log has the reason under this request id".to_owned()
        }
        _ => message,
    };
    Envelope { code: code.to_owned(), message, hint, request_id: request_id.to_owned() }
}

fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::Invalid | Kind::Unsupported => StatusCode::UNPROCESSABLE_ENTITY,
        Kind::Unauthenticated => StatusCode::UNAUTHORIZED,
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::Conflict => StatusCode::CONFLICT,
        Kind::TooMany => StatusCode::TOO_MANY_REQUESTS,
        Kind::Busy => StatusCode::SERVICE_UNAVAILABLE,
        Kind::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
        Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self { status: status(problem.kind), problem }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        if matches!(self.problem.kind, Kind::TooMany | Kind::Busy) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response.extensions_mut().insert(self);
        response
    }
}
