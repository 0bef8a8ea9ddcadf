//! The platform's API for whoever is in the same process: no port, and no key.
//!
//! Who asks is said in code, not by a request. What is behind it is what ports lead to
//! as well: quotas, turns and placement included.

use std::fmt;
use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use belljar_domain::{OperationCap, OperationCaps};
use belljar_store::{Proven, Scope};
use futures_util::future::BoxFuture;
use http::{Request, StatusCode};

use crate::control::Control;
use crate::keys::Caller;
use crate::refuse::{Refusal, Surface};

/// Sandboxes of the platform, in a tenant's name; cheap to clone. It does not keep a
/// replica alive.
#[derive(Clone)]
pub struct Inside {
    control: Arc<dyn Fn() -> Option<Control> + Send + Sync>,
}

/// Answers requests about runs, webhooks or workflows in the name of the tenant that it is told.
pub(crate) struct TenantService(Box<Answers>);

type Answers = dyn Fn(&str, Request<Body>) -> BoxFuture<'static, Response> + Send + Sync;

impl Control {
    pub fn inside(&self) -> Inside {
        Inside { control: Arc::new(self.weakly()) }
    }

    /// Has requests about runs answered; who asks, and whether he may, is proven before.
    /// Only the first one counts.
    pub fn offer_runs<F, A>(&self, answer: F)
    where
        F: Fn(&str, Request<Body>) -> A + Send + Sync + 'static,
        A: Future<Output = Response> + Send + 'static,
    {
        self.set_runs(TenantService(Box::new(move |tenant, request| {
            Box::pin(answer(tenant, request))
        })));
    }

    /// Has requests about webhooks answered, likewise.
    pub fn offer_webhooks<F, A>(&self, answer: F)
    where
        F: Fn(&str, Request<Body>) -> A + Send + Sync + 'static,
        A: Future<Output = Response> + Send + 'static,
    {
        self.set_webhooks(TenantService(Box::new(move |tenant, request| {
            Box::pin(answer(tenant, request))
        })));
    }

    /// Has requests about workflows answered, likewise.
    pub fn offer_workflows<F, A>(&self, answer: F)
    where
        F: Fn(&str, Request<Body>) -> A + Send + Sync + 'static,
        A: Future<Output = Response> + Send + 'static,
    {
        self.set_workflows(TenantService(Box::new(move |tenant, request| {
            Box::pin(answer(tenant, request))
        })));
    }

    pub(crate) async fn answer_workflows(
        &self,
        caller: &Caller,
        request: Request<Body>,
    ) -> Result<Response, Refusal> {
        let workflows = self.workflows().ok_or_else(|| {
            let message = "this platform does not offer workflows";
            Refusal::new(StatusCode::NOT_FOUND, "workflows_not_offered", message)
        })?;
        Ok(workflows.answer(caller, request).await)
    }

    pub(crate) async fn answer_webhooks(
        &self,
        caller: &Caller,
        request: Request<Body>,
    ) -> Result<Response, Refusal> {
        let webhooks = self.webhooks().ok_or_else(|| {
            let message = "this platform does not offer webhooks";
            Refusal::new(StatusCode::NOT_FOUND, "webhooks_not_offered", message)
        })?;
        Ok(webhooks.answer(caller, request).await)
    }

    /// Without the key, which has done its work.
    pub(crate) async fn answer_runs(
        &self,
        caller: &Caller,
        request: Request<Body>,
    ) -> Result<Response, Refusal> {
        let runs = self.runs().ok_or_else(|| {
            let message = "this platform does not offer runs";
            Refusal::new(StatusCode::NOT_FOUND, "runs_not_offered", message)
        })?;
        Ok(runs.answer(caller, request).await)
    }
}

impl TenantService {
    async fn answer(&self, caller: &Caller, mut request: Request<Body>) -> Response {
        request.headers_mut().remove("x-api-key");
        request.headers_mut().remove(http::header::AUTHORIZATION);
        request.extensions_mut().insert(caller.caps.clone());
        (self.0)(&caller.proven.tenant, request).await
    }
}

impl Inside {
    /// Whoever has this acts as any tenant.
    pub async fn answer<B>(&self, tenant: &str, request: Request<B>) -> Response
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        let answered = match (self.control)() {
            Some(control) => control.answer_for(tenant, request.map(Body::new)).await,
            None => Err(Refusal::busy("no_node", "this replica is stopping")),
        };
        answered.unwrap_or_else(|refusal| refusal.into_response(Surface::Own))
    }
}

impl Control {
    async fn answer_for(
        &self,
        tenant: &str,
        mut request: Request<Body>,
    ) -> Result<Response, Refusal> {
        // A step of a workflow has the cap of the key that created the workflow. Requests from
        // ports bear no such value.
        let cap = request.extensions_mut().remove::<OperationCap>().unwrap_or(OperationCap::ALL);
        let known = self.known_tenants().bounds(self.store(), tenant).await;
        let known = known.map_err(|error| self.database(&error))?;
        let caps = OperationCaps { tenant: known.operations, key: cap.clone() };
        let proven = Proven {
            tenant: tenant.to_owned(),
            key: String::new(),
            scopes: vec![Scope::Sandboxes],
            operations: cap,
        };
        let caller = Arc::new(Caller { proven, floor: known.floor, caps });
        crate::keyed::serve(self, Surface::Own, &caller, request).await
    }
}

impl fmt::Debug for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inside").finish_non_exhaustive()
    }
}

impl fmt::Debug for TenantService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TenantService").finish_non_exhaustive()
    }
}
