//! Who asks, found out before anything else is read.
//!
//! A key may be taken away while its request runs, or while its answer streams:
//! then both end, within a second or two of the key.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use belljar_domain::{OperationCaps, SandboxId};
use belljar_sandboxes::{Actions, Kind, OnBehalf, Problem, Tenant};
use futures_util::{StreamExt as _, stream};
use http::request::Parts;
use http::{HeaderMap, header};

use super::attribution::ATTRIBUTION;
use super::failure::Failure;
use super::fence::GENERATION;

/// The tenant whose key came with the request.
#[derive(Debug, Clone)]
pub(super) struct Caller(pub(super) Tenant);

/// What a sandbox's own token comes in.
const TOKEN: &str = "x-access-token";
/// How often a key is looked at while something of its lasts.
const LOOK: Duration = Duration::from_secs(1);

pub(super) async fn authenticate(
    State(actions): State<Actions>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Some(OnBehalf { tenant, caps, .. }) = request.extensions().get() {
        // Whoever says so looks at the key as long as this lasts.
        let (caller, mut caps) = (Caller(tenant.clone()), caps.clone());
        caps.tenant = caps.tenant.and(&actions.keys().operation_cap(tenant));
        request.extensions_mut().insert(caller);
        request.extensions_mut().insert(caps);
        return next.run(request).await;
    }
    let key = key(request.headers()).map(str::to_owned);
    let tenant = key.as_deref().and_then(|key| actions.keys().tenant(key));
    let (Some(key), Some(tenant)) = (key, tenant) else {
        return unauthenticated().into_response();
    };
    request.extensions_mut().insert(Caller(tenant.clone()));
    request.extensions_mut().insert(actions.keys().operation_caps(&key));
    let revoked = Box::pin(revoked(actions, key, tenant));
    let mut revoked: Pin<Box<dyn Future<Output = ()> + Send>> = revoked;
    let response = tokio::select! {
        response = next.run(request) => response,
        () = &mut revoked => return unauthenticated().into_response(),
    };
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| cut_off(body, revoked))
}

/// For what reaches into one sandbox: whoever shows that sandbox's own token needs
/// no key. It is proven here, so that nobody else has to be on the way.
pub(super) async fn inside(
    State(actions): State<Actions>,
    params: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    let tenant = params.ok().and_then(|params| {
        let (_, id) = params.iter().find(|(name, _)| *name == "sandbox")?;
        holder(&actions, id, &request)
    });
    let Some(tenant) = tenant else {
        return authenticate(State(actions), request, next).await;
    };
    request.extensions_mut().insert(Caller(tenant));
    next.run(request).await
}

/// Whose sandbox it is, if the request shows its token and nothing that comes first.
fn holder(actions: &Actions, id: &str, request: &Request) -> Option<Tenant> {
    let headers = request.headers();
    let is_proven = request.extensions().get::<OnBehalf>().is_some();
    // A worker that drives a sandbox for a run has a key. Code inside could keep others out with
    // the one, and write rows of other runs with the other.
    let fences = headers.contains_key(GENERATION) || headers.contains_key(ATTRIBUTION);
    if is_proven || fences || key(headers).is_some() {
        return None;
    }
    let token = headers.get(TOKEN)?.to_str().ok()?;
    let sandbox =
        actions.registry().by_token(token).filter(|sandbox| sandbox.id().as_str() == id)?;
    Some(sandbox.facts().tenant.clone())
}

/// For where only those ask who have been proven by somebody else.
pub(super) async fn proven(mut request: Request, next: Next) -> Response {
    let Some(OnBehalf { tenant, caps, .. }) = request.extensions().get() else {
        return unauthenticated().into_response();
    };
    let (caller, caps) = (Caller(tenant.clone()), caps.clone());
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(caps);
    next.run(request).await
}

fn key(headers: &HeaderMap) -> Option<&str> {
    if let Some(key) = headers.get("x-api-key") {
        return key.to_str().ok();
    }
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

fn unauthenticated() -> Failure {
    let message = "the request has no valid API key";
    let problem = Problem::new(Kind::Unauthenticated, "unauthenticated", message);
    problem.hint("send a key as X-API-Key or as Authorization: Bearer").into()
}

/// Resolves when the key is not this tenant's any more.
async fn revoked(actions: Actions, key: String, tenant: Tenant) {
    loop {
        tokio::time::sleep(LOOK).await;
        if actions.keys().tenant(&key).as_ref() != Some(&tenant) {
            return;
        }
    }
}

/// Breaks the stream off, so that nobody takes what came for the whole.
fn cut_off(body: Body, revoked: Pin<Box<dyn Future<Output = ()> + Send>>) -> Body {
    let start = Some((body.into_data_stream(), revoked));
    Body::from_stream(stream::unfold(start, async |state| {
        let (mut body, mut revoked) = state?;
        tokio::select! {
            piece = body.next() => {
                let piece = piece?.map_err(io::Error::other);
                Some((piece, Some((body, revoked))))
            }
            () = &mut revoked => Some((Err(io::Error::other("the key was revoked")), None)),
        }
    }))
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        // A route without the layer above has nobody who asks.
        let caller = parts.extensions.get::<Self>().cloned().ok_or_else(unauthenticated)?;
        tracing::Span::current().record("tenant", caller.0.as_str());
        Ok(caller)
    }
}

/// The caps on operations that hold for a request.
#[derive(Debug)]
pub(super) struct Capped(pub(super) OperationCaps);

impl<S: Sync> FromRequestParts<S> for Capped {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        // A route without the layer above must not be one without caps.
        parts.extensions.get().cloned().map(Self).ok_or_else(unauthenticated)
    }
}

/// What the sandboxes that a request makes are called, where it says so.
#[derive(Debug)]
pub(super) struct Called(pub(super) Vec<SandboxId>);

impl<S: Sync> FromRequestParts<S> for Called {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let behalf = parts.extensions.get::<OnBehalf>();
        Ok(Self(behalf.map(|behalf| behalf.ids.clone()).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(headers: &[(&'static str, &'static str)]) -> Option<String> {
        let pairs = headers.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
        });
        key(&pairs.collect()).map(str::to_owned)
    }

    #[test]
    fn a_key_comes_in_either_header() {
        assert_eq!(found(&[("x-api-key", "k")]).as_deref(), Some("k"));
        assert_eq!(found(&[("authorization", "bearer k")]).as_deref(), Some("k"));
        assert_eq!(
            found(&[("x-api-key", "a"), ("authorization", "Bearer b")]).as_deref(),
            Some("a")
        );
        assert_eq!(found(&[("authorization", "Basic k")]), None);
        assert_eq!(found(&[("authorization", "k")]), None);
        assert_eq!(found(&[]), None);
    }
}
