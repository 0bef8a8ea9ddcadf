//! Sends spans away, beside everything else.
//!
//! Whoever ends a span puts it into a queue that is never waited for. When the
//! queue is full, or whoever receives spans does not take them, they are dropped
//! and counted.

use std::time::Duration;

use http::{Request, header};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::Finished;
use super::endpoint::{Endpoint, EndpointError};
use super::otlp::Resource;
use crate::metrics::metrics;
use crate::start::Role;

/// Spans that may wait.
const WAITING: usize = 4096;
/// Spans that are sent at once, and how long the first waits for others.
const BATCH: usize = 512;
const GATHER: Duration = Duration::from_secs(1);
/// How long one batch may take, and the last one.
const PATIENCE: Duration = Duration::from_secs(5);
const LAST_PATIENCE: Duration = Duration::from_secs(2);
/// How often a receiver that is away is spoken of.
const COMPLAIN: Duration = Duration::from_secs(60);

/// Where ended spans go.
#[derive(Debug, Clone)]
pub(crate) struct Queue(mpsc::Sender<Finished>);

impl Queue {
    pub(crate) fn push(&self, span: Finished) {
        if span.context.sampled && self.0.try_send(span).is_err() {
            metrics().spans_dropped("queue_full", 1);
        }
    }
}

/// Why a batch was not taken.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error("cannot reach the trace receiver")]
    Connect(#[source] std::io::Error),
    #[error("the trace receiver does not speak HTTP")]
    Http(#[source] hyper::Error),
    #[error("cannot write the request")]
    Request(#[source] http::Error),
    #[error("the trace receiver answered {0}")]
    Refused(http::StatusCode),
    #[error("the trace receiver did not answer in time")]
    Late,
}

#[derive(Debug)]
pub(crate) struct Exporter {
    queue: Queue,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

struct Sender {
    endpoint: Endpoint,
    resource: Resource,
    complained: Option<Instant>,
}

impl Exporter {
    pub(crate) fn start(
        url: &str,
        role: Role,
        instance: Option<&str>,
    ) -> Result<Self, EndpointError> {
        let endpoint = Endpoint::parse(url)?;
        let (sender, waiting) = mpsc::channel(WAITING);
        let (stop, stopped) = oneshot::channel();
        let work = Sender { endpoint, resource: Resource::new(role, instance), complained: None };
        let task = tokio::spawn(work.run(waiting, stopped));
        Ok(Self { queue: Queue(sender), stop, task })
    }

    pub(crate) fn queue(&self) -> Queue {
        self.queue.clone()
    }

    /// Sends what waits and ends.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        let _ = timeout(LAST_PATIENCE + Duration::from_millis(100), self.task).await;
    }
}

impl Sender {
    async fn run(
        mut self,
        mut waiting: mpsc::Receiver<Finished>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                // To be told, or to be forgotten, is the same.
                _ = &mut stopped => break,
                got = gather(&mut waiting, &mut batch) => if got == 0 { return },
            }
            self.deliver(&mut batch, PATIENCE).await;
        }
        let until = Instant::now() + LAST_PATIENCE;
        waiting.close();
        loop {
            while batch.len() < BATCH
                && let Ok(span) = waiting.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                return;
            }
            self.deliver(&mut batch, until.saturating_duration_since(Instant::now())).await;
        }
    }

    async fn deliver(&mut self, batch: &mut Vec<Finished>, patience: Duration) {
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let body = self.resource.request(batch);
        batch.clear();
        let sent = timeout(patience, self.send(body)).await;
        match sent.unwrap_or(Err(SendError::Late)) {
            Ok(()) => metrics().spans_sent(count),
            Err(error) => {
                metrics().spans_dropped("not_taken", count);
                let quiet = self.complained.is_some_and(|last| last.elapsed() < COMPLAIN);
                if !quiet {
                    self.complained = Some(Instant::now());
                    let error = &error as &dyn std::error::Error;
                    let to = &self.endpoint.authority;
                    tracing::warn!(to, error, "traces dropped: receiver unavailable");
                }
            }
        }
    }

    /// A connection for each batch: there is one a second at most, and whoever
    /// receives it may have been restarted since.
    async fn send(&self, body: Vec<u8>) -> Result<(), SendError> {
        let stream = TcpStream::connect(&self.endpoint.address).await;
        let stream = TokioIo::new(stream.map_err(SendError::Connect)?);
        let (mut client, connection) = http1::handshake(stream).await.map_err(SendError::Http)?;
        let request = Request::post(&self.endpoint.path)
            .header(header::HOST, &self.endpoint.authority)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONNECTION, "close")
            .body(Full::new(Bytes::from(body)))
            .map_err(SendError::Request)?;
        let answer = async {
            let answer = client.send_request(request).await.map_err(SendError::Http)?;
            let status = answer.status();
            if status.is_success() { Ok(()) } else { Err(SendError::Refused(status)) }
        };
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            answered = &mut answer => answered,
            // The connection may be over the moment its answer is here.
            _ = connection => answer.await,
        }
    }
}

/// Waits for a span, and a while for others; nothing of `batch` is lost when
/// this is dropped half-way.
async fn gather(waiting: &mut mpsc::Receiver<Finished>, batch: &mut Vec<Finished>) -> usize {
    if waiting.recv_many(batch, 1).await == 0 {
        return batch.len();
    }
    let until = Instant::now() + GATHER;
    while batch.len() < BATCH {
        let room = BATCH - batch.len();
        match timeout_at(until, waiting.recv_many(batch, room)).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    batch.len()
}
