//! A collector of traces: it takes spans as OTLP over HTTP, in JSON, and keeps them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    spans: Arc<Mutex<Vec<Span>>>,
    serving: AbortHandle,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    /// The run that it tells of, if it is a span of a run's own events.
    pub(crate) run: Option<String>,
}

impl Collector {
    pub(crate) async fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let spans = Arc::<Mutex<Vec<Span>>>::default();
        let serving = tokio::spawn({
            let spans = spans.clone();
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, spans.clone()));
                }
            }
        });
        Ok(Self { address, spans, serving: serving.abort_handle() })
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Takes one request. A body that is cut off is not kept, and not acknowledged.
async fn serve(mut stream: TcpStream, spans: Arc<Mutex<Vec<Span>>>) -> anyhow::Result<()> {
    let body = body(&mut stream).await?;
    let body: Value = serde_json::from_slice(&body)?;
    let found = read(&body);
    spans.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\
                  connection: close\r\n\r\n{}";
    Ok(stream.write_all(answer.as_bytes()).await?)
}

async fn body(stream: &mut TcpStream) -> anyhow::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let end = all.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&all[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.context("no length of the body")?.trim().parse()?;
            let mut body = all.split_off(end + 4);
            let from = body.len().min(length);
            body.resize(length, 0);
            stream.read_exact(&mut body[from..]).await?;
            return Ok(body);
        }
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).await?;
        anyhow::ensure!(count > 0, "the request was cut off");
        all.extend_from_slice(&chunk[..count]);
    }
}

fn read(body: &Value) -> Vec<Span> {
    let each = |of: &Value, name: &str| of[name].as_array().cloned().unwrap_or_default();
    let scopes = each(body, "resourceSpans").into_iter();
    let scopes = scopes.flat_map(|resource| each(&resource, "scopeSpans"));
    let spans = scopes.flat_map(|scope| each(&scope, "spans"));
    spans.map(|span| span_of(&span)).collect()
}

fn span_of(span: &Value) -> Span {
    let text = |name: &str| span[name].as_str().unwrap_or_default().to_owned();
    let attributes = span["attributes"].as_array();
    let run = attributes.into_iter().flatten().find(|one| one["key"] == "gen_ai.conversation.id");
    let run = run.and_then(|one| one["value"]["stringValue"].as_str()).map(str::to_owned);
    let parent = Some(text("parentSpanId")).filter(|parent| !parent.is_empty());
    let (name, trace, id) = (text("name"), text("traceId"), text("spanId"));
    Span { name, trace, id, parent, run }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spans_are_read_with_the_run_that_they_tell_of() {
        let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [
            { "name": "turn", "traceId": "t", "spanId": "a", "parentSpanId": "p", "attributes": [
                { "key": "gen_ai.conversation.id", "value": { "stringValue": "r1" } }] },
            { "name": "request", "traceId": "t", "spanId": "b", "attributes": [] },
        ] }] }] });
        let spans = read(&body);
        assert_eq!(spans.len(), 2);
        assert_eq!((spans[0].parent.as_deref(), spans[0].run.as_deref()), (Some("p"), Some("r1")));
        assert_eq!((spans[1].parent.as_deref(), spans[1].run.as_deref()), (None, None));
    }
}
