//! `process.Process`: starting processes and following them.

mod events;
mod input;
mod messages;

use axum::body::Body;
use axum::response::Response;
use belljar_node::PtySize;
use belljar_sandboxes::{Selector, StartProcess};
use serde_json::{Value, json};

use super::Visit;
use super::connect::{self, Code, Error, Messages};
use crate::json;
use messages::{
    ConnectRequest, SendInputRequest, SendSignalRequest, Size, StartRequest, UpdateRequest, Which,
};

pub(super) async fn serve(visit: &Visit, method: &str, body: Body) -> Option<Response> {
    Some(match method {
        "Start" => connect_stream(start(visit, body).await),
        "Connect" => connect_stream(follow(visit, body).await),
        "StreamInput" => connect::streamed_once(input::stream(visit, body).await),
        "List" => connect::answer(Ok(list(visit))),
        "SendInput" => connect::answer(visit.in_time(send_input(visit, body)).await),
        "CloseStdin" => connect::answer(close_stdin(visit, body).await),
        "SendSignal" => connect::answer(visit.in_time(send_signal(visit, body)).await),
        "Update" => connect::answer(visit.in_time(update(visit, body)).await),
        _ => return None,
    })
}

fn connect_stream(opened: Result<events::Events, Error>) -> Response {
    match opened {
        Ok(events) => connect::streamed(events.into_stream()),
        Err(error) => connect::streamed_once(Err(error)),
    }
}

async fn start(visit: &Visit, body: Body) -> Result<events::Events, Error> {
    let request: StartRequest = Messages::new(body).only().await?;
    let process = request.process.unwrap_or_default();
    let wish = StartProcess {
        cmd: process.cmd,
        args: process.args,
        envs: process.envs,
        surroundings: visit.own_env(),
        cwd: process.cwd.filter(|cwd| !cwd.is_empty()),
        user: visit.user()?,
        pty: request.pty.map(|pty| pty.size.into()),
        stdin: request.stdin.unwrap_or(true),
        tag: request.tag,
        timeout: visit.timeout()?,
        ..StartProcess::default()
    };
    let started = visit.actions.start_process(&visit.sandbox, &visit.live, wish).await?;
    events::Events::new(visit, started)
}

async fn follow(visit: &Visit, body: Body) -> Result<events::Events, Error> {
    let request: ConnectRequest = Messages::new(body).only().await?;
    let following = visit.live.processes.follow(&selector(request.process)?)?;
    events::Events::new(visit, following)
}

fn selector(which: Which) -> Result<Selector, Error> {
    match which {
        Which { tag: Some(tag), .. } => Ok(Selector::Tag(tag)),
        Which { pid: Some(pid), .. } => Ok(Selector::Pid(pid)),
        Which { .. } => Err(Error::new(Code::Unimplemented, "a process is named by pid or tag")),
    }
}

fn list(visit: &Visit) -> Value {
    let running = visit.live.processes.list();
    let all = running.iter().map(|process| {
        let mut config =
            json!({ "cmd": process.cmd(), "args": process.args(), "envs": process.envs() });
        if let Some(cwd) = process.cwd() {
            json::set(&mut config, "cwd", cwd);
        }
        let mut entry = json!({ "config": config, "pid": process.pid() });
        if let Some(tag) = process.tag() {
            json::set(&mut entry, "tag", tag.as_str());
        }
        entry
    });
    json!({ "processes": all.collect::<Vec<_>>() })
}

async fn send_input(visit: &Visit, body: Body) -> Result<Value, Error> {
    let request: SendInputRequest = connect::unary(body).await?;
    let process = visit.live.processes.find(&selector(request.process)?)?;
    process.write(request.input.try_into()?).await?;
    Ok(json!({}))
}

async fn close_stdin(visit: &Visit, body: Body) -> Result<Value, Error> {
    let request: ConnectRequest = connect::unary(body).await?;
    visit.live.processes.find(&selector(request.process)?)?.close_stdin()?;
    Ok(json!({}))
}

async fn send_signal(visit: &Visit, body: Body) -> Result<Value, Error> {
    let request: SendSignalRequest = connect::unary(body).await?;
    let process = visit.live.processes.find(&selector(request.process)?)?;
    let signal = match request.signal.as_str() {
        Some("SIGNAL_SIGKILL") => 9,
        Some("SIGNAL_SIGTERM") => 15,
        // The number of an enumeration's value, which is the signal's own.
        _ => match request.signal.as_i64() {
            Some(9) => 9,
            Some(15) => 15,
            _ => {
                let message = format!("invalid signal: {}", request.signal);
                return Err(Error::new(Code::Unimplemented, message));
            }
        },
    };
    process.signal(signal).await?;
    Ok(json!({}))
}

async fn update(visit: &Visit, body: Body) -> Result<Value, Error> {
    let request: UpdateRequest = connect::unary(body).await?;
    let process = visit.live.processes.find(&selector(request.process)?)?;
    if let Some(pty) = request.pty {
        process.resize(pty.size.into()).await?;
    }
    Ok(json!({}))
}

impl From<Size> for PtySize {
    fn from(size: Size) -> Self {
        let short = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
        Self { rows: short(size.rows), cols: short(size.cols) }
    }
}
