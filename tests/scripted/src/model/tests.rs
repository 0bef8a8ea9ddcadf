//! The server, asked over real connections.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::*;

mod faults;
mod talk;

const KEY: &str = "canary-credential";

struct Got {
    status: u16,
    headers: http::HeaderMap,
    /// Everything that came before the end, or before the connection broke.
    body: Bytes,
    broke: bool,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The data of each event, but for the one that ends Chat Completions.
    fn events(&self) -> Vec<Value> {
        let data = self.text().lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}

async fn start(script: &str) -> Model {
    let script = Script::parse(script).unwrap();
    let credential = Some(KEY.to_owned());
    let watch = vec!["bjt_".to_owned()];
    Model::start(Options { script, credential, watch, ..Options::default() }).await.unwrap()
}

async fn send(model: &Model, request: http::request::Builder, body: Vec<u8>) -> Got {
    let stream = TcpStream::connect(model.address()).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = request.header("host", "model").body(Full::new(Bytes::from(body))).unwrap();
    let (parts, mut incoming) = client.send_request(request).await.unwrap().into_parts();
    let mut body = Vec::new();
    let mut broke = false;
    while let Some(frame) = incoming.frame().await {
        match frame {
            Ok(frame) => body.extend(frame.into_data().unwrap_or_default()),
            Err(_) => {
                broke = true;
                break;
            }
        }
    }
    Got { status: parts.status.as_u16(), headers: parts.headers, body: body.into(), broke }
}

async fn post(model: &Model, path: &str, body: &Value) -> Got {
    let request = http::Request::post(path)
        .header("authorization", format!("Bearer {KEY}"))
        .header("anthropic-version", "2023-06-01");
    send(model, request, body.to_string().into_bytes()).await
}

/// A question in each dialect, with a shell on offer.
fn question(path: &str, stream: bool) -> Value {
    let schema = json!({ "type": "object", "properties": { "command": { "type": "string" } } });
    let user = json!([{ "role": "user", "content": "What is here?" }]);
    match path {
        "/v1/messages" => json!({ "model": "m", "max_tokens": 100, "stream": stream,
            "messages": user, "tools": [{ "name": "Bash", "input_schema": schema }] }),
        "/v1/responses" => json!({ "model": "m", "stream": stream, "input": user,
            "tools": [{ "type": "function", "name": "shell", "parameters": schema }] }),
        _ => json!({ "model": "m", "stream": stream, "messages": user, "tools": [{
            "type": "function", "function": { "name": "bash", "parameters": schema } }] }),
    }
}
