//! `POST /v1/sandboxes/{sandbox}/calls`

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use belljar_api::bounds::Millis;
use belljar_api::call as api;
use belljar_sandboxes::{
    Actions, Asked, Leaving, Live, OnceCommand, Problem, ProcessInput, Said, Sandbox, Selector,
    StartProcess, Tenant, Told,
};
use futures_util::FutureExt as _;
use http::{HeaderMap, StatusCode, header};

use super::gather::gather;
use super::source::{Source, started};
use super::{events, reach, user, view};
use crate::v1::attribution::attribution;
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::hint::Hints;
use crate::v1::once;
use crate::v1::read::{At, Body};

pub(in crate::v1) async fn run(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    headers: HeaderMap,
    Body(wish): Body<api::RunCall>,
) -> Result<Response, Failure> {
    if let Some(asked) = once::asked(&headers, "call", &wish)? {
        return run_once(&actions, &tenant, &id, &headers, asked, wish).await;
    }
    let (sandbox, live) = reach(&actions, &tenant, &id).await?;
    let (background, encoding) = (wish.background, wish.output);
    let (stdin, stdin_open) = (wish.stdin.clone(), wish.stdin_open);
    let mut start = translate(&sandbox, wish)?;
    start.attribution = attribution(&headers)?;
    let following = actions.start_process(&sandbox, &live, start).await?;
    let (pid, number) = (following.pid(), following.number());
    give_input(&live, pid, stdin, stdin_open).await;
    if background {
        let process = live.processes.recall(&Selector::Pid(pid))?;
        return Ok((StatusCode::CREATED, Json(view(&process, process.ending()))).into_response());
    }
    let hints = Hints::new(&sandbox);
    Ok(tell((pid, number), Source::Live(following), &headers, encoding, hints).await)
}

/// The same for a request that bears a key.
async fn run_once(
    actions: &Actions,
    tenant: &Tenant,
    id: &str,
    headers: &HeaderMap,
    asked: Asked,
    mut wish: api::RunCall,
) -> Result<Response, Failure> {
    let sandbox = actions.registry().find(tenant, id)?;
    let (background, encoding) = (wish.background, wish.output);
    let (stdin, closes) = (wish.stdin.take(), !wish.stdin_open);
    let mut start = translate(&sandbox, wish)?;
    start.stdin |= stdin.is_some();
    start.attribution = attribution(headers)?;
    let argv = std::iter::once(start.cmd.clone()).chain(start.args.iter().cloned()).collect();
    let cwd = start.cwd.clone();
    let stdin = stdin.map(String::into_bytes);
    let command = OnceCommand { start, stdin, closes, keeps_output: !background };
    let heard = actions.call_once(&sandbox, &asked, command).await?;
    let mut listening = heard.listening;
    let (pid, number) = started(&mut listening).await?;
    let response = if background {
        let end = match listening.next().now_or_never() {
            Some(Some(Told::Said(Said::Ended(end)))) => Some(end.into()),
            _ => None,
        };
        let call = api::Call { id: pid, number, argv, cwd, end };
        (StatusCode::CREATED, Json(call)).into_response()
    } else {
        let hints = Hints::new(&sandbox);
        tell((pid, number), Source::Kept(listening), headers, encoding, hints).await
    };
    Ok(once::mark(response, heard.is_repeated))
}

/// What becomes of a call, as whoever asked wants to hear it.
async fn tell(
    call: (u32, u32),
    source: Source,
    headers: &HeaderMap,
    encoding: api::Encoding,
    hints: Hints,
) -> Response {
    if wants_events(headers) {
        return events::stream(call, source, encoding, hints).into_response();
    }
    Json(gather(call, source, encoding, hints).await).into_response()
}

fn translate(sandbox: &Sandbox, wish: api::RunCall) -> Result<StartProcess, Problem> {
    let mut argv: Vec<String> = wish.argv.into_iter().map(String::from).collect();
    match wish.script {
        Some(script) if argv.is_empty() => {
            argv = vec!["/bin/sh".to_owned(), "-c".to_owned(), script.into()];
        }
        None if !argv.is_empty() => {}
        _ => return Err(Problem::invalid("give either argv or script")),
    }
    let args = argv.split_off(1);
    let time = |millis: Millis| Duration::from_millis(millis.get());
    let asked = wish.timeout_ms.map(time);
    let limit = sandbox.limits().wall;
    Ok(StartProcess {
        cmd: argv.pop().unwrap_or_default(),
        args,
        envs: wish.env,
        cwd: wish.cwd.map(String::from).or_else(|| sandbox.template().workdir().map(str::to_owned)),
        user: user(sandbox, wish.user),
        stdin: wish.stdin.is_some() || wish.stdin_open,
        timeout: if wish.background { asked } else { Some(asked.unwrap_or(limit)) },
        cpu: wish.cpu_ms.map(time),
        leaving: if wish.background { Leaving::Stay } else { Leaving::End },
        ..StartProcess::default()
    })
}

async fn give_input(live: &Live, pid: u32, stdin: Option<String>, stays_open: bool) {
    // A call that is over already reads nothing.
    let Ok(process) = live.processes.find(&Selector::Pid(pid)) else { return };
    if let Some(stdin) = stdin {
        let _ = process.write(ProcessInput::Stdin(stdin.into_bytes())).await;
        if !stays_open {
            let _ = process.close_stdin();
        }
    }
}

pub(in crate::v1) fn wants_events(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/event-stream"))
}
