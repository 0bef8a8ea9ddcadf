//! Sockets that connections come from.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// Why a port could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct ListenError {
    pub address: SocketAddr,
    pub source: io::Error,
}

/// A port, plain or with TLS.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    tls: Option<Arc<ServerConfig>>,
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
        Ok(Self { socket, tls })
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

    pub(crate) async fn accept(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.socket.accept().await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}
