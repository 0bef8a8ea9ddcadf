//! `POST /v1/sandboxes/{sandbox}/calls`

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use belljar_actions::{
    Actions, Following, Happened, Leaving, Live, Problem, ProcessInput, Sandbox, Selector,
    StartProcess, Stream,
};
use belljar_api::call as api;
use belljar_node::Capture;
use http::{HeaderMap, StatusCode, header};

use super::{events, reach, user, view};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::output;
use crate::v1::read::{At, Body};

/// Output of each stream that is kept for who waits.
const KEPT: usize = 4 << 20;

pub(in crate::v1) async fn run(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    headers: HeaderMap,
    Body(wish): Body<api::RunCall>,
) -> Result<Response, Failure> {
    let (sandbox, live) = reach(&actions, &tenant, &id).await?;
    let (background, encoding) = (wish.background, wish.output);
    let (stdin, stdin_open) = (wish.stdin.clone(), wish.stdin_open);
    let start = translate(&sandbox, wish)?;
    let following = actions.start_process(&sandbox, &live, start).await?;
    give_input(&live, following.pid(), stdin, stdin_open).await;
    if background {
        let process = live.processes.recall(&Selector::Pid(following.pid()))?;
        return Ok((StatusCode::CREATED, Json(view(&process, process.ending()))).into_response());
    }
    if wants_events(&headers) {
        return Ok(events::stream(following, encoding).into_response());
    }
    Ok(Json(collect(following, encoding).await).into_response())
}

fn translate(sandbox: &Sandbox, wish: api::RunCall) -> Result<StartProcess, Problem> {
    let mut argv: Vec<String> = wish.argv.into_iter().map(String::from).collect();
    match wish.script {
        Some(script) if argv.is_empty() => {
            argv = vec!["/bin/sh".to_owned(), "-c".to_owned(), script.into()];
        }
        None if !argv.is_empty() => {}
        _ => return Err(Problem::invalid("say either argv or script")),
    }
    let args = argv.split_off(1);
    let asked = wish.timeout_ms.map(|millis| Duration::from_millis(millis.get()));
    let limit = sandbox.template().limits.wall;
    Ok(StartProcess {
        cmd: argv.pop().unwrap_or_default(),
        args,
        envs: wish.env,
        cwd: wish.cwd.map(String::from).or_else(|| sandbox.template().workdir().map(str::to_owned)),
        user: user(sandbox, wish.user),
        stdin: wish.stdin.is_some() || wish.stdin_open,
        timeout: if wish.background { asked } else { Some(asked.unwrap_or(limit)) },
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

async fn collect(mut following: Following, encoding: api::Encoding) -> api::Finished {
    let (mut stdout, mut stderr) = (Capture::new(KEPT), Capture::new(KEPT));
    loop {
        match following.next().await {
            Happened::Output(Stream::Stderr, bytes) => stderr.push(&bytes),
            Happened::Output(_, bytes) => stdout.push(&bytes),
            Happened::Ended(end) => {
                return api::Finished {
                    id: following.pid(),
                    number: following.number(),
                    stdout: output::captured(&stdout.finish(), encoding),
                    stderr: output::captured(&stderr.finish(), encoding),
                    end: end.end.into(),
                };
            }
        }
    }
}
