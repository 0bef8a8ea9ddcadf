//! The list. Its order is the order of the document.

use super::Access::{Key, Public};
use super::Method::{Delete, Get, Patch, Post, Put};
use super::{Access, Answer, Content, Method, Route, Shape};
use crate::{
    approval, call, checkpoint, context, data, event, file, network, run, sandbox, service, stats,
    template, turn, usage, webhook, workflow,
};

macro_rules! shape {
    ($type:ty) => {
        (|generator| generator.subschema_for::<$type>()) as Shape
    };
}

/// Makes [`Operation`] and its table; a row may have more than the first four
/// columns.
macro_rules! operations {
    ($($name:ident: $method:ident $path:literal $tag:literal $summary:literal
        $({ $($field:ident: $value:expr),+ $(,)? })?;)+) => {
        /// One thing that can be asked for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Operation {
            $(#[doc = $summary] $name),+
        }

        impl Operation {
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),+ }
            }

            #[allow(clippy::needless_update, reason = "some rows name every column")]
            pub fn route(self) -> Route {
                match self {
                    $(Self::$name => Route {
                        $($($field: $value,)+)?
                        ..plain(self, $method, $path, $tag, $summary)
                    }),+
                }
            }
        }
    };
}

const fn plain(
    operation: Operation,
    method: Method,
    path: &'static str,
    tag: &'static str,
    summary: &'static str,
) -> Route {
    let access = Key;
    Route {
        operation,
        method,
        path,
        tag,
        summary,
        access,
        query: None,
        content: Content::None,
        answers: &[Answer::Nothing],
        also: &[],
        headers: &[],
    }
}

const PUBLIC: Access = Public;

const STREAM: (&str, &str) = ("Accept", "`text/event-stream` streams events while the code runs.");
const FOLLOW: (&str, &str) =
    ("Accept", "`text/event-stream` streams existing and new rows as events.");
const ONCE: (&str, &str) = (
    "Idempotency-Key",
    "Idempotency key of a-z, 0-9 and -. A repeat within ten minutes returns the same sandbox.",
);
const ONE_CALL: (&str, &str) = (
    "Idempotency-Key",
    "Idempotency key of a-z, 0-9 and -. The code is executed once and continues if the client \
     disconnects. A repeat gets the recorded output, then the rest.",
);
const OF_RUN: (&str, &str) = (
    "Run-Attribution",
    "The call of a run that this is: `run/turn/call`. Its row and its connections bear it. Needs an \
     API key.",
);
const ONE_RUN: (&str, &str) = (
    "Idempotency-Key",
    "Idempotency key of a-z, 0-9 and -. The run's id is derived from it, so a repeat returns the \
     same run at any time.",
);
const ONE_WORKFLOW: (&str, &str) = (
    "Idempotency-Key",
    "Idempotency key of a-z, 0-9 and -. A repeat returns the same workflow at any time.",
);
const ONE_WISH: (&str, &str) =
    ("Idempotency-Key", "Idempotency key. A repeat with the same key is recorded once.");
const LAST_EVENT: (&str, &str) = ("Last-Event-ID", "Continues after this event.");

operations! {
    CreateSandbox: Post "/v1/sandboxes" "sandboxes" "Creates a sandbox. It is ready for calls when this returns." {
        content: Content::Json(shape!(sandbox::CreateSandbox)),
        answers: &[Answer::Json(201, shape!(sandbox::Sandbox))],
        also: &[404, 409, 429, 503], headers: &[ONCE],
    };
    ListSandboxes: Get "/v1/sandboxes" "sandboxes" "Lists your sandboxes, page by page." {
        query: Some(shape!(sandbox::ListSandboxes)),
        answers: &[Answer::Json(200, shape!(sandbox::SandboxPage))],
    };
    GetSandbox: Get "/v1/sandboxes/{sandbox}" "sandboxes" "Shows a sandbox." {
        answers: &[Answer::Json(200, shape!(sandbox::Sandbox))],
    };
    ChangeSandbox: Patch "/v1/sandboxes/{sandbox}" "sandboxes" "Changes a sandbox's deadline." {
        content: Content::Json(shape!(sandbox::ChangeSandbox)),
        answers: &[Answer::Json(200, shape!(sandbox::Sandbox))], also: &[409],
    };
    DeleteSandbox: Delete "/v1/sandboxes/{sandbox}" "sandboxes" "Ends a sandbox and deletes its state." ;
    PauseSandbox: Post "/v1/sandboxes/{sandbox}/pause" "sandboxes" "Pauses a sandbox." {
        content: Content::Json(shape!(sandbox::PauseSandbox)),
        answers: &[Answer::Json(200, shape!(sandbox::Sandbox))], also: &[409],
    };
    ResumeSandbox: Post "/v1/sandboxes/{sandbox}/resume" "sandboxes" "Resumes a paused sandbox, or extends the deadline of a running one." {
        content: Content::Json(shape!(sandbox::ResumeSandbox)),
        answers: &[Answer::Json(200, shape!(sandbox::Sandbox))], also: &[409, 503],
    };
    ForkSandbox: Post "/v1/sandboxes/{sandbox}/fork" "sandboxes" "Forks a running sandbox, including its memory. The original continues." {
        content: Content::Json(shape!(sandbox::ForkSandbox)),
        answers: &[Answer::Json(201, shape!(sandbox::Forks))], also: &[409, 429, 503],
    };
    ListEnded: Get "/v1/ended" "sandboxes" "Lists your latest ended sandboxes with their end reasons." {
        query: Some(shape!(sandbox::ListEnded)),
        answers: &[Answer::Json(200, shape!(sandbox::EndedList))],
    };

    RunCall: Post "/v1/sandboxes/{sandbox}/calls" "calls" "Runs a command: waits for its end, streams its output, or returns at once." {
        content: Content::Json(shape!(call::RunCall)),
        answers: &[
            Answer::Json(200, shape!(call::Finished)),
            Answer::Json(201, shape!(call::Call)),
            Answer::Events(shape!(call::CallEvent)),
        ],
        also: &[429], headers: &[STREAM, ONE_CALL, OF_RUN],
    };
    ListCalls: Get "/v1/sandboxes/{sandbox}/calls" "calls" "Lists running calls." {
        answers: &[Answer::Json(200, shape!(call::CallList))],
    };
    GetCall: Get "/v1/sandboxes/{sandbox}/calls/{call}" "calls" "Shows a call that is running or ended within the last 30 seconds." {
        answers: &[Answer::Json(200, shape!(call::Call))],
    };
    FollowCall: Get "/v1/sandboxes/{sandbox}/calls/{call}/events" "calls" "Streams events of a call from now on. The end stays available for 30 seconds." {
        query: Some(shape!(call::FollowCall)),
        answers: &[Answer::Events(shape!(call::CallEvent))], also: &[429],
    };
    WriteStdin: Post "/v1/sandboxes/{sandbox}/calls/{call}/stdin" "calls" "Writes to the open standard input of a call." {
        content: Content::Json(shape!(call::WriteStdin)),
    };
    SignalCall: Post "/v1/sandboxes/{sandbox}/calls/{call}/signal" "calls" "Sends a signal to a call's processes." {
        content: Content::Json(shape!(call::SignalCall)),
    };
    DeleteCall: Delete "/v1/sandboxes/{sandbox}/calls/{call}" "calls" "Ends a call and all its processes.";

    CreateContext: Post "/v1/sandboxes/{sandbox}/contexts" "contexts" "Creates a context: an interpreter that keeps its state from cell to cell." {
        content: Content::Json(shape!(context::CreateContext)),
        answers: &[Answer::Json(201, shape!(context::Context))], also: &[429],
    };
    ListContexts: Get "/v1/sandboxes/{sandbox}/contexts" "contexts" "Lists the contexts of a sandbox." {
        answers: &[Answer::Json(200, shape!(context::ContextList))],
    };
    RunCell: Post "/v1/sandboxes/{sandbox}/contexts/{context}/cells" "contexts" "Runs a cell: waits for its end, or streams its output." {
        content: Content::Json(shape!(context::RunCell)),
        answers: &[
            Answer::Json(200, shape!(context::Cell)),
            Answer::Events(shape!(context::CellEvent)),
        ],
        also: &[429], headers: &[STREAM, ONE_CALL, OF_RUN],
    };
    InterruptContext: Post "/v1/sandboxes/{sandbox}/contexts/{context}/interrupt" "contexts" "Interrupts the running cell and keeps the state.";
    RestartContext: Post "/v1/sandboxes/{sandbox}/contexts/{context}/restart" "contexts" "Restarts a context with a new interpreter. The state is lost.";
    DeleteContext: Delete "/v1/sandboxes/{sandbox}/contexts/{context}" "contexts" "Deletes a context.";

    ReadFile: Get "/v1/sandboxes/{sandbox}/files/content" "files" "Reads a file." {
        query: Some(shape!(file::FileQuery)), answers: &[Answer::Bytes],
    };
    WriteFile: Put "/v1/sandboxes/{sandbox}/files/content" "files" "Writes a file. It appears under its name only when it is complete." {
        query: Some(shape!(file::FileQuery)), content: Content::Bytes,
        answers: &[Answer::Json(200, shape!(file::Written))], also: &[507],
    };
    StatFile: Get "/v1/sandboxes/{sandbox}/files/stat" "files" "Shows the metadata of a file, directory or link." {
        query: Some(shape!(file::FileQuery)),
        answers: &[Answer::Json(200, shape!(file::Entry))],
    };
    ListFiles: Get "/v1/sandboxes/{sandbox}/files" "files" "Lists a directory." {
        query: Some(shape!(file::ListQuery)),
        answers: &[Answer::Json(200, shape!(file::EntryList))],
    };
    DeleteFile: Delete "/v1/sandboxes/{sandbox}/files" "files" "Deletes a file or a directory tree. A missing path is not an error." {
        query: Some(shape!(file::FileQuery)),
    };
    MakeDirectory: Post "/v1/sandboxes/{sandbox}/files/directories" "files" "Creates a directory and its parents." {
        content: Content::Json(shape!(file::MakeDirectory)),
        answers: &[Answer::Json(201, shape!(file::Entry))], also: &[507],
    };
    MoveFile: Post "/v1/sandboxes/{sandbox}/files/move" "files" "Moves or renames a file or a directory." {
        content: Content::Json(shape!(file::MoveFile)),
        answers: &[Answer::Json(200, shape!(file::Entry))],
    };

    GetNetwork: Get "/v1/sandboxes/{sandbox}/network" "network" "Shows a sandbox's network policy." {
        answers: &[Answer::Json(200, shape!(network::NetworkShown))],
    };
    SetNetwork: Put "/v1/sandboxes/{sandbox}/network" "network" "Replaces a sandbox's network policy. Connections that it forbids are cut." {
        content: Content::Json(shape!(network::Network)),
        answers: &[Answer::Json(200, shape!(network::NetworkShown))], also: &[409],
    };
    ReadCassette: Get "/v1/sandboxes/{sandbox}/cassette" "network" "Reads the cassette that is named after the sandbox, as an archive." {
        answers: &[Answer::Bytes], also: &[422],
    };
    WriteCassette: Put "/v1/sandboxes/{sandbox}/cassette" "network" "Writes the cassette that is named after the sandbox. It is removed with the sandbox." {
        content: Content::Bytes, also: &[413],
    };
    ListConnections: Get "/v1/sandboxes/{sandbox}/connections" "network" "Lists or streams the connections of a running or ended sandbox." {
        query: Some(shape!(network::ListConnections)),
        answers: &[
            Answer::Json(200, shape!(network::ConnectionPage)),
            Answer::Events(shape!(network::Connection)),
        ],
        headers: &[FOLLOW],
    };
    CreateToken: Post "/v1/sandboxes/{sandbox}/tokens" "network" "Creates a token for gateway operations. It is shown only once." {
        content: Content::Json(shape!(network::CreateToken)),
        answers: &[Answer::Json(201, shape!(network::Token))], also: &[409],
    };

    ListApprovals: Get "/v1/approvals" "network" "Lists the requests of your code that wait for an approval." {
        answers: &[Answer::Json(200, shape!(approval::ApprovalList))],
    };
    DecideApproval: Post "/v1/approvals/{approval}" "network" "Approves or denies a request that waits." {
        content: Content::Json(shape!(approval::DecideApproval)), also: &[409],
    };

    CreateCheckpoint: Post "/v1/sandboxes/{sandbox}/checkpoints" "checkpoints" "Creates a checkpoint of a sandbox, which continues." {
        content: Content::Json(shape!(checkpoint::CreateCheckpoint)),
        answers: &[Answer::Json(201, shape!(checkpoint::Checkpoint))], also: &[409, 429, 503],
    };
    ListCheckpoints: Get "/v1/checkpoints" "checkpoints" "Lists your checkpoints, page by page." {
        query: Some(shape!(checkpoint::ListCheckpoints)),
        answers: &[Answer::Json(200, shape!(checkpoint::CheckpointPage))],
    };
    ForkCheckpoint: Post "/v1/checkpoints/{checkpoint}/fork" "checkpoints" "Creates a sandbox from a checkpoint." {
        content: Content::Json(shape!(checkpoint::ForkCheckpoint)),
        answers: &[Answer::Json(201, shape!(sandbox::Sandbox))], also: &[409, 429, 503],
    };
    DeleteCheckpoint: Delete "/v1/checkpoints/{checkpoint}" "checkpoints" "Deletes a checkpoint.";

    CreateRun: Post "/v1/runs" "runs" "Creates a run: a model writes code that runs in a sandbox and answers a question about data." {
        content: Content::Json(shape!(run::CreateRun)),
        answers: &[Answer::Json(201, shape!(run::Run))],
        also: &[404, 409, 429, 503, 507], headers: &[ONE_RUN],
    };
    ListRuns: Get "/v1/runs" "runs" "Lists your runs, page by page, newest first." {
        query: Some(shape!(run::ListRuns)),
        answers: &[Answer::Json(200, shape!(run::RunPage))], also: &[404],
    };
    GetRun: Get "/v1/runs/{run}" "runs" "Shows a run: its state, usage, files and end." {
        answers: &[Answer::Json(200, shape!(run::Run))],
    };
    ChangeRun: Patch "/v1/runs/{run}" "runs" "Changes a run's budget. It applies before the next turn." {
        content: Content::Json(shape!(run::ChangeRun)),
        answers: &[Answer::Json(202, shape!(run::Run))], also: &[409, 429],
    };
    PauseRun: Post "/v1/runs/{run}/pause" "runs" "Pauses a run after the current step." {
        answers: &[Answer::Json(202, shape!(run::Run))], also: &[409, 429],
    };
    ResumeRun: Post "/v1/runs/{run}/resume" "runs" "Resumes a paused run." {
        answers: &[Answer::Json(202, shape!(run::Run))], also: &[409, 429],
    };
    CancelRun: Post "/v1/runs/{run}/cancel" "runs" "Cancels a run after the current step. Partial output becomes its result." {
        answers: &[Answer::Json(202, shape!(run::Run))], also: &[409, 429],
    };
    StepRun: Post "/v1/runs/{run}/step" "runs" "Continues a run for one turn, then pauses it." {
        answers: &[Answer::Json(202, shape!(run::Run))], also: &[409, 429], headers: &[ONE_WISH],
    };
    SetRunBreakpoints: Put "/v1/runs/{run}/breakpoints" "runs" "Sets where a run pauses by itself: before each turn, or each call." {
        content: Content::Json(shape!(run::RunBreakpoints)),
        answers: &[Answer::Json(202, shape!(run::Run))], also: &[409, 429],
    };
    TellRun: Post "/v1/runs/{run}/tell" "runs" "Sends a message to the model before its next turn." {
        content: Content::Json(shape!(run::TellRun)),
        answers: &[Answer::Json(202, shape!(run::Run))], also: &[409, 429], headers: &[ONE_WISH],
    };
    AnswerRun: Post "/v1/runs/{run}/answer" "runs" "Answers the question that a run waits with." {
        content: Content::Json(shape!(run::AnswerRun)),
        answers: &[Answer::Json(202, shape!(run::Run))], also: &[409, 429], headers: &[ONE_WISH],
    };
    RetryRun: Post "/v1/runs/{run}/retry" "runs" "Creates another attempt at a run that ended without an answer. A repeat returns the same attempt." {
        content: Content::Json(shape!(run::RetryRun)),
        answers: &[Answer::Json(201, shape!(run::Run))], also: &[409, 429, 503],
    };
    ReadRunPrompt: Get "/v1/runs/{run}/turns/{turn}/prompt" "runs" "Shows the whole prompt of a turn." {
        answers: &[Answer::Json(200, shape!(run::RunPrompt))],
    };
    ReadRunOutput: Get "/v1/runs/{run}/turns/{turn}/calls/{call}/output" "runs" "Reads the whole output of a call, also the part that the model was not shown." {
        answers: &[Answer::Bytes],
    };
    FollowRun: Get "/v1/runs/{run}/events" "runs" "Streams past and new events of a run until it ends." {
        query: Some(shape!(run::FollowRun)),
        answers: &[Answer::Events(shape!(run::RunEvent))], headers: &[LAST_EVENT],
    };
    ReadRunFile: Get "/v1/runs/{run}/files/{file}" "runs" "Reads a file that a run made." {
        answers: &[Answer::Bytes],
    };
    GetRunReport: Get "/v1/runs/{run}/report" "runs" "Renders the report of an ended run: one HTML page that loads nothing." {
        answers: &[Answer::Html], also: &[409],
    };
    GetTurn: Get "/v1/runs/{run}/turns/{turn}" "runs" "Shows one turn of a run: code, output, file changes, connections, usage and cost." {
        answers: &[Answer::Json(200, shape!(turn::Turn))],
    };
    GetStats: Get "/v1/stats" "runs" "Shows what your runs did within the last minute, hour and day." {
        answers: &[Answer::Json(200, shape!(stats::Stats))], also: &[404],
    };
    GetUsage: Get "/v1/usage" "runs" "Sums your charges, by run, model, operation, day or account." {
        query: Some(shape!(usage::GetUsage)),
        answers: &[Answer::Json(200, shape!(usage::Usage))], also: &[404],
    };

    CreateData: Post "/v1/data" "data" "Uploads a file for runs. Equal content is stored once." {
        content: Content::Bytes,
        answers: &[Answer::Json(201, shape!(data::Data))], also: &[404, 413, 429, 503, 507],
    };
    ListData: Get "/v1/data" "data" "Lists your uploaded files." {
        answers: &[Answer::Json(200, shape!(data::DataList))], also: &[404],
    };
    DescribeData: Get "/v1/data/{data}/description" "data" "Describes a file: its structure, ranges and keys, without its rows." {
        query: Some(shape!(data::DescribeData)),
        answers: &[Answer::Json(200, shape!(data::DataDescription))],
    };
    DeleteData: Delete "/v1/data/{data}" "data" "Deletes a file. Runs that have not read it yet fail.";

    ListTemplates: Get "/v1/templates" "templates" "Lists templates." {
        answers: &[Answer::Json(200, shape!(template::TemplateList))],
    };
    GetTemplate: Get "/v1/templates/{template}" "templates" "Shows a template." {
        answers: &[Answer::Json(200, shape!(template::Template))],
    };

    FollowEvents: Get "/v1/events" "events" "Streams events of your sandboxes from now on." {
        answers: &[Answer::Events(shape!(event::Event))],
    };
    FollowSandbox: Get "/v1/sandboxes/{sandbox}/events" "events" "Streams events of a sandbox until it ends." {
        answers: &[Answer::Events(shape!(event::Event))],
    };

    CreateWebhook: Post "/v1/webhooks" "webhooks" "Creates a webhook. The response shows its secret, once." {
        content: Content::Json(shape!(webhook::CreateWebhook)),
        answers: &[Answer::Json(201, shape!(webhook::Webhook))], also: &[404, 422, 429],
    };
    ListWebhooks: Get "/v1/webhooks" "webhooks" "Lists your webhooks." {
        answers: &[Answer::Json(200, shape!(webhook::WebhookList))], also: &[404],
    };
    GetWebhook: Get "/v1/webhooks/{webhook}" "webhooks" "Shows a webhook." {
        answers: &[Answer::Json(200, shape!(webhook::Webhook))],
    };
    DeleteWebhook: Delete "/v1/webhooks/{webhook}" "webhooks" "Deletes a webhook and the messages that wait for it.";
    TestWebhook: Post "/v1/webhooks/{webhook}/test" "webhooks" "Queues a message of the kind `webhook.test`." {
        answers: &[Answer::Json(202, shape!(webhook::WebhookDelivery))], also: &[409, 429],
    };
    RotateWebhook: Post "/v1/webhooks/{webhook}/rotate" "webhooks" "Makes a new secret. For a day, messages are signed with both." {
        answers: &[Answer::Json(200, shape!(webhook::Webhook))],
    };
    EnableWebhook: Post "/v1/webhooks/{webhook}/enable" "webhooks" "Calls a disabled webhook again." {
        answers: &[Answer::Json(200, shape!(webhook::Webhook))],
    };
    ListWebhookDeliveries: Get "/v1/webhooks/{webhook}/deliveries" "webhooks" "Lists the newest messages to a webhook." {
        query: Some(shape!(webhook::ListWebhookDeliveries)),
        answers: &[Answer::Json(200, shape!(webhook::WebhookDeliveryList))],
    };

    CreateWorkflow: Post "/v1/workflows" "workflows" "Creates a workflow. Its steps begin at once." {
        headers: &[ONE_WORKFLOW],
        content: Content::Json(shape!(workflow::CreateWorkflow)),
        answers: &[Answer::Json(201, shape!(workflow::Workflow))], also: &[404, 409, 422, 429, 503],
    };
    ListWorkflows: Get "/v1/workflows" "workflows" "Lists your newest workflows." {
        query: Some(shape!(workflow::ListWorkflows)),
        answers: &[Answer::Json(200, shape!(workflow::WorkflowList))], also: &[404, 503],
    };
    GetWorkflow: Get "/v1/workflows/{workflow}" "workflows" "Shows a workflow, its steps and its results." {
        answers: &[Answer::Json(200, shape!(workflow::Workflow))], also: &[503],
    };
    CancelWorkflow: Post "/v1/workflows/{workflow}/cancel" "workflows" "Cancels a workflow and the steps that are under way." {
        answers: &[Answer::Json(200, shape!(workflow::Workflow))], also: &[409, 503],
    };
    GraphWorkflow: Get "/v1/workflows/{workflow}/graph" "workflows" "Draws a workflow and the state of its steps as SVG." {
        answers: &[Answer::Svg], also: &[503],
    };
    ReadWorkflowFile: Get "/v1/workflows/{workflow}/files/{file}" "workflows" "Reads a file that is an output of a workflow." {
        answers: &[Answer::Bytes], also: &[503],
    };

    Health: Get "/v1/health" "server" "Liveness probe." {
        access: PUBLIC, answers: &[Answer::Json(200, shape!(service::Health))],
    };
    Ready: Get "/v1/ready" "server" "Readiness probe: 503 while the server warms up, stops, or has no node for new sandboxes." {
        access: PUBLIC, answers: &[Answer::Json(200, shape!(service::Health))], also: &[503],
    };
    Document: Get "/v1/openapi.json" "server" "This document as JSON." {
        access: PUBLIC, answers: &[Answer::Document],
    };
    Reference: Get "/docs" "server" "This document as an HTML page." {
        access: PUBLIC, answers: &[Answer::Html],
    };
}
