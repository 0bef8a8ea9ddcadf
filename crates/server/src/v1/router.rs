//! Every route, in one place.

use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::response::Redirect;
use axum::routing::{MethodFilter, MethodRouter, get, on, post};
use axum::{Extension, Router};
use belljar_api::{Access, Method, Operation};
use belljar_console::Console;
use belljar_listen::HostError;
use belljar_runs::Runs;
use belljar_sandboxes::Actions;
use belljar_webhooks::Webhooks;
use belljar_workflow::Workflows;
use http::StatusCode;

use super::failure::Failure;
use super::{
    approvals, authenticate, calls, checkpoints, contexts, data, events, fence, files, label,
    network, runs, sandboxes, service, templates, webhooks, workflows,
};

/// The longest body that is read as a whole. Files are streams, and bounded by
/// the sandbox's disk.
const LONGEST_BODY: usize = 8 << 20;

/// The parts of the API that a process may offer or not.
#[derive(Debug, Clone, Default)]
pub struct Offers {
    pub runs: Option<Runs>,
    pub webhooks: Option<Webhooks>,
    pub workflows: Option<Workflows>,
    /// Not a part of the API, but on the same ports.
    pub console: Option<Console>,
}

/// Our own API; what is not offered is answered with 404.
pub fn router(actions: Actions, offers: Offers) -> Router {
    let keyed = middleware::from_fn_with_state(actions.clone(), authenticate::authenticate);
    let inside = middleware::from_fn_with_state(actions.clone(), authenticate::inside);
    let fenced = middleware::from_fn_with_state(actions.clone(), fence::fence);
    let mut router = Router::new();
    for &operation in Operation::ALL {
        let route = operation.route();
        let served = handler(operation);
        let served = match route.access {
            Access::Public => served,
            // The last is the first that a request comes to.
            Access::Key if route.is_inside() => {
                served.route_layer(fenced.clone()).route_layer(inside.clone())
            }
            Access::Key if route.is_fenced() => {
                served.route_layer(fenced.clone()).route_layer(keyed.clone())
            }
            Access::Key => served.route_layer(keyed.clone()),
        };
        router = router.route(route.path, served);
    }
    // Whoever opens the server in a browser wants to read.
    let router = router.route("/", get(async || Redirect::temporary("/docs")));
    finished(router, offers).with_state(actions)
}

/// The part of it that needs no sandboxes of this process: for whoever has proven who
/// asks, and says so.
pub fn runs_alone(offered: Runs) -> Router {
    let proven = middleware::from_fn(authenticate::proven);
    let mut router = Router::new();
    for &operation in Operation::ALL {
        if let Some(served) = of_runs(operation) {
            router = router.route(operation.route().path, served.route_layer(proven.clone()));
        }
    }
    // Sandboxes have approvals as well, elsewhere.
    for (operation, served) in [
        (Operation::ListApprovals, get(approvals::list_of_runs)),
        (Operation::DecideApproval, post(approvals::decide_of_run)),
    ] {
        router = router.route(operation.route().path, served.route_layer(proven.clone()));
    }
    finished(router, Offers { runs: Some(offered), ..Offers::default() })
}

/// Webhooks alone, for a process that has no sandboxes itself.
pub fn webhooks_alone(offered: Webhooks) -> Router {
    let proven = middleware::from_fn(authenticate::proven);
    let mut router = Router::new();
    for &operation in Operation::ALL {
        if let Some(served) = of_webhooks(operation) {
            router = router.route(operation.route().path, served.route_layer(proven.clone()));
        }
    }
    finished(router, Offers { webhooks: Some(offered), ..Offers::default() })
}

/// Workflows alone, for a process that has no sandboxes itself.
pub fn workflows_alone(offered: Workflows) -> Router {
    let proven = middleware::from_fn(authenticate::proven);
    let mut router = Router::new();
    for &operation in Operation::ALL {
        if let Some(served) = of_workflows(operation) {
            router = router.route(operation.route().path, served.route_layer(proven.clone()));
        }
    }
    finished(router, Offers { workflows: Some(offered), ..Offers::default() })
}

/// Answers every request as one whose host is refused; the error is among its extensions.
pub(crate) fn refusing_hosts() -> Router {
    let refuse = async |Extension(error): Extension<HostError>| {
        Failure::new(StatusCode::BAD_REQUEST, "invalid_host", error.to_string())
            .hint("send one Host header, equal to the host in the request target if there is one")
    };
    Router::new().fallback(refuse).layer(middleware::from_fn(label::label))
}

/// With what holds for every route.
fn finished<S: Clone + Send + Sync + 'static>(router: Router<S>, offers: Offers) -> Router<S> {
    router
        .method_not_allowed_fallback(async || {
            let message = "this path does not support this method";
            Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
                .hint("GET /v1/openapi.json lists all routes")
        })
        .fallback(async || {
            Failure::new(StatusCode::NOT_FOUND, "route_not_found", "there is no such path")
                .hint("GET /v1/openapi.json lists all routes")
        })
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(Extension(service::Texts::make()))
        .layer(Extension(runs::Offered(offers.runs)))
        .layer(Extension(webhooks::OfferedWebhooks(offers.webhooks)))
        .layer(Extension(workflows::OfferedWorkflows(offers.workflows)))
        .layer(middleware::from_fn(label::label))
}

fn filter(operation: Operation) -> MethodFilter {
    match operation.route().method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Put => MethodFilter::PUT,
        Method::Patch => MethodFilter::PATCH,
        Method::Delete => MethodFilter::DELETE,
    }
}

/// Runs and their data.
fn of_runs<S: Clone + Send + Sync + 'static>(operation: Operation) -> Option<MethodRouter<S>> {
    let filter = filter(operation);
    Some(match operation {
        Operation::CreateRun => on(filter, runs::create),
        Operation::ListRuns => on(filter, runs::list),
        Operation::GetRun => on(filter, runs::get),
        Operation::ChangeRun => on(filter, runs::change),
        Operation::PauseRun => on(filter, runs::pause),
        Operation::ResumeRun => on(filter, runs::resume),
        Operation::CancelRun => on(filter, runs::cancel),
        Operation::StepRun => on(filter, runs::step),
        Operation::SetRunBreakpoints => on(filter, runs::breakpoints),
        Operation::TellRun => on(filter, runs::tell),
        Operation::AnswerRun => on(filter, runs::answer),
        Operation::RetryRun => on(filter, runs::retry),
        Operation::ReadRunPrompt => on(filter, runs::prompt),
        Operation::ReadRunOutput => on(filter, runs::output),
        Operation::FollowRun => on(filter, runs::follow),
        Operation::ReadRunFile => on(filter, runs::read_file),
        Operation::GetRunReport => on(filter, runs::report),
        Operation::GetTurn => on(filter, runs::turn),
        Operation::GetStats => on(filter, runs::stats),
        Operation::GetUsage => on(filter, runs::usage),
        Operation::CreateData => on(filter, data::create),
        Operation::ListData => on(filter, data::list),
        Operation::DescribeData => on(filter, data::describe),
        Operation::DeleteData => on(filter, data::delete),
        _ => return None,
    })
}

fn of_webhooks<S: Clone + Send + Sync + 'static>(operation: Operation) -> Option<MethodRouter<S>> {
    let filter = filter(operation);
    Some(match operation {
        Operation::CreateWebhook => on(filter, webhooks::create),
        Operation::ListWebhooks => on(filter, webhooks::list),
        Operation::GetWebhook => on(filter, webhooks::get),
        Operation::DeleteWebhook => on(filter, webhooks::delete),
        Operation::TestWebhook => on(filter, webhooks::test),
        Operation::RotateWebhook => on(filter, webhooks::rotate),
        Operation::EnableWebhook => on(filter, webhooks::enable),
        Operation::ListWebhookDeliveries => on(filter, webhooks::deliveries),
        _ => return None,
    })
}

fn of_workflows<S: Clone + Send + Sync + 'static>(operation: Operation) -> Option<MethodRouter<S>> {
    let filter = filter(operation);
    Some(match operation {
        Operation::CreateWorkflow => on(filter, workflows::create),
        Operation::ListWorkflows => on(filter, workflows::list),
        Operation::GetWorkflow => on(filter, workflows::get),
        Operation::CancelWorkflow => on(filter, workflows::cancel),
        Operation::GraphWorkflow => on(filter, workflows::graph),
        Operation::ReadWorkflowFile => on(filter, workflows::read_file),
        _ => return None,
    })
}

fn handler(operation: Operation) -> MethodRouter<Actions> {
    let filter = filter(operation);
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
        Operation::ReadCassette => on(filter, network::read_cassette),
        Operation::WriteCassette => on(filter, network::write_cassette),
        Operation::ListConnections => on(filter, network::connections),
        Operation::CreateToken => on(filter, network::token),
        Operation::ListApprovals => on(filter, approvals::list),
        Operation::DecideApproval => on(filter, approvals::decide),
        Operation::CreateCheckpoint => on(filter, checkpoints::create),
        Operation::ListCheckpoints => on(filter, checkpoints::list),
        Operation::ForkCheckpoint => on(filter, checkpoints::fork),
        Operation::DeleteCheckpoint => on(filter, checkpoints::delete),
        Operation::CreateRun
        | Operation::ListRuns
        | Operation::GetRun
        | Operation::ChangeRun
        | Operation::PauseRun
        | Operation::ResumeRun
        | Operation::CancelRun
        | Operation::StepRun
        | Operation::SetRunBreakpoints
        | Operation::TellRun
        | Operation::AnswerRun
        | Operation::RetryRun
        | Operation::ReadRunPrompt
        | Operation::ReadRunOutput
        | Operation::FollowRun
        | Operation::ReadRunFile
        | Operation::GetRunReport
        | Operation::GetTurn
        | Operation::GetStats
        | Operation::GetUsage
        | Operation::CreateData
        | Operation::ListData
        | Operation::DescribeData
        | Operation::DeleteData => of_runs(operation).unwrap_or_default(),
        Operation::CreateWebhook
        | Operation::ListWebhooks
        | Operation::GetWebhook
        | Operation::DeleteWebhook
        | Operation::TestWebhook
        | Operation::RotateWebhook
        | Operation::EnableWebhook
        | Operation::ListWebhookDeliveries => of_webhooks(operation).unwrap_or_default(),
        Operation::CreateWorkflow
        | Operation::ListWorkflows
        | Operation::GetWorkflow
        | Operation::CancelWorkflow
        | Operation::GraphWorkflow
        | Operation::ReadWorkflowFile => of_workflows(operation).unwrap_or_default(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_of_runs_is_served_where_there_are_no_sandboxes() {
        for operation in Operation::ALL {
            let is_ours = ["runs", "data"].contains(&operation.route().tag);
            assert_eq!(of_runs::<()>(*operation).is_some(), is_ours, "{operation:?}");
            let is_hook = operation.route().tag == "webhooks";
            assert_eq!(of_webhooks::<()>(*operation).is_some(), is_hook, "{operation:?}");
            let is_workflow = operation.route().tag == "workflows";
            assert_eq!(of_workflows::<()>(*operation).is_some(), is_workflow, "{operation:?}");
        }
    }
}
