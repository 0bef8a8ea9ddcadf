//! The list. Its order is the order of the document.

use super::Access::{Key, Public};
use super::Method::{Delete, Get, Patch, Post, Put};
use super::{Access, Answer, Content, Method, Route, Shape};
use crate::{
    call, checkpoint, context, data, event, file, network, run, sandbox, service, template,
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

const STREAM: (&str, &str) =
    ("Accept", "`text/event-stream`: the answer comes as events while it runs.");
const FOLLOW: (&str, &str) =
    ("Accept", "`text/event-stream`: rows come as events, also those that are made from now on.");
const ONCE: (&str, &str) = (
    "Idempotency-Key",
    "Of a-z, 0-9 and -: a request that is repeated with it within ten minutes makes nothing new.",
);
const ONE_CALL: (&str, &str) = (
    "Idempotency-Key",
    "Of a-z, 0-9 and -: it is executed once, however often it is asked for with it, and goes on when \
     nobody listens. A repetition is told what was said so far and what is still to come.",
);
const ONE_RUN: (&str, &str) = (
    "Idempotency-Key",
    "Of a-z, 0-9 and -: the run's id follows from it, so a request that is repeated with it, \
     whenever, makes nothing new.",
);
const LAST_EVENT: (&str, &str) = ("Last-Event-ID", "Events are told from the one after this on.");

operations! {
    CreateSandbox: Post "/v1/sandboxes" "sandboxes" "Makes a sandbox; it takes calls when this answers." {
        content: Content::Json(shape!(sandbox::CreateSandbox)),
        answers: &[Answer::Json(201, shape!(sandbox::Sandbox))],
        also: &[404, 409, 429, 503], headers: &[ONCE],
    };
    ListSandboxes: Get "/v1/sandboxes" "sandboxes" "Shows your sandboxes, page by page." {
        query: Some(shape!(sandbox::ListSandboxes)),
        answers: &[Answer::Json(200, shape!(sandbox::SandboxPage))],
    };
    GetSandbox: Get "/v1/sandboxes/{sandbox}" "sandboxes" "Shows one sandbox." {
        answers: &[Answer::Json(200, shape!(sandbox::Sandbox))],
    };
    ChangeSandbox: Patch "/v1/sandboxes/{sandbox}" "sandboxes" "Changes when a sandbox ends." {
        content: Content::Json(shape!(sandbox::ChangeSandbox)),
        answers: &[Answer::Json(200, shape!(sandbox::Sandbox))], also: &[409],
    };
    DeleteSandbox: Delete "/v1/sandboxes/{sandbox}" "sandboxes" "Ends a sandbox; nothing of it is left." ;
    PauseSandbox: Post "/v1/sandboxes/{sandbox}/pause" "sandboxes" "Has a sandbox stand still." {
        content: Content::Json(shape!(sandbox::PauseSandbox)),
        answers: &[Answer::Json(200, shape!(sandbox::Sandbox))], also: &[409],
    };
    ResumeSandbox: Post "/v1/sandboxes/{sandbox}/resume" "sandboxes" "Lets a paused sandbox go on; one that runs lives at least as long." {
        content: Content::Json(shape!(sandbox::ResumeSandbox)),
        answers: &[Answer::Json(200, shape!(sandbox::Sandbox))], also: &[409, 503],
    };
    ForkSandbox: Post "/v1/sandboxes/{sandbox}/fork" "sandboxes" "Makes copies of a sandbox as it is now, memory included; it goes on." {
        content: Content::Json(shape!(sandbox::ForkSandbox)),
        answers: &[Answer::Json(201, shape!(sandbox::Forks))], also: &[409, 429, 503],
    };
    ListEnded: Get "/v1/ended" "sandboxes" "Shows how your last sandboxes ended." {
        query: Some(shape!(sandbox::ListEnded)),
        answers: &[Answer::Json(200, shape!(sandbox::EndedList))],
    };

    RunCall: Post "/v1/sandboxes/{sandbox}/calls" "calls" "Runs a command: waits for its end, streams it, or lets it go on." {
        content: Content::Json(shape!(call::RunCall)),
        answers: &[
            Answer::Json(200, shape!(call::Finished)),
            Answer::Json(201, shape!(call::Call)),
            Answer::Events(shape!(call::CallEvent)),
        ],
        also: &[429], headers: &[STREAM, ONE_CALL],
    };
    ListCalls: Get "/v1/sandboxes/{sandbox}/calls" "calls" "Shows the calls that run." {
        answers: &[Answer::Json(200, shape!(call::CallList))],
    };
    GetCall: Get "/v1/sandboxes/{sandbox}/calls/{call}" "calls" "Shows one call that runs, or ended within the last half minute." {
        answers: &[Answer::Json(200, shape!(call::Call))],
    };
    FollowCall: Get "/v1/sandboxes/{sandbox}/calls/{call}/events" "calls" "Streams what a call does from now on; its end is told for half a minute." {
        query: Some(shape!(call::FollowCall)),
        answers: &[Answer::Events(shape!(call::CallEvent))], also: &[429],
    };
    WriteStdin: Post "/v1/sandboxes/{sandbox}/calls/{call}/stdin" "calls" "Writes to a call's standard input, which was left open." {
        content: Content::Json(shape!(call::WriteStdin)),
    };
    SignalCall: Post "/v1/sandboxes/{sandbox}/calls/{call}/signal" "calls" "Sends a signal to a call's processes." {
        content: Content::Json(shape!(call::SignalCall)),
    };
    DeleteCall: Delete "/v1/sandboxes/{sandbox}/calls/{call}" "calls" "Ends a call and every process of it.";

    CreateContext: Post "/v1/sandboxes/{sandbox}/contexts" "contexts" "Makes an interpreter that keeps its state from cell to cell." {
        content: Content::Json(shape!(context::CreateContext)),
        answers: &[Answer::Json(201, shape!(context::Context))], also: &[429],
    };
    ListContexts: Get "/v1/sandboxes/{sandbox}/contexts" "contexts" "Shows the contexts of a sandbox." {
        answers: &[Answer::Json(200, shape!(context::ContextList))],
    };
    RunCell: Post "/v1/sandboxes/{sandbox}/contexts/{context}/cells" "contexts" "Runs code: waits for its end, or streams it." {
        content: Content::Json(shape!(context::RunCell)),
        answers: &[
            Answer::Json(200, shape!(context::Cell)),
            Answer::Events(shape!(context::CellEvent)),
        ],
        also: &[429], headers: &[STREAM, ONE_CALL],
    };
    InterruptContext: Post "/v1/sandboxes/{sandbox}/contexts/{context}/interrupt" "contexts" "Interrupts the cell that runs; the state stays.";
    RestartContext: Post "/v1/sandboxes/{sandbox}/contexts/{context}/restart" "contexts" "Gives a context a new interpreter; the state is gone.";
    DeleteContext: Delete "/v1/sandboxes/{sandbox}/contexts/{context}" "contexts" "Ends a context.";

    ReadFile: Get "/v1/sandboxes/{sandbox}/files/content" "files" "Reads a file." {
        query: Some(shape!(file::FileQuery)), answers: &[Answer::Bytes],
    };
    WriteFile: Put "/v1/sandboxes/{sandbox}/files/content" "files" "Writes a file; it appears under its name only when it is complete." {
        query: Some(shape!(file::FileQuery)), content: Content::Bytes,
        answers: &[Answer::Json(200, shape!(file::Written))], also: &[507],
    };
    StatFile: Get "/v1/sandboxes/{sandbox}/files/stat" "files" "Shows one file, directory or link." {
        query: Some(shape!(file::FileQuery)),
        answers: &[Answer::Json(200, shape!(file::Entry))],
    };
    ListFiles: Get "/v1/sandboxes/{sandbox}/files" "files" "Shows what is in a directory." {
        query: Some(shape!(file::ListQuery)),
        answers: &[Answer::Json(200, shape!(file::EntryList))],
    };
    DeleteFile: Delete "/v1/sandboxes/{sandbox}/files" "files" "Removes a file or a whole tree; what is not there need not be removed." {
        query: Some(shape!(file::FileQuery)),
    };
    MakeDirectory: Post "/v1/sandboxes/{sandbox}/files/directories" "files" "Makes a directory and its parents." {
        content: Content::Json(shape!(file::MakeDirectory)),
        answers: &[Answer::Json(201, shape!(file::Entry))], also: &[507],
    };
    MoveFile: Post "/v1/sandboxes/{sandbox}/files/move" "files" "Moves or renames a file or a directory." {
        content: Content::Json(shape!(file::MoveFile)),
        answers: &[Answer::Json(200, shape!(file::Entry))],
    };

    GetNetwork: Get "/v1/sandboxes/{sandbox}/network" "network" "Shows what a sandbox may reach." {
        answers: &[Answer::Json(200, shape!(network::NetworkShown))],
    };
    SetNetwork: Put "/v1/sandboxes/{sandbox}/network" "network" "Changes what a sandbox may reach; what it may not any more is cut." {
        content: Content::Json(shape!(network::Network)),
        answers: &[Answer::Json(200, shape!(network::NetworkShown))], also: &[409],
    };
    ListConnections: Get "/v1/sandboxes/{sandbox}/connections" "network" "Shows what a sandbox asked for, also one that has ended, or streams it." {
        query: Some(shape!(network::ListConnections)),
        answers: &[
            Answer::Json(200, shape!(network::ConnectionPage)),
            Answer::Events(shape!(network::Connection)),
        ],
        headers: &[FOLLOW],
    };
    CreateToken: Post "/v1/sandboxes/{sandbox}/tokens" "network" "Makes a token for operations of the gateway; it is shown only now." {
        content: Content::Json(shape!(network::CreateToken)),
        answers: &[Answer::Json(201, shape!(network::Token))], also: &[409],
    };

    CreateCheckpoint: Post "/v1/sandboxes/{sandbox}/checkpoints" "checkpoints" "Keeps a sandbox as it is now; it goes on." {
        content: Content::Json(shape!(checkpoint::CreateCheckpoint)),
        answers: &[Answer::Json(201, shape!(checkpoint::Checkpoint))], also: &[409, 429, 503],
    };
    ListCheckpoints: Get "/v1/checkpoints" "checkpoints" "Shows your checkpoints, page by page." {
        query: Some(shape!(checkpoint::ListCheckpoints)),
        answers: &[Answer::Json(200, shape!(checkpoint::CheckpointPage))],
    };
    ForkCheckpoint: Post "/v1/checkpoints/{checkpoint}/fork" "checkpoints" "Makes a sandbox that is what another was at the checkpoint." {
        content: Content::Json(shape!(checkpoint::ForkCheckpoint)),
        answers: &[Answer::Json(201, shape!(sandbox::Sandbox))], also: &[409, 429, 503],
    };
    DeleteCheckpoint: Delete "/v1/checkpoints/{checkpoint}" "checkpoints" "Forgets a checkpoint.";

    CreateRun: Post "/v1/runs" "runs" "Asks a question about data; code that a model writes runs in a sandbox until there is an answer." {
        content: Content::Json(shape!(run::CreateRun)),
        answers: &[Answer::Json(201, shape!(run::Run))],
        also: &[404, 409, 429, 503, 507], headers: &[ONE_RUN],
    };
    ListRuns: Get "/v1/runs" "runs" "Shows your runs, page by page, the newest first." {
        query: Some(shape!(run::ListRuns)),
        answers: &[Answer::Json(200, shape!(run::RunPage))], also: &[404],
    };
    GetRun: Get "/v1/runs/{run}" "runs" "Shows one run: how far it is, what it used, what it made, how it ended." {
        answers: &[Answer::Json(200, shape!(run::Run))],
    };
    ChangeRun: Patch "/v1/runs/{run}" "runs" "Changes what a run may use; it is told before its next turn." {
        content: Content::Json(shape!(run::ChangeRun)),
        answers: &[Answer::Json(202, shape!(run::Run))], also: &[409, 429],
    };
    PauseRun: Post "/v1/runs/{run}/pause" "runs" "Has a run wait after what it does just now." {
        answers: &[Answer::Json(202, shape!(run::Run))], also: &[409, 429],
    };
    ResumeRun: Post "/v1/runs/{run}/resume" "runs" "Has a run go on." {
        answers: &[Answer::Json(202, shape!(run::Run))], also: &[409, 429],
    };
    CancelRun: Post "/v1/runs/{run}/cancel" "runs" "Ends a run after what it does just now; what there is, is the result." {
        answers: &[Answer::Json(202, shape!(run::Run))], also: &[409, 429],
    };
    FollowRun: Get "/v1/runs/{run}/events" "runs" "Streams everything that happened in a run, and what happens, until it is over." {
        query: Some(shape!(run::FollowRun)),
        answers: &[Answer::Events(shape!(run::RunEvent))], headers: &[LAST_EVENT],
    };
    ReadRunFile: Get "/v1/runs/{run}/files/{file}" "runs" "Reads a file that a run made." {
        answers: &[Answer::Bytes],
    };

    CreateData: Post "/v1/data" "data" "Keeps a file for runs; the same one again is one file." {
        content: Content::Bytes,
        answers: &[Answer::Json(201, shape!(data::Data))], also: &[404, 413, 429, 503, 507],
    };
    ListData: Get "/v1/data" "data" "Shows the files that are kept for your runs." {
        answers: &[Answer::Json(200, shape!(data::DataList))], also: &[404],
    };
    DeleteData: Delete "/v1/data/{data}" "data" "Removes a file; runs that have still to read it fail.";

    ListTemplates: Get "/v1/templates" "templates" "Shows what sandboxes can be made from." {
        answers: &[Answer::Json(200, shape!(template::TemplateList))],
    };
    GetTemplate: Get "/v1/templates/{template}" "templates" "Shows one template." {
        answers: &[Answer::Json(200, shape!(template::Template))],
    };

    FollowEvents: Get "/v1/events" "events" "Streams what happens to your sandboxes from now on." {
        answers: &[Answer::Events(shape!(event::Event))],
    };
    FollowSandbox: Get "/v1/sandboxes/{sandbox}/events" "events" "Streams what happens to one sandbox, until it ends." {
        answers: &[Answer::Events(shape!(event::Event))],
    };

    Health: Get "/v1/health" "server" "Liveness probe." {
        access: PUBLIC, answers: &[Answer::Json(200, shape!(service::Health))],
    };
    Ready: Get "/v1/ready" "server" "Readiness probe: 503 while the server warms up, stops, or has no node for new sandboxes." {
        access: PUBLIC, answers: &[Answer::Json(200, shape!(service::Health))], also: &[503],
    };
    Document: Get "/v1/openapi.json" "server" "This document." {
        access: PUBLIC, answers: &[Answer::Document],
    };
    Reference: Get "/docs" "server" "This document, to read." {
        access: PUBLIC, answers: &[Answer::Html],
    };
}
