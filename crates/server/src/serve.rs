//! Connections: accepted, bounded, and let go in order.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use belljar_actions::Actions;
use belljar_e2b::Scheme;
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

use crate::listener::Listener;
use crate::route::Surfaces;

/// Bounds of the listening side.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Connections at once, over all ports.
    pub connections: usize,
    /// How long requests that run may take to finish when the server stops.
    pub grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { connections: 16_384, grace: Duration::from_secs(5) }
    }
}

/// Why a server stopped that nobody told to.
#[derive(Debug, thiserror::Error)]
#[error("the process that makes sandboxes is gone, and every sandbox with it")]
pub struct EngineGone;

/// How long a client may take to say what it wants.
const HEADER_PATIENCE: Duration = Duration::from_secs(15);
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// All headers of a request together.
const LONGEST_HEADERS: usize = 64 << 10;

/// What answers requests.
#[derive(Debug)]
pub struct Server {
    actions: Actions,
    surfaces: Surfaces,
    settings: Settings,
}

impl Server {
    pub fn new(actions: Actions, settings: Settings) -> Self {
        let surfaces = Surfaces::new(&actions);
        Self { actions, surfaces, settings }
    }

    /// Answers until `shutdown`, then lets what runs finish for a while and ends
    /// every sandbox, on record.
    pub async fn run(
        self,
        listeners: Vec<Listener>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), EngineGone> {
        let open = Arc::new(Open::default());
        let room = Arc::new(Semaphore::new(self.settings.connections));
        let after = tokio::spawn({
            let actions = self.actions.clone();
            async move { actions.look_after().await }
        });
        let mut accepting = tokio::task::JoinSet::new();
        for listener in listeners {
            let (room, surfaces) = (room.clone(), self.surfaces.clone());
            let open = open.clone();
            accepting.spawn(async move { accept(listener, room, surfaces, open).await });
        }
        // A server that can make nothing any more must not look as if it could.
        let stopped = tokio::select! {
            () = shutdown => Ok(()),
            () = self.actions.node().gone() => Err(EngineGone),
        };
        self.actions.drain();
        let finished = async {
            // Who comes meanwhile is told that the server is about to stop.
            open.close().await;
            accepting.shutdown().await;
            open.close().await;
        };
        tokio::select! {
            () = finished => {}
            () = tokio::time::sleep(self.settings.grace) => {}
        }
        after.abort();
        self.actions.stop().await;
        stopped
    }
}

/// The connections that are open.
#[derive(Default)]
struct Open(Mutex<GracefulShutdown>);

impl Open {
    fn watcher(&self) -> Watcher {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).watcher()
    }

    /// Waits until those that are open now have no request any more. Others may
    /// come meanwhile.
    async fn close(&self) {
        let now = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        now.shutdown().await;
    }
}

async fn accept(listener: Listener, room: Arc<Semaphore>, surfaces: Surfaces, open: Arc<Open>) {
    let acceptor = listener.acceptor();
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok(stream) => stream,
            Err(error) => {
                // Out of descriptors, mostly: some will be given back.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (surfaces, acceptor, watcher) = (surfaces.clone(), acceptor.clone(), open.watcher());
        tokio::spawn(async move {
            let served = match acceptor {
                None => converse(stream, Scheme::Http, surfaces, watcher).await,
                Some(acceptor) => {
                    let shaken = tokio::time::timeout(HANDSHAKE_PATIENCE, acceptor.accept(stream));
                    match shaken.await {
                        Ok(Ok(stream)) => converse(stream, Scheme::Https, surfaces, watcher).await,
                        Ok(Err(error)) => Err(error.into()),
                        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
                    }
                }
            };
            if let Err(error) = served {
                tracing::debug!(error, "a connection ended early");
            }
            drop(permit);
        });
    }
}

type ConnectionError = Box<dyn std::error::Error + Send + Sync>;

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    scheme: Scheme,
    surfaces: Surfaces,
    watcher: Watcher,
) -> Result<(), ConnectionError> {
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let surfaces = surfaces.clone();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(scheme);
        async move {
            let response = surfaces.answer(request).await;
            Ok::<_, std::convert::Infallible>(response)
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
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    watcher.watch(connection.into_owned()).await
}
