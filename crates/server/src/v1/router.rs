//! Every route, in one place.

use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::response::Redirect;
use axum::routing::{MethodFilter, MethodRouter, get, on};
use axum::{Extension, Router};
use belljar_actions::Actions;
use belljar_api::{Access, Method, Operation};
use http::StatusCode;

use super::failure::Failure;
use super::{
    authenticate, calls, checkpoints, contexts, events, files, label, network, sandboxes, service,
    templates,
};

/// The longest body that is read as a whole. Files are streams, and bounded by
/// the sandbox's disk.
const LONGEST_BODY: usize = 8 << 20;

/// Our own API.
pub fn router(actions: Actions) -> Router {
    let keyed = middleware::from_fn_with_state(actions.clone(), authenticate::authenticate);
    let mut router = Router::new();
    for &operation in Operation::ALL {
        let route = operation.route();
        let served = handler(operation);
        let served = match route.access {
            Access::Public => served,
            Access::Key => served.route_layer(keyed.clone()),
        };
        router = router.route(route.path, served);
    }
    router
        // Whoever opens the server in a browser wants to read.
        .route("/", get(async || Redirect::temporary("/docs")))
        .method_not_allowed_fallback(async || {
            let message = "this path has no such method";
            Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
                .hint("GET /v1/openapi.json lists what there is")
        })
        .fallback(async || {
            Failure::new(StatusCode::NOT_FOUND, "route_not_found", "there is no such path")
                .hint("GET /v1/openapi.json lists what there is")
        })
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(Extension(service::Texts::make()))
        .layer(middleware::from_fn(label::label))
        .with_state(actions)
}

fn handler(operation: Operation) -> MethodRouter<Actions> {
    let filter = match operation.route().method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Put => MethodFilter::PUT,
        Method::Patch => MethodFilter::PATCH,
        Method::Delete => MethodFilter::DELETE,
    };
    match operation {
        Operation::CreateSandbox => on(filter, sandboxes::create),
        Operation::ListSandboxes => on(filter, sandboxes::list),
        Operation::GetSandbox => on(filter, sandboxes::get),
        Operation::ChangeSandbox => on(filter, sandboxes::change),
        Operation::DeleteSandbox => on(filter, sandboxes::delete),
        Operation::PauseSandbox => on(filter, sandboxes::pause),
        Operation::ResumeSandbox => on(filter, sandboxes::resume),
        Operation::ForkSandbox => on(filter, sandboxes::fork),
        Operation::ListEnded => on(filter, sandboxes::ended),
        Operation::RunCall => on(filter, calls::run),
        Operation::ListCalls => on(filter, calls::list),
        Operation::GetCall => on(filter, calls::get),
        Operation::FollowCall => on(filter, calls::follow),
        Operation::WriteStdin => on(filter, calls::write_stdin),
        Operation::SignalCall => on(filter, calls::signal),
        Operation::DeleteCall => on(filter, calls::delete),
        Operation::CreateContext => on(filter, contexts::create),
        Operation::ListContexts => on(filter, contexts::list),
        Operation::RunCell => on(filter, contexts::run),
        Operation::InterruptContext => on(filter, contexts::interrupt),
        Operation::RestartContext => on(filter, contexts::restart),
        Operation::DeleteContext => on(filter, contexts::delete),
        Operation::ReadFile => on(filter, files::read),
        Operation::WriteFile => on(filter, files::write),
        Operation::StatFile => on(filter, files::stat),
        Operation::ListFiles => on(filter, files::list),
        Operation::DeleteFile => on(filter, files::delete),
        Operation::MakeDirectory => on(filter, files::make_directory),
        Operation::MoveFile => on(filter, files::rename),
        Operation::GetNetwork => on(filter, network::get),
        Operation::SetNetwork => on(filter, network::set),
        Operation::ListConnections => on(filter, network::connections),
        Operation::CreateToken => on(filter, network::token),
        Operation::CreateCheckpoint => on(filter, checkpoints::create),
        Operation::ListCheckpoints => on(filter, checkpoints::list),
        Operation::ForkCheckpoint => on(filter, checkpoints::fork),
        Operation::DeleteCheckpoint => on(filter, checkpoints::delete),
        Operation::ListTemplates => on(filter, templates::list),
        Operation::GetTemplate => on(filter, templates::get),
        Operation::FollowEvents => on(filter, events::all),
        Operation::FollowSandbox => on(filter, events::of_sandbox),
        Operation::Health => on(filter, service::health),
        Operation::Ready => on(filter, service::ready),
        Operation::Document => on(filter, service::document),
        Operation::Reference => on(filter, service::reference),
    }
}
