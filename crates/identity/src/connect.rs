//! Connections to a peer whose certificate is expected.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tower::Service;

use crate::certificate::{Peer, PeerError};
use crate::keys::PublicKey;
use crate::tls::Endpoint;

/// The reason there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("no address is known for this peer")]
    Unknown,
    #[error("cannot connect to {0}")]
    Connect(Uri, #[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("{0} does not complete a TLS handshake in time")]
    Slow(Uri),
    #[error("the TLS handshake with {0} failed")]
    Handshake(Uri, #[source] io::Error),
    #[error("{0} is not the peer that it should be")]
    Peer(Uri, #[source] PeerError),
}

/// A peer's address, and who must answer there.
#[derive(Debug, Clone)]
pub struct Route {
    pub address: Uri,
    pub peer: Peer,
    /// The key that the peer must have, if it is known.
    pub key: Option<PublicKey>,
}

type Router = Arc<dyn Fn(&Uri) -> Option<Route> + Send + Sync>;

/// Connects to peers, for a pooling HTTP client.
#[derive(Clone)]
pub struct Connector {
    tcp: HttpConnector,
    endpoint: Endpoint,
    tls: TlsConnector,
    router: Router,
}

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

impl Connector {
    /// `router` tells where a request goes, and who must answer there.
    pub fn new(
        mut tcp: HttpConnector,
        endpoint: Endpoint,
        config: Arc<ClientConfig>,
        router: impl Fn(&Uri) -> Option<Route> + Send + Sync + 'static,
    ) -> Self {
        // The scheme is https; the transport below it is not.
        tcp.enforce_http(false);
        Self { tcp, endpoint, tls: TlsConnector::from(config), router: Arc::new(router) }
    }
}

impl Service<Uri> for Connector {
    type Response = PeerStream;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<PeerStream, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { mut tcp, endpoint, tls, router } = self.clone();
        Box::pin(async move {
            let Route { address, peer, key } = router(&uri).ok_or(ConnectError::Unknown)?;
            let stream = tcp.call(address.clone()).await;
            let stream =
                stream.map_err(|error| ConnectError::Connect(address.clone(), error.into()))?;
            let shaken = tls.connect(peer.server_name(), stream.into_inner());
            let shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, shaken).await;
            let shaken = shaken.map_err(|_| ConnectError::Slow(address.clone()))?;
            let stream =
                shaken.map_err(|source| ConnectError::Handshake(address.clone(), source))?;
            let other = |error| ConnectError::Peer(address.clone(), error);
            let found = endpoint.server_of(stream.get_ref().1, peer).map_err(other)?;
            if key.is_some_and(|key| key != found.public_key) {
                return Err(other(PeerError::Other));
            }
            Ok(PeerStream(TokioIo::new(stream)))
        })
    }
}

/// A connection to a peer that has proven who it is.
#[derive(Debug)]
pub struct PeerStream(TokioIo<TlsStream<TcpStream>>);

impl Connection for PeerStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for PeerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for PeerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, slices)
    }
}
