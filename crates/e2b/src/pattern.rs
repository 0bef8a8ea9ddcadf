//! What a request's path looks like, for those who count requests: never the path
//! itself, of which there are as many as clients like.

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use belljar_telemetry::Route;

use crate::classify::{ENVD_PORT, INTERPRETER_PORT, Target};

/// Has a router say which of its routes answered.
pub(crate) fn told(router: Router) -> Router {
    router.layer(from_fn(async |request: Request, next: Next| -> Response {
        let matched = request.extensions().get::<MatchedPath>().cloned();
        if let Some(pattern) = &matched {
            belljar_telemetry::name_sandbox(pattern.as_str(), request.uri().path());
        }
        let mut response = next.run(request).await;
        if let Some(path) = matched {
            response.extensions_mut().insert(Route(path.as_str().to_owned().into()));
        }
        response
    }))
}

/// The pattern of what no router answers.
pub(crate) fn of(target: &Target, path: &str) -> Option<Route> {
    let known = |paths: &[&'static str], other| {
        paths.iter().find(|known| **known == path).copied().unwrap_or(other)
    };
    if let Target::Port { sandbox, .. } = target {
        let span = tracing::Span::current();
        span.record("sandbox", sandbox.id().as_str());
        span.record("tenant", sandbox.facts().tenant.as_str());
    }
    let pattern = match target {
        Target::Control | Target::Volumes => return None,
        Target::Gone { .. } => "gone",
        Target::Port { port: ENVD_PORT, .. } => known(ENVD, "envd"),
        Target::Port { port: INTERPRETER_PORT, .. } => known(INTERPRETER, "interpreter"),
        Target::Port { .. } => "port",
    };
    Some(Route(pattern.into()))
}

const ENVD: &[&str] = &[
    "/health",
    "/files",
    "/metrics",
    "/envs",
    "/process.Process/Start",
    "/process.Process/Connect",
    "/process.Process/StreamInput",
    "/process.Process/List",
    "/process.Process/SendInput",
    "/process.Process/CloseStdin",
    "/process.Process/SendSignal",
    "/process.Process/Update",
    "/filesystem.Filesystem/Stat",
    "/filesystem.Filesystem/MakeDir",
    "/filesystem.Filesystem/Move",
    "/filesystem.Filesystem/ListDir",
    "/filesystem.Filesystem/Remove",
    "/filesystem.Filesystem/CreateWatcher",
    "/filesystem.Filesystem/GetWatcherEvents",
    "/filesystem.Filesystem/RemoveWatcher",
    "/filesystem.Filesystem/WatchDir",
];

const INTERPRETER: &[&str] = &["/execute", "/contexts", "/health"];
