//! `StreamInput`: one process's input, as it arrives.

use std::sync::Arc;

use axum::body::Body;
use belljar_sandboxes::Process;
use serde_json::{Value, json};

use super::messages::StreamInputRequest;
use super::selector;
use crate::envd::Visit;
use crate::envd::connect::{Code, Error, Messages};

pub(super) async fn stream(visit: &Visit, body: Body) -> Result<Value, Error> {
    tokio::select! {
        done = pass_on(visit, body) => done,
        () = visit.sandbox.interrupted() => Err(Error::gone()),
    }
}

async fn pass_on(visit: &Visit, body: Body) -> Result<Value, Error> {
    let mut messages = Messages::new(body);
    let mut process: Option<Arc<Process>> = None;
    while let Some(message) = messages.next::<StreamInputRequest>().await? {
        match (message, &process) {
            (StreamInputRequest { start: Some(start), .. }, _) => {
                process = Some(visit.live.processes.find(&selector(start.process)?)?);
            }
            (StreamInputRequest { data: Some(data), .. }, Some(process)) => {
                process.write(data.input.try_into()?).await?;
            }
            (StreamInputRequest { data: Some(_), .. }, None) => {
                return Err(Error::invalid("the first message must name a process"));
            }
            (StreamInputRequest { keepalive: Some(_), .. }, _) => {}
            _ => return Err(Error::new(Code::Unimplemented, "a message without an event")),
        }
    }
    Ok(json!({}))
}
