//! A client of `/v1` that does no more than it must.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use belljar_domain::SandboxId;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde_json::json;

/// Cheap to clone; connections are kept and used again.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pool: Pool<HttpConnector, Full<Bytes>>,
    base: Arc<str>,
    /// What it shows, and as what.
    proof: (&'static str, Arc<str>),
}

/// The answer to a cell.
#[derive(Debug, Deserialize)]
pub(super) struct Cell {
    pub(super) stdout: String,
    pub(super) end: CellEnd,
}

#[derive(Debug, Deserialize)]
pub(super) struct CellEnd {
    ok: bool,
    reason: String,
    pub(super) origin: Option<String>,
    usage: Usage,
}

#[derive(Debug, Deserialize)]
struct Usage {
    cpu_ms: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Made {
    pub(super) id: SandboxId,
    access_token: Option<Arc<str>>,
    direct_url: Option<Arc<str>>,
}

/// Longer than any server takes to say no.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Cell {
    /// As it was charged: whole milliseconds.
    pub(super) fn cpu(&self) -> Duration {
        Duration::from_millis(self.end.usage.cpu_ms)
    }
}

impl Client {
    pub(super) fn new(address: SocketAddr, key: String) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let pool = Pool::builder(TokioExecutor::new()).build(connector);
        Self { pool, base: format!("http://{address}").into(), proof: ("x-api-key", key.into()) }
    }

    /// A sandbox that lives for so long.
    pub(super) async fn create(&self, template: &str, life: Duration) -> anyhow::Result<SandboxId> {
        Ok(self.make(template, life).await?.id)
    }

    /// The same, with what opens it.
    pub(super) async fn make(&self, template: &str, life: Duration) -> anyhow::Result<Made> {
        let wish = json!({ "template": template, "timeout_seconds": life.as_secs() });
        let made = self.ask(Method::POST, "/v1/sandboxes", wish.to_string()).await;
        Ok(serde_json::from_slice(&made.context("create")?)?)
    }

    /// One that asks the sandbox's node itself, with the sandbox's token and no key.
    pub(super) fn direct(&self, made: &Made) -> anyhow::Result<Self> {
        let base = made.direct_url.clone().context("the response does not name the node")?;
        let token = made.access_token.clone().context("the response has no token")?;
        Ok(Self { pool: self.pool.clone(), base, proof: ("x-access-token", token) })
    }

    pub(super) async fn cell(&self, id: &SandboxId, code: &str) -> anyhow::Result<Cell> {
        let path = format!("/v1/sandboxes/{id}/contexts/python/cells");
        let ran = self.ask(Method::POST, &path, json!({ "code": code }).to_string()).await;
        let ran: Cell = serde_json::from_slice(&ran.context("a cell")?)?;
        ensure!(ran.end.ok, "a cell ended as {}", ran.end.reason);
        Ok(ran)
    }

    /// Runs a program that says nothing and succeeds.
    pub(super) async fn call(&self, id: &SandboxId) -> anyhow::Result<()> {
        let path = format!("/v1/sandboxes/{id}/calls");
        let ran = self.ask(Method::POST, &path, json!({ "argv": ["/bin/true"] }).to_string());
        let ran: serde_json::Value = serde_json::from_slice(&ran.await.context("a call")?)?;
        ensure!(ran["end"]["exit_code"] == 0, "a call ended as {}", ran["end"]["reason"]);
        Ok(())
    }

    pub(super) async fn upload(
        &self,
        id: &SandboxId,
        name: &str,
        content: Bytes,
    ) -> anyhow::Result<()> {
        let path = format!("/v1/sandboxes/{id}/files/content?path={name}");
        self.ask(Method::PUT, &path, content).await.context("an upload")?;
        Ok(())
    }

    pub(super) async fn download(&self, id: &SandboxId, name: &str) -> anyhow::Result<Bytes> {
        let path = format!("/v1/sandboxes/{id}/files/content?path={name}");
        self.ask(Method::GET, &path, Bytes::new()).await.context("a download")
    }

    pub(super) async fn delete(&self, id: &SandboxId) -> anyhow::Result<()> {
        let path = format!("/v1/sandboxes/{id}");
        self.ask(Method::DELETE, &path, Bytes::new()).await.context("a delete")?;
        Ok(())
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Bytes> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(self.proof.0, &*self.proof.1)
            .body(Full::new(body.into()))?;
        let asked = async {
            let response = self.pool.request(request).await?;
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
            Ok(body)
        };
        tokio::time::timeout(TIMEOUT, asked).await.context("no response within a minute")?
    }
}
