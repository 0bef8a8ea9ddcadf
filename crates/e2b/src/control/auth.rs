//! Who asks.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use belljar_domain::SandboxId;
use belljar_sandboxes::{Actions, Kind, OnBehalf, Problem, Tenant};
use http::request::Parts;
use tracing::Span;

use crate::error::RestError;

/// The tenant whose API key came with the request, or in whose name somebody asks
/// who has proven it. Extracted before any body is read.
#[derive(Debug)]
pub(crate) struct Caller(pub(crate) Tenant);

impl FromRequestParts<Actions> for Caller {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, actions: &Actions) -> Result<Self, RestError> {
        if let Some(OnBehalf { tenant, .. }) = parts.extensions.get() {
            Span::current().record("tenant", tenant.as_str());
            return Ok(Self(tenant.clone()));
        }
        let key = parts.headers.get("x-api-key").and_then(|value| value.to_str().ok());
        let tenant = key.and_then(|key| actions.keys().tenant(key));
        if let Some(tenant) = &tenant {
            Span::current().record("tenant", tenant.as_str());
        }
        tenant.map(Self).ok_or_else(|| {
            let problem = Problem::new(Kind::Unauthenticated, "invalid_api_key", "Invalid API key");
            RestError(problem.hint("send a key of this server as X-API-Key"))
        })
    }
}

/// What the sandboxes that a request makes are called, where it says so.
#[derive(Debug)]
pub(crate) struct Called(pub(crate) Vec<SandboxId>);

impl<S: Sync> FromRequestParts<S> for Called {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let behalf = parts.extensions.get::<OnBehalf>();
        Ok(Self(behalf.map(|behalf| behalf.ids.clone()).unwrap_or_default()))
    }
}
