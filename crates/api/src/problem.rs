//! What every error looks like.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error. `docs/errors.md` explains every code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct Envelope {
    /// Stable error code for programs.
    pub code: String,
    /// Message for people. It may change.
    pub message: String,
    /// The next step, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Id of the request, also in the header `x-request-id` and in the server's log.
    pub request_id: String,
}

/// A code that this API itself answers, besides those of the actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    pub code: &'static str,
    pub status: u16,
}

const fn code(code: &'static str, status: u16) -> Code {
    Code { code, status }
}

/// Codes of the HTTP surface.
pub const CODES: &[Code] = &[
    code("unreadable_body", 400),
    code("unreadable_header", 400),
    code("unauthenticated", 401),
    code("route_not_found", 404),
    code("method_not_allowed", 405),
    code("body_too_large", 413),
    code("invalid_body", 422),
    code("invalid_query", 422),
    code("internal", 500),
];
