//! Sends spans away, beside everything else.
//!
//! A span that ends goes into a queue that is never waited for. A batch that the
//! receiver does not take is sent again for a while, as OTLP allows it. What does
//! not fit the queue, and what is too old, is dropped and counted.

use std::time::Duration;

use http::header::{self, HeaderName, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use super::endpoint::{Endpoint, EndpointError};
use super::options::{ExportOptions, headers};
use super::otlp::Resource;
use super::{Finished, context, tls};
use crate::metrics::metrics;
use crate::start::Role;

/// Spans that may wait.
const WAITING: usize = 4096;
/// Spans that are sent at once, and how long the first waits for others.
const BATCH: usize = 512;
const GATHER: Duration = Duration::from_secs(1);
/// The longest time of one attempt, and of all last batches together.
const PATIENCE: Duration = Duration::from_secs(5);
const LAST_PATIENCE: Duration = Duration::from_secs(2);
/// A batch is tried again for so long. The first wait, which is doubled each time.
const RETRY_WINDOW: Duration = Duration::from_secs(20);
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
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
    #[error("TLS with the trace receiver failed")]
    Tls(#[source] std::io::Error),
    #[error("the trace receiver does not speak HTTP")]
    Http(#[source] hyper::Error),
    #[error("cannot write the request")]
    Request(#[source] http::Error),
    #[error("the trace receiver answered {status}")]
    Refused { status: StatusCode, retry_after: Option<Duration> },
    #[error("the trace receiver did not answer in time")]
    Late,
}

impl SendError {
    /// Returns true if OTLP lets the same batch be sent again.
    fn is_retryable(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Tls(_) | Self::Http(_) | Self::Late => true,
            Self::Refused { status, .. } => matches!(status.as_u16(), 429 | 502 | 503 | 504),
            Self::Request(_) => false,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Exporter {
    queue: Queue,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

struct Sender {
    endpoint: Endpoint,
    tls: Option<TlsConnector>,
    headers: Vec<(HeaderName, HeaderValue)>,
    resource: Resource,
    complained: Option<Instant>,
    stopped: oneshot::Receiver<()>,
    /// Until when spans may still be sent, once the process ends.
    until: Option<Instant>,
}

impl Exporter {
    pub(crate) fn start(
        url: &str,
        options: &ExportOptions,
        role: Role,
        instance: Option<&str>,
    ) -> Result<Self, EndpointError> {
        let endpoint = Endpoint::parse(url)?;
        let tls = match endpoint.tls {
            Some(_) => Some(tls::connector(options)?),
            None => None,
        };
        let headers = headers(options.headers.as_deref().unwrap_or_default())?;
        let (sender, waiting) = mpsc::channel(WAITING);
        let (stop, stopped) = oneshot::channel();
        let resource = Resource::new(role, instance);
        let (complained, until) = (None, None);
        let work = Sender { endpoint, tls, headers, resource, complained, stopped, until };
        let task = tokio::spawn(work.run(waiting));
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
    async fn run(mut self, mut waiting: mpsc::Receiver<Finished>) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.until.is_none() {
            tokio::select! {
                // To be told, or to be forgotten, is the same.
                _ = &mut self.stopped => {
                    self.until = Some(Instant::now() + LAST_PATIENCE);
                    break;
                }
                got = gather(&mut waiting, &mut batch) => if got == 0 { return },
            }
            self.deliver(&mut batch).await;
        }
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
            self.deliver(&mut batch).await;
        }
    }

    async fn deliver(&mut self, batch: &mut Vec<Finished>) {
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let body = Bytes::from(self.resource.request(batch));
        batch.clear();
        match self.send_again_and_again(body).await {
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

    /// Sends a batch until it is taken, refused for good, or too old. Spans wait in the queue
    /// meanwhile, and beyond its end they are dropped.
    async fn send_again_and_again(&mut self, body: Bytes) -> Result<(), SendError> {
        let deadline = Instant::now() + RETRY_WINDOW;
        let mut backoff = FIRST_BACKOFF;
        loop {
            let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
            let sent = timeout(left.unwrap_or(PATIENCE), self.send(body.clone())).await;
            let Err(error) = sent.unwrap_or(Err(SendError::Late)) else { return Ok(()) };
            let wait = error.retry_after().unwrap_or_else(|| jittered(backoff));
            let is_late = is_beyond(wait, deadline);
            if self.until.is_some() || is_late || !error.is_retryable() {
                return Err(error);
            }
            backoff = backoff.saturating_mul(2);
            tokio::select! {
                // A batch that waits is tried once more.
                _ = &mut self.stopped => self.until = Some(Instant::now() + LAST_PATIENCE),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// A connection for each batch: there is one a second at most, and the receiver may have been
    /// restarted since.
    async fn send(&self, body: Bytes) -> Result<(), SendError> {
        let stream =
            TcpStream::connect(&self.endpoint.address).await.map_err(SendError::Connect)?;
        match (&self.tls, &self.endpoint.tls) {
            (Some(tls), Some(name)) => {
                let stream = tls.connect(name.clone(), stream).await.map_err(SendError::Tls)?;
                self.exchange(stream, body).await
            }
            _ => self.exchange(stream, body).await,
        }
    }

    async fn exchange<S>(&self, stream: S, body: Bytes) -> Result<(), SendError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut client, connection) = handshake.map_err(SendError::Http)?;
        let mut request = Request::post(&self.endpoint.path)
            .header(header::HOST, &self.endpoint.authority)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONNECTION, "close")
            .body(Full::new(body))
            .map_err(SendError::Request)?;
        for (name, value) in &self.headers {
            request.headers_mut().insert(name.clone(), value.clone());
        }
        let answer = async {
            let answer = client.send_request(request).await.map_err(SendError::Http)?;
            let status = answer.status();
            if status.is_success() {
                return Ok(());
            }
            let retry_after = answer.headers().get(header::RETRY_AFTER).and_then(seconds);
            Err(SendError::Refused { status, retry_after })
        };
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            answered = &mut answer => answered,
            // The connection may be over the moment its answer is here.
            _ = connection => answer.await,
        }
    }
}

/// `Retry-After` in seconds; a date counts as none.
fn seconds(value: &HeaderValue) -> Option<Duration> {
    value.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// Returns true if a wait from now on ends after `deadline`. The receiver names the wait, so no
/// sum is made with it.
fn is_beyond(wait: Duration, deadline: Instant) -> bool {
    wait > deadline.saturating_duration_since(Instant::now())
}

/// Between half and all of it, so that processes do not come back together.
fn jittered(backoff: Duration) -> Duration {
    let part = u32::try_from(context::random() % 1000).unwrap_or(0);
    backoff / 2 + backoff / 2 * part / 1000
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_may_name_any_wait() {
        let wait = seconds(&HeaderValue::from_static("18446744073709551615")).unwrap();
        let deadline = Instant::now() + RETRY_WINDOW;
        assert!(is_beyond(wait, deadline));
        assert!(!is_beyond(FIRST_BACKOFF, deadline));
        assert!(is_beyond(Duration::from_millis(1), Instant::now()), "the deadline is over");
        assert_eq!(seconds(&HeaderValue::from_static("18446744073709551616")), None);
    }
}
