//! Who asks.

use axum::extract::FromRequestParts;
use belljar_actions::{Actions, Kind, Problem, Tenant};
use http::request::Parts;

use crate::error::RestError;

/// The tenant whose API key came with the request. Extracted before any body
/// is read.
#[derive(Debug)]
pub(crate) struct Caller(pub(crate) Tenant);

impl FromRequestParts<Actions> for Caller {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, actions: &Actions) -> Result<Self, RestError> {
        let key = parts.headers.get("x-api-key").and_then(|value| value.to_str().ok());
        let tenant = key.and_then(|key| actions.keys().tenant(key));
        tenant.map(Self).ok_or_else(|| {
            let problem = Problem::new(Kind::Unauthenticated, "invalid_api_key", "Invalid API key");
            RestError(problem.hint("send a key of this server as X-API-Key"))
        })
    }
}
