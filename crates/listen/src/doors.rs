//! Everything that comes in.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use belljar_domain::network::Scheme;
use http::{Extensions, Request, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::activity::Activity;
use crate::budget::{Budget, PeerAddress, Place};
use crate::impatient::Impatient;
use crate::listener::Listener;
use crate::placed::{PlacedStream, Switched};

/// Bounds of the listening side.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Connections at once, of each port.
    pub connections: usize,
    /// Of these, how many one address may have.
    pub connections_per_address: usize,
    /// How long a connection stays open without a request.
    pub idle: Duration,
    /// How long one that was upgraded to another protocol stays open without a byte.
    pub upgraded_idle: Duration,
    /// How long requests that run may take to finish when the server stops.
    pub grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connections: 16_384,
            connections_per_address: 4_096,
            idle: Duration::from_secs(60),
            // Many protocols have no sign of life of their own.
            upgraded_idle: Duration::from_secs(3600),
            grace: Duration::from_secs(5),
        }
    }
}

/// How long a client that was told to go may take.
const GOING: Duration = Duration::from_secs(5);

/// How long a client may take to say what it wants.
const HEADER_PATIENCE: Duration = Duration::from_secs(15);
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// All headers of a request together.
const LONGEST_HEADERS: usize = 64 << 10;

/// Ports that are open, and the connections that came through them.
#[derive(Debug)]
pub struct Doors {
    accepting: JoinSet<()>,
    open: Arc<Open>,
    grace: Duration,
}

impl Doors {
    /// Lets everybody in, and everything be answered by `answer`.
    pub fn open<A, F>(listeners: Vec<Listener>, settings: Settings, answer: A) -> Self
    where
        A: Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response> + Send + 'static,
    {
        let open = Arc::new(Open::default());
        let mut accepting = JoinSet::new();
        let ports = listeners.len();
        for listener in listeners {
            let Settings { connections, connections_per_address, .. } = settings;
            let per_address =
                if listener.is_for_proxies() { connections } else { connections_per_address };
            let budget = Budget::of_one(ports, connections, per_address);
            let port = Port { listener, budget, settings, open: open.clone() };
            accepting.spawn(accept(port, answer.clone()));
        }
        Self { accepting, open, grace: settings.grace }
    }

    /// Lets what runs finish for a while. Who comes meanwhile is still answered:
    /// that nothing new is begun is for the answer to say.
    pub async fn close(mut self) {
        let finished = async {
            self.open.close().await;
            self.accepting.shutdown().await;
            self.open.close().await;
        };
        tokio::select! {
            () = finished => {}
            () = tokio::time::sleep(self.grace) => {}
        }
    }
}

/// The connections that are open.
#[derive(Debug, Default)]
struct Open(Mutex<watch::Sender<()>>);

impl Open {
    /// Hears when connections are to finish, and is waited for.
    fn watcher(&self) -> watch::Receiver<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).subscribe()
    }

    /// Waits until those that are open now have no request any more. Others may
    /// come meanwhile.
    async fn close(&self) {
        let now = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let _ = now.send(());
        now.closed().await;
    }
}

/// A port, its places, and how long they may stay unused.
struct Port {
    listener: Listener,
    budget: Budget,
    settings: Settings,
    open: Arc<Open>,
}

async fn accept<A, F>(port: Port, answer: A)
where
    A: Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let Port { listener, budget, settings, open } = port;
    let (acceptor, identify) = (listener.acceptor(), listener.identify());
    let refused = listener.refused();
    loop {
        let Some(place) = budget.place().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, mostly: some will be given back.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some(place) = place.of_address(&budget, peer) else {
            tracing::debug!(peer = %peer.0, "rejected connection: too many of one address");
            continue;
        };
        let (answer, acceptor) = (answer.clone(), acceptor.clone());
        let manner = Manner { peer, place, settings, closing: open.watcher() };
        let (identify, refused) = (identify.clone(), refused.clone());
        tokio::spawn(async move {
            let served = match acceptor {
                None => converse(stream, Scheme::Http, Extensions::new(), answer, manner).await,
                Some(acceptor) => {
                    let shaken = tokio::time::timeout(HANDSHAKE_PATIENCE, acceptor.accept(stream));
                    match shaken.await {
                        Ok(Ok(stream)) => {
                            let who = identify.map(|identify| identify(stream.get_ref().1));
                            match who.transpose() {
                                Ok(who) => {
                                    let who = who.unwrap_or_default();
                                    converse(stream, Scheme::Https, who, answer, manner).await
                                }
                                Err(error) => {
                                    refused.inspect(|refused| refused(&*error));
                                    Err(error)
                                }
                            }
                        }
                        Ok(Err(error)) => {
                            // Not those who only look whether the port is open.
                            let is_tls = error.kind() == io::ErrorKind::InvalidData;
                            refused.filter(|_| is_tls).inspect(|refused| refused(&error));
                            Err(error.into())
                        }
                        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
                    }
                }
            };
            if let Err(error) = served {
                tracing::debug!(error, "a connection ended early");
            }
        });
    }
}

type ConnectionError = Box<dyn std::error::Error + Send + Sync>;

/// What holds for one connection.
struct Manner {
    peer: PeerAddress,
    place: Place,
    settings: Settings,
    closing: watch::Receiver<()>,
}

async fn converse<A, F>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    scheme: Scheme,
    who: Extensions,
    answer: A,
    manner: Manner,
) -> Result<(), ConnectionError>
where
    A: Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let Manner { peer, place, settings, mut closing } = manner;
    let Settings { idle, upgraded_idle, .. } = settings;
    let (activity, switched) = (Activity::new(), Switched::default());
    let stream = PlacedStream::new(stream, place, switched.clone(), upgraded_idle);
    let counting = activity.clone();
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(scheme);
        request.extensions_mut().insert(peer);
        request.extensions_mut().extend(who.clone());
        let (running, answered) = (counting.begin(), answer(request));
        let switched = switched.clone();
        async move {
            let response = answered.await;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                switched.set();
            }
            Ok::<_, Infallible>(running.until_sent(response))
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .max_buf_size(LONGEST_HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(64 << 10)
        .max_concurrent_streams(1000)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    // The builder's own patience begins with the first byte.
    let stream = Impatient::new(stream, HEADER_PATIENCE);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = pin!(connection.into_owned());
    let is_closing = tokio::select! {
        served = connection.as_mut() => return served,
        _ = closing.changed() => true,
        () = activity.idle(idle) => false,
    };
    // What is asked at this very moment is still answered.
    connection.as_mut().graceful_shutdown();
    if is_closing {
        return connection.await;
    }
    tokio::select! {
        served = connection.as_mut() => served,
        () = activity.idle(GOING) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    }
}
