//! Sockets that connections come from.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Extensions;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ServerConfig, ServerConnection};

use crate::budget::PeerAddress;

/// Why a port could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct ListenError {
    pub address: SocketAddr,
    pub source: io::Error,
}

/// The reason a client that completed its handshake is sent away.
pub type IdentifyError = Box<dyn std::error::Error + Send + Sync>;

/// Finds out who a client is by its certificate. The result is beside each of its requests.
pub(crate) type Identify =
    Arc<dyn Fn(&ServerConnection) -> Result<Extensions, IdentifyError> + Send + Sync>;

/// Hears of clients that did not complete their handshake, or were sent away after it.
pub(crate) type Refused = Arc<dyn Fn(&(dyn std::error::Error + 'static)) + Send + Sync>;

/// A port, plain or with TLS.
pub struct Listener {
    socket: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    identify: Option<Identify>,
    refused: Option<Refused>,
    is_for_proxies: bool,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// SDKs open hundreds of connections at once, and give up on those that are
/// not accepted at once.
const BACKLOG: u32 = 4096;

impl Listener {
    pub fn bind(address: SocketAddr, tls: Option<Arc<ServerConfig>>) -> Result<Self, ListenError> {
        let bound = || -> io::Result<TcpListener> {
            let socket = match address {
                SocketAddr::V4(_) => TcpSocket::new_v4()?,
                SocketAddr::V6(_) => TcpSocket::new_v6()?,
            };
            socket.set_reuseaddr(true)?;
            // Connections inherit this: a client that vanished without a word is
            // noticed, and what it held is given back.
            socket.set_keepalive(true)?;
            sockopt::set_tcp_keepidle(&socket, Duration::from_secs(30))?;
            sockopt::set_tcp_keepintvl(&socket, Duration::from_secs(10))?;
            sockopt::set_tcp_keepcnt(&socket, 3)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)
        };
        let socket = bound().map_err(|source| ListenError { address, source })?;
        Ok(Self { socket, tls, identify: None, refused: None, is_for_proxies: false })
    }

    /// A port whose clients have certificates of their own.
    pub fn bind_identified(
        address: SocketAddr,
        tls: Arc<ServerConfig>,
        identify: impl Fn(&ServerConnection) -> Result<Extensions, IdentifyError>
        + Send
        + Sync
        + 'static,
        refused: impl Fn(&(dyn std::error::Error + 'static)) + Send + Sync + 'static,
    ) -> Result<Self, ListenError> {
        let (identify, refused): (Identify, Refused) = (Arc::new(identify), Arc::new(refused));
        let bound = Self::bind(address, Some(tls))?;
        Ok(Self { identify: Some(identify), refused: Some(refused), ..bound })
    }

    /// The same port for clients each of which speaks for many, and may have every place.
    pub fn for_proxies(self) -> Self {
        Self { is_for_proxies: true, ..self }
    }

    pub(crate) fn is_for_proxies(&self) -> bool {
        self.is_for_proxies
    }

    /// Where it listens; tells the port when any free one was asked for.
    pub fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    pub(crate) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.tls.clone().map(TlsAcceptor::from)
    }

    pub(crate) fn identify(&self) -> Option<Identify> {
        self.identify.clone()
    }

    pub(crate) fn refused(&self) -> Option<Refused> {
        self.refused.clone()
    }

    pub(crate) async fn accept(&self) -> io::Result<(TcpStream, PeerAddress)> {
        let (stream, peer) = self.socket.accept().await?;
        stream.set_nodelay(true)?;
        Ok((stream, PeerAddress(peer.ip())))
    }
}
