//! The agent's protocol (port 49983): processes, files, watchers.
//!
//! ```text
//!   process.Process/…        ┐
//!   filesystem.Filesystem/…  ├─ Connect: `connect` reads and writes it
//!   /files                   │  plain HTTP, also with signed URLs
//!   /health /metrics /envs   ┘
//! ```
//!
//! The agent of E2B runs inside the sandbox; this one is outside and asks the
//! engine. What else that agent serves is for its own operators, and is not
//! there.

mod connect;
mod files;
mod filesystem;
mod process;
pub(crate) mod signature;
mod user;
mod visit;

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_sandboxes::{Actions, Sandbox, State};
use http::{Method, Request, StatusCode};
use serde_json::json;

use crate::error;
use connect::{Code, Error};
use visit::Visit;

pub(crate) async fn serve(
    actions: &Actions,
    sandbox: Arc<Sandbox>,
    request: Request<Body>,
) -> Response {
    let id = sandbox.id().clone();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    if (&method, path.as_str()) == (&Method::GET, "/health") {
        // Nobody needs to show anything for this, so it wakes nothing up either.
        return match sandbox.state() {
            State::Running(_) => StatusCode::NO_CONTENT.into_response(),
            State::Paused(_) | State::Ended(_) => error::sandbox_gone(id.as_str()),
        };
    }
    let is_files = path == "/files" && [Method::GET, Method::POST].contains(&method);
    let allowed = if is_files {
        signature::admits(&sandbox, &request)
    } else {
        let token = request.headers().get("x-access-token").and_then(|value| value.to_str().ok());
        let fits = token.is_some_and(|token| sandbox.facts().token.is(token));
        if fits { Ok(()) } else { Err(NO_TOKEN) }
    };
    if let Err(reason) = allowed {
        return unauthorized(&request, &path, reason);
    }
    let Ok(live) = actions.wake(&sandbox).await else {
        return error::sandbox_gone(id.as_str());
    };
    let (parts, body) = request.into_parts();
    let visit = Visit { actions: actions.clone(), sandbox, live, headers: parts.headers };
    let served = match (&method, path.as_str()) {
        (&Method::GET, "/files") => Some(files::download(&visit, &parts.uri).await),
        (&Method::POST, "/files") => Some(files::upload(&visit, &parts.uri, body).await),
        (&Method::GET, "/metrics") => Some(visit.metrics().await),
        (&Method::GET, "/envs") => Some(visit.envs()),
        (&Method::POST, path) => rpc(&visit, path, body).await,
        _ => None,
    };
    served.unwrap_or_else(not_found)
}

const NO_TOKEN: &str = "unauthorized access, please provide a valid access token or method signing \
                        if supported";

async fn rpc(visit: &Visit, path: &str, body: Body) -> Option<Response> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    match service {
        "process.Process" => process::serve(visit, method, body).await,
        "filesystem.Filesystem" => filesystem::serve(visit, method, body).await,
        _ => None,
    }
}

/// Says so in the form that the caller reads.
fn unauthorized(request: &Request<Body>, path: &str, reason: &str) -> Response {
    let is_rpc = path.starts_with("/process.") || path.starts_with("/filesystem.");
    let error = Error::new(Code::Unauthenticated, reason);
    if is_rpc && connect::is_stream(request.headers()) {
        connect::streamed_once(Err(error))
    } else if is_rpc {
        connect::answer(Err(error))
    } else {
        let body = json!({ "code": 401, "message": reason });
        (StatusCode::UNAUTHORIZED, Json(body)).into_response()
    }
}

fn not_found() -> Response {
    let body = json!({ "code": 404, "message": "not found" });
    (StatusCode::NOT_FOUND, Json(body)).into_response()
}
