//! Creates runs at a rate, by both replicas in turn; a replica that fails is left out once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_domain::RunId;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;

use super::MODEL;
use super::model::question;
use super::patience::Patience;

/// Time in which some run is created, on an idle machine: longer than a replica takes to come back.
const PATIENCE: Duration = Duration::from_secs(120);
const TIMEOUT: Duration = Duration::from_secs(120);
const AGAIN: Duration = Duration::from_millis(200);

/// A client of all replicas; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pool: Pool<HttpConnector, Full<Bytes>>,
    replicas: Arc<[SocketAddr]>,
    key: Arc<str>,
    /// Runs that were created by all clones.
    created: Arc<AtomicU32>,
}

/// A run that was created.
#[derive(Debug, Clone)]
pub(super) struct CreatedRun {
    pub(super) number: u32,
    pub(super) id: RunId,
    pub(super) took: Duration,
}

#[derive(Debug, Deserialize)]
struct Run {
    id: String,
}

impl Client {
    pub(super) fn new(replicas: &[SocketAddr], key: String) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let pool = Pool::builder(TokioExecutor::new()).build(connector);
        Self { pool, replicas: replicas.into(), key: key.into(), created: Arc::default() }
    }

    /// Creates a run, at the first replica that answers. A repetition finds the same run.
    pub(super) async fn create(&self, number: u32) -> anyhow::Result<CreatedRun> {
        let wish = json!({ "question": question(number), "operation": "llm", "model": MODEL });
        let wish = Bytes::from(wish.to_string());
        let began = Instant::now();
        let advance = || self.created.load(Ordering::Relaxed);
        let mut patience = Patience::new(PATIENCE, advance());
        for attempt in number as usize.. {
            let replica = self.replicas[attempt % self.replicas.len()];
            let asked = tokio::time::timeout(TIMEOUT, self.post(replica, number, wish.clone()));
            match asked.await {
                Ok(Ok((status, body))) if status.is_success() => {
                    let run: Run = serde_json::from_slice(&body)?;
                    let id = run.id.parse().context("the id of the run is not valid")?;
                    self.created.fetch_add(1, Ordering::Relaxed);
                    return Ok(CreatedRun { number, id, took: began.elapsed() });
                }
                Ok(Ok((status, body))) if status.is_client_error() => {
                    anyhow::bail!("{status}: {}", String::from_utf8_lossy(&body));
                }
                last => ensure!(
                    !patience.is_over(advance()),
                    "no replica creates it: {}: {last:?}",
                    patience.reason()
                ),
            }
            tokio::time::sleep(AGAIN).await;
        }
        anyhow::bail!("no replica creates it")
    }

    async fn post(
        &self,
        replica: SocketAddr,
        number: u32,
        wish: Bytes,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://{replica}/v1/runs"))
            .header("x-api-key", &*self.key)
            .header("idempotency-key", format!("run-{number}"))
            .header("content-type", "application/json")
            .body(Full::new(wish))?;
        let response = self.pool.request(request).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }
}

/// Creates so many runs, evenly, whatever becomes of them; answers them, and how long it took.
pub(super) async fn create(
    client: &Client,
    count: u32,
    rate: f64,
) -> anyhow::Result<(Vec<CreatedRun>, Duration)> {
    let begin = Instant::now();
    let mut creating = JoinSet::new();
    for number in 0..count {
        let due = begin + Duration::from_secs_f64(f64::from(number) / rate);
        tokio::time::sleep_until(due.into()).await;
        let client = client.clone();
        creating.spawn(async move { client.create(number).await });
    }
    let mut created = Vec::new();
    while let Some(one) = creating.join_next().await {
        created.push(one?.context("cannot create a run")?);
    }
    Ok((created, begin.elapsed()))
}
