//! The model of both agents: it answers at once, in the dialect of Anthropic.
//!
//! It knows the agent, and the role of a pipeline's, by the tool that it is offered.

use std::io;
use std::net::SocketAddr;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::super::runs::model::{HEAD, chunk, request};
use super::super::runs::script::{called, said};

pub(super) const QUESTION: &str = "How many days are six weeks, all together?";
/// The result of every run.
pub(super) const RESULT: &str = "42";
const PROGRAM: &str = "print(6 * 7)\n";
const BROKEN: &str = "print(6 * seven)\n";
/// Calls of `react` before its answer, as many as a pipeline has programs.
const CALLS: usize = 2;

/// A model in this process; it ends with this.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Model {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A gateway that leaves in the middle is ended.
                tokio::spawn(async move { drop(converse(stream).await) });
            }
        });
        Ok(Self { address, accepting })
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn converse(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(body) = request(&mut stream, &mut buffer).await? {
        let body: Value = serde_json::from_slice(&body)?;
        let events: String = answer(&body).iter().map(|event| chunk(event)).collect();
        stream.write_all(format!("{HEAD}{events}0\r\n\r\n").as_bytes()).await?;
    }
    Ok(())
}

/// The events of the answer to a request.
fn answer(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().map_or(&[][..], Vec::as_slice);
    let offers = |name: &str| tools.iter().any(|tool| tool["name"] == name);
    let artifact = |code: &str| json!({ "filename": "main.py", "code": code, "run_command": "python3 main.py" });
    if offers("submit_plan") {
        let plan = json!({ "language": "python", "task": "print a product", "output": "text" });
        return called("plan", "submit_plan", &plan);
    }
    if offers("submit_code") {
        return called("code", "submit_code", &artifact(BROKEN));
    }
    if offers("submit_diagnosis") {
        let artifact = artifact(PROGRAM);
        let diagnosis = json!({ "category": "name", "cause": "No number.", "artifact": artifact });
        return called("diagnosis", "submit_diagnosis", &diagnosis);
    }
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let turn = messages.iter().filter(|message| message["role"] == "assistant").count();
    match turn < CALLS {
        true => called(&turn.to_string(), "execute_python", &json!({ "code": PROGRAM })),
        false => said("end", RESULT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_is_answered_with_its_tool_and_react_ends_after_its_calls() {
        for tool in ["submit_plan", "submit_code", "submit_diagnosis"] {
            let body = json!({ "tools": [{ "name": tool }], "messages": [] });
            assert!(answer(&body).concat().contains(tool), "{tool}");
        }
        let asked = |turns: usize| {
            let messages = vec![json!({ "role": "assistant", "content": [] }); turns];
            let tools = json!([{ "name": "execute_python" }, { "name": "finish" }]);
            answer(&json!({ "tools": tools, "messages": messages })).concat()
        };
        assert!(asked(0).contains("execute_python") && asked(1).contains("execute_python"));
        assert!(asked(2).contains(RESULT) && !asked(2).contains("execute_python"));
    }
}
