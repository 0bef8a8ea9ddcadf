//! What every error looks like.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a request was not done. `docs/errors.md` explains every code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct Envelope {
    /// Stable: programs decide by this.
    pub code: String,
    /// A sentence for people; it may change.
    pub message: String,
    /// What to do next, where there is something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The same as the header `x-request-id`; the server's log has it too.
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
