//! A flood of wrong keys over HTTP/2, from a thread of its own.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpSocket;

/// A flood: each request has another key, which is well formed and opens nothing.
#[derive(Debug, Clone, Copy)]
pub struct Flood {
    pub to: SocketAddr,
    /// The address that its connections come from.
    pub from: IpAddr,
    pub connections: u64,
    /// Requests at once on each of them.
    pub at_once: u64,
    /// Requests a second, of all connections.
    pub per_second: u64,
}

/// What came of a flood.
#[derive(Debug, Clone, Default)]
pub struct Flooded {
    /// How many answers had which status.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests that were not answered.
    pub broken: u64,
    pub took: Duration,
}

impl Flooded {
    pub fn answers(&self) -> u64 {
        self.statuses.values().sum()
    }

    pub fn of_status(&self, status: u16) -> u64 {
        self.statuses.get(&status).copied().unwrap_or_default()
    }

    pub fn per_second(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a figure to read")]
        let answers = self.answers() as f64;
        answers / self.took.as_secs_f64().max(0.001)
    }
}

/// A flood that goes on until it is stopped.
#[derive(Debug)]
pub struct Flooding {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Flooded>>,
}

impl Flood {
    pub fn start(self) -> Flooding {
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok(runtime.block_on(self.go_on(&stopped)))
        });
        Flooding { stop, thread }
    }

    async fn go_on(self, stop: &Arc<AtomicBool>) -> Flooded {
        let (began, next) = (Instant::now(), Arc::<AtomicU64>::default());
        let mut connections = tokio::task::JoinSet::new();
        for _ in 0..self.connections {
            connections.spawn(self.connect(began, next.clone(), stop.clone()));
        }
        let mut all = Flooded::default();
        while let Some(one) = connections.join_next().await {
            let Ok(one) = one else { continue };
            all.broken += one.broken;
            for (status, count) in one.statuses {
                *all.statuses.entry(status).or_default() += count;
            }
        }
        all.took = began.elapsed();
        all
    }

    /// One connection after the other.
    async fn connect(self, began: Instant, next: Arc<AtomicU64>, stop: Arc<AtomicBool>) -> Flooded {
        let mut all = Flooded::default();
        while !stop.load(Ordering::Relaxed) {
            let Ok(sender) = self.shake_hands().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let mut asking = tokio::task::JoinSet::new();
            for _ in 0..self.at_once {
                let (sender, next, stop) = (sender.clone(), next.clone(), stop.clone());
                asking.spawn(self.ask(sender, began, next, stop));
            }
            while let Some(one) = asking.join_next().await {
                let Ok((statuses, broken)) = one else { continue };
                all.broken += broken;
                for (status, count) in statuses {
                    *all.statuses.entry(status).or_default() += count;
                }
            }
        }
        all
    }

    async fn shake_hands(self) -> anyhow::Result<SendRequest<Empty<Bytes>>> {
        let socket = if self.to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.bind((self.from, 0).into())?;
        let stream = socket.connect(self.to).await?;
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    /// One request after the other, until the connection breaks.
    async fn ask(
        self,
        mut sender: SendRequest<Empty<Bytes>>,
        began: Instant,
        next: Arc<AtomicU64>,
        stop: Arc<AtomicBool>,
    ) -> (BTreeMap<u16, u64>, u64) {
        let mut statuses = BTreeMap::new();
        while !stop.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let due = began
                + Duration::from_secs(1) * u32::try_from(number).unwrap_or(u32::MAX)
                    / u32::try_from(self.per_second.max(1)).unwrap_or(u32::MAX);
            tokio::time::sleep_until(due.into()).await;
            let request = Request::get(format!("http://{}/v1/sandboxes", self.to))
                .header("x-api-key", format!("e2b_{number:040x}"))
                .header("x-forwarded-for", format!("10.{}.{}.1", number / 256 % 256, number % 256))
                .body(Empty::new());
            let Ok(request) = request else { break };
            if sender.ready().await.is_err() {
                return (statuses, 0);
            }
            let Ok(answer) = sender.send_request(request).await else { return (statuses, 1) };
            let status = answer.status().as_u16();
            if answer.into_body().collect().await.is_err() {
                return (statuses, 1);
            }
            *statuses.entry(status).or_default() += 1;
        }
        (statuses, 0)
    }
}

impl Flooding {
    /// Lets the last requests be answered, and counts.
    pub async fn stop(self) -> anyhow::Result<Flooded> {
        self.stop.store(true, Ordering::Relaxed);
        // The server that answers may be on the caller's thread.
        let joined = tokio::task::spawn_blocking(|| self.thread.join()).await?;
        joined.ok().context("the flood panicked")?
    }
}
