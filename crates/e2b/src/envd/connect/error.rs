//! Errors of the protocol.

use belljar_sandboxes::{Kind, Problem};
use http::StatusCode;
use serde_json::{Value, json};

use crate::error::sentence;

/// Codes that E2B's clients turn into exceptions of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    InvalidArgument,
    Unauthenticated,
    NotFound,
    AlreadyExists,
    FailedPrecondition,
    ResourceExhausted,
    Unimplemented,
    DeadlineExceeded,
    Unavailable,
    Internal,
}

impl Code {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::Unauthenticated => "unauthenticated",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::FailedPrecondition => "failed_precondition",
            Self::ResourceExhausted => "resource_exhausted",
            Self::Unimplemented => "unimplemented",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::InvalidArgument | Self::FailedPrecondition => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AlreadyExists => StatusCode::CONFLICT,
            Self::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Self::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Self::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Error {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// What both SDKs take for a sandbox that does not run any more.
    pub(crate) fn gone() -> Self {
        Problem::gone().into()
    }

    pub(super) fn is_gone(&self) -> bool {
        *self == Self::gone()
    }

    pub(crate) fn too_late() -> Self {
        Self::new(Code::DeadlineExceeded, "context deadline exceeded")
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({ "code": self.code.as_str(), "message": self.message })
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        let code = match problem.kind {
            Kind::Invalid => Code::InvalidArgument,
            Kind::Unauthenticated => Code::Unauthenticated,
            Kind::NotFound => Code::NotFound,
            Kind::Conflict if problem.code == "already_exists" => Code::AlreadyExists,
            // The caller's, and yet what E2B's agent calls its own failure.
            Kind::Conflict if problem.code == "process_refused" => Code::Internal,
            Kind::Conflict => Code::FailedPrecondition,
            Kind::Unsupported => Code::Unimplemented,
            Kind::TooMany | Kind::NoSpace => Code::ResourceExhausted,
            Kind::Busy => Code::Unavailable,
            Kind::Internal => Code::Internal,
        };
        Self { code, message: sentence(&problem) }
    }
}
