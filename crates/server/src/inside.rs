//! Our own API for whoever is in the same process: no port, and no key.
//!
//! Who asks is said by whoever makes an [`Inside`], in code, and is the same for
//! every request that goes through it. It travels as a value beside the request
//! and not as a part of it, so that nothing that comes over a network can say it:
//! requests of ports bear no such value. Everything behind that is what ports
//! lead to as well, owners, quotas and fences included.

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::{IntoResponse as _, Response};
use belljar_domain::OperationCaps;
use belljar_runs::Runs;
use belljar_sandboxes::{Actions, OnBehalf, Tenant};
use belljar_webhooks::Webhooks;
use belljar_workflow::Workflows;
use http::Request;
use tower::ServiceExt as _;

use crate::v1::Offers;

/// The API as one tenant has it; cheap to clone.
#[derive(Debug, Clone)]
pub struct Inside {
    own: Router,
    tenant: Tenant,
}

impl Inside {
    /// Whoever has this acts as the tenant for as long as it wants to: no key can
    /// be taken away.
    pub fn new(actions: Actions, tenant: Tenant) -> Self {
        Self { own: crate::v1::router(actions, Offers::default()), tenant }
    }

    /// The same, with runs.
    pub fn with_runs(actions: Actions, runs: Runs, tenant: Tenant) -> Self {
        let offers = Offers { runs: Some(runs), ..Offers::default() };
        Self { own: crate::v1::router(actions, offers), tenant }
    }

    /// Workflows alone, for a process that has no sandboxes itself.
    pub fn of_workflows(workflows: Workflows, tenant: Tenant) -> Self {
        Self { own: crate::v1::workflows_alone(workflows), tenant }
    }

    /// Runs alone, for a process that has no sandboxes itself.
    pub fn of_runs(runs: Runs, tenant: Tenant) -> Self {
        Self { own: crate::v1::runs_alone(runs), tenant }
    }

    /// Webhooks alone, for a process that has no sandboxes itself.
    pub fn of_webhooks(webhooks: Webhooks, tenant: Tenant) -> Self {
        Self { own: crate::v1::webhooks_alone(webhooks), tenant }
    }

    /// The same for another tenant.
    #[must_use]
    pub fn of(&self, tenant: Tenant) -> Self {
        Self { own: self.own.clone(), tenant }
    }

    pub async fn answer<B>(&self, request: Request<B>) -> Response
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        let inside = self.clone();
        let request = request.map(Body::new);
        belljar_telemetry::observe(request, async move |request| inside.pass(request).await).await
    }

    /// The same for a request that somebody has counted already.
    pub async fn pass(&self, mut request: Request<Body>) -> Response {
        // Control says what holds for the key that it has proven.
        let caps = request.extensions_mut().remove::<OperationCaps>().unwrap_or_default();
        let behalf = OnBehalf { tenant: self.tenant.clone(), ids: Vec::new(), caps };
        request.extensions_mut().insert(behalf);
        let answered = self.own.clone().oneshot(request).await;
        answered.unwrap_or_else(|never| never.into_response())
    }
}
