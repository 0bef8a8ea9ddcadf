//! E2B's wire protocols, translated to Belljar's actions.
//!
//! ```text
//!              ┌─ control    REST: sandboxes, snapshots, templates, volumes, secrets
//!   request ─► classify ─┼─ envd       port 49983: processes, files, watchers
//!              ├─ interpreter port 49999: code contexts
//!              ├─ volumes    content of volumes
//!              └─ proxy      any other port: a server inside the sandbox
//! ```
//!
//! Nothing is decided here: who may do what and what becomes of a sandbox is in
//! `belljar-sandboxes`. What was read of the protocols, and which parts were seen
//! on the wire, is in `docs/e2b-compatibility.md`.

// One panic here is the end of more than one request.
#![warn(clippy::indexing_slicing, clippy::string_slice)]
#![cfg_attr(
    test,
    allow(
        clippy::indexing_slicing,
        clippy::string_slice,
        reason = "a test that panics has failed"
    )
)]

mod classify;
mod control;
mod envd;
mod error;
mod interpreter;
mod json;
mod pattern;
mod proxy;
mod volumes;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use belljar_sandboxes::Actions;
use http::Request;
use tower::ServiceExt as _;

pub use classify::{ENVD_PORT, INTERPRETER_PORT, Target, names_a_sandbox};
pub use error::{invalid_host, unauthenticated};

/// The version of the agent that we answer as: the one whose behaviour was read.
pub const ENVD_VERSION: &str = "0.6.13";

/// The whole surface.
#[derive(Debug, Clone)]
pub struct E2b {
    actions: Actions,
    control: Router,
    volumes: Router,
}

impl E2b {
    pub fn new(actions: Actions) -> Self {
        let control = pattern::told(control::router(actions.clone()));
        let volumes = pattern::told(volumes::router(actions.clone()));
        Self { actions, control, volumes }
    }

    /// What a request is about; `None`: nothing of E2B's.
    pub fn target(&self, request: &Request<Body>) -> Option<Target> {
        classify::classify(&self.actions, request)
    }

    pub async fn serve(&self, target: Target, request: Request<Body>) -> Response {
        let route = pattern::of(&target, request.uri().path());
        let mut response = self.answer(target, request).await;
        if let Some(route) = route {
            response.extensions_mut().insert(route);
        }
        response
    }

    async fn answer(&self, target: Target, request: Request<Body>) -> Response {
        let served = match target {
            Target::Control => self.control.clone().oneshot(request).await,
            Target::Volumes => self.volumes.clone().oneshot(request).await,
            Target::Gone { id } => return error::sandbox_gone(&id),
            Target::Port { sandbox, port: ENVD_PORT } => {
                return envd::serve(&self.actions, sandbox, request).await;
            }
            Target::Port { sandbox, port: INTERPRETER_PORT } => {
                return interpreter::serve(&self.actions, sandbox, request).await;
            }
            Target::Port { sandbox, port } => {
                return proxy::serve(&self.actions, &sandbox, port, request).await;
            }
        };
        served.unwrap_or_else(IntoResponse::into_response)
    }
}
