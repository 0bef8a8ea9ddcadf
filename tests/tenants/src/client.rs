//! A plain HTTP client: one connection for each request, nothing hidden.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use belljar_testkit::{Undecided, ensure_in_time};
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::oracle;

/// What has not come by then does not come, also on a small machine that others use. How
/// long it took is told as a figure.
pub(crate) const HANG_LIMIT: Duration = Duration::from_secs(60);

/// One tenant, or nobody, and how it talks to the server.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) key: Option<String>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// An answer that is still coming.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) status: u16,
    body: Incoming,
    seen: String,
}

/// What became of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Text,
    Closed,
    Silence,
}

impl Client {
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Answer> {
        self.send_with(method, path, &[], body).await
    }

    pub(crate) async fn json(
        &self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<Answer> {
        self.send(method, path, body.to_string()).await
    }

    pub(crate) async fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Answer> {
        let answer = self.request(method, path, headers, body.into());
        let answer = tokio::time::timeout(HANG_LIMIT, answer).await;
        let answer = answer.with_context(|| format!("no answer to {method} {path}"))??;
        whole(answer).await
    }

    /// Begins an answer that comes as events.
    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Stream> {
        let answer = self.request(method, path, headers, body.into()).await?;
        let status = answer.status().as_u16();
        Ok(Stream { status, body: answer.into_body(), seen: String::new() })
    }

    async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> anyhow::Result<http::Response<Incoming>> {
        let stream = TcpStream::connect(self.address).await?;
        let key = self.key.as_deref().map(|key| ("x-api-key", key));
        if let Some(key) = &self.key {
            oracle::keep_secret(key);
        }
        let host = self.address.to_string();
        let headers: Vec<_> =
            [("host", host.as_str())].into_iter().chain(key).chain(headers.to_vec()).collect();
        exchange(stream, method, path, &headers, body).await
    }
}

/// One request over a stream.
pub(crate) async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Bytes,
) -> anyhow::Result<http::Response<Incoming>> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path);
    if !body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = sender.send_request(request.body(Full::new(body))?).await;
    answer.with_context(|| format!("{method} {path}"))
}

/// Reads an answer to its end; of a stream, only its beginning.
pub(crate) async fn whole(answer: http::Response<Incoming>) -> anyhow::Result<Answer> {
    let (parts, body) = answer.into_parts();
    let (status, headers) = (parts.status.as_u16(), parts.headers);
    if is_stream(&headers) {
        return Ok(Answer { status, headers, body: Bytes::new() });
    }
    let body = body.collect().await?.to_bytes();
    oracle::note_answer(&body);
    Ok(Answer { status, headers, body })
}

fn is_stream(headers: &HeaderMap) -> bool {
    headers.get("content-type").is_some_and(|kind| kind == "text/event-stream")
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn value(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("not JSON: {}", self.text()))
    }

    /// The answer, if its status is this one.
    pub(crate) fn expect(self, status: u16) -> anyhow::Result<Self> {
        if self.status == status {
            return Ok(self);
        }
        let said = format!("{} instead of {status}: {}", self.status, self.text());
        // A server that fails has let nobody in.
        if self.status >= 500 { Err(Undecided(said).into()) } else { bail!(said) }
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The error's code, from an envelope that is complete.
    pub(crate) fn code(&self) -> anyhow::Result<String> {
        let value = self.value()?;
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let (Some(code), Some(_), Some(id)) = (text("code"), text("message"), text("request_id"))
        else {
            bail!("not an error of ours: {value}");
        };
        let header = self.headers.get("x-request-id").and_then(|id| id.to_str().ok());
        ensure!(header == Some(id.as_str()), "the header names another request: {header:?}, {id}");
        Ok(code)
    }
}

impl Stream {
    /// What has come so far.
    pub(crate) fn seen(&self) -> &str {
        &self.seen
    }

    /// Waits for more, for so long.
    pub(crate) async fn next(&mut self, patience: Duration) -> Next {
        match tokio::time::timeout(patience, self.body.frame()).await {
            Err(_) => Next::Silence,
            Ok(Some(Ok(frame))) => {
                if let Some(bytes) = frame.data_ref() {
                    self.seen.push_str(&String::from_utf8_lossy(bytes));
                }
                Next::Text
            }
            Ok(None | Some(Err(_))) => Next::Closed,
        }
    }

    /// Waits until the stream has said this.
    pub(crate) async fn until(&mut self, text: &str) -> anyhow::Result<()> {
        let end = tokio::time::Instant::now() + HANG_LIMIT;
        while !self.seen.contains(text) {
            let left = end.saturating_duration_since(tokio::time::Instant::now());
            match self.next(left).await {
                Next::Text => {}
                other => {
                    ensure_in_time!(false, "{other:?} before {text:?}; seen: {}", self.seen);
                }
            }
        }
        Ok(())
    }
}
