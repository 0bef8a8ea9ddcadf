//! A client that does no more than it must.

use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::Iteration;

/// One sandbox, from the request to the answer of Python; then it is killed,
/// in nobody's time.
pub(super) async fn interactive(address: &str, key: &str, template: &str) -> Iteration {
    let begin = Instant::now();
    let asked = tokio::time::timeout(super::TIMEOUT, ask(address, key, template, begin)).await;
    match asked {
        Ok(Ok(iteration)) => iteration,
        Ok(Err(error)) => Iteration::failed(format!("{error:#}")),
        Err(_) => Iteration::failed("it took too long".to_owned()),
    }
}

async fn ask(
    address: &str,
    key: &str,
    template: &str,
    begin: Instant,
) -> anyhow::Result<Iteration> {
    let mut server = connect(address).await?;
    let wish = json!({ "templateID": template, "timeout": 60 });
    let create = Request::post("/v2/sandboxes")
        .header("host", address)
        .header("x-api-key", key)
        .header("content-type", "application/json")
        .body(Full::from(wish.to_string()))?;
    let made: Value = serde_json::from_slice(&body(server.send_request(create).await?).await?)?;
    let id = made["sandboxID"].as_str().context("the response has no id")?.to_owned();
    let token = made["envdAccessToken"].as_str().unwrap_or_default();

    let args = ["-l", "-c", "python3 --version"];
    let process = json!({ "process": { "cmd": "/bin/bash", "args": args }, "stdin": false });
    let start = Request::post("/process.Process/Start")
        .header("host", address)
        .header("e2b-sandbox-id", &id)
        .header("e2b-sandbox-port", "49983")
        .header("x-access-token", token)
        .header("content-type", "application/connect+json")
        .header("connect-protocol-version", "1")
        .body(Full::from(envelope(&process)))?;
    let answer = body(server.send_request(start).await?).await?;
    let took = begin.elapsed();
    ensure!(
        output(&answer)?.starts_with(b"Python 3"),
        "it said {:?}",
        String::from_utf8_lossy(&answer)
    );

    let kill = Request::delete(format!("/sandboxes/{id}"))
        .header("host", address)
        .header("x-api-key", key)
        .body(Full::default())?;
    body(server.send_request(kill).await?).await?;
    Ok(Iteration { tti_ms: took.as_secs_f64() * 1e3, error: None })
}

async fn connect(address: &str) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await.context("cannot connect")?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn body(response: Response<Incoming>) -> anyhow::Result<Bytes> {
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    if !status.is_success() {
        bail!("{status}: {}", String::from_utf8_lossy(&body));
    }
    Ok(body)
}

/// A message of a stream: flags, length, JSON.
fn envelope(message: &Value) -> Vec<u8> {
    let text = message.to_string();
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], text.as_bytes()].concat()
}

/// What the process printed, if it came to a good end.
fn output(mut stream: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut printed = Vec::new();
    let mut done = false;
    while let Some((head, rest)) = stream.split_first_chunk::<5>() {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        ensure!(length <= rest.len(), "the stream was cut short");
        let (message, later) = rest.split_at(length);
        stream = later;
        let message: Value = serde_json::from_slice(message)?;
        let event = &message["event"];
        if let Some(data) = event["data"]["stdout"].as_str() {
            printed.extend(decode(data)?);
        }
        done |= event["end"].is_object();
        ensure!(message["error"].is_null(), "the stream ended with {}", message["error"]);
    }
    ensure!(done, "the process has no end");
    Ok(printed)
}

fn decode(text: &str) -> anyhow::Result<Vec<u8>> {
    use base64::Engine as _;
    Ok(base64::engine::general_purpose::STANDARD.decode(text)?)
}
