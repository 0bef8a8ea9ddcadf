//! A client with a peer's certificate: what whoever has that peer's key can do.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use belljar_identity::{Endpoint, Peer};
use bytes::Bytes;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::client::{Answer, HANG_LIMIT, exchange, whole};

/// One that connects as a peer, to a peer.
#[derive(Debug, Clone)]
pub(crate) struct PeerClient {
    pub(crate) address: SocketAddr,
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
}

impl PeerClient {
    /// Connects with this endpoint's certificate to `server` at `address`.
    pub(crate) fn new(
        endpoint: &Endpoint,
        address: SocketAddr,
        server: Peer,
    ) -> anyhow::Result<Self> {
        let server = ServerName::try_from(server.name())?;
        Ok(Self { address, config: endpoint.client_config()?, server })
    }

    pub(crate) async fn connect(&self) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        TlsConnector::from(self.config.clone()).connect(self.server.clone(), stream).await
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Answer> {
        let asked = async {
            let stream = self.connect().await?;
            let headers = [&[("host", "platform.invalid")], headers].concat();
            whole(exchange(stream, method, path, &headers, body.into()).await?).await
        };
        let answer = tokio::time::timeout(HANG_LIMIT, asked).await;
        answer.with_context(|| format!("no answer to {method} {path}"))?
    }
}

/// Returns true if the other side refused the handshake: it sent a TLS alert about the
/// certificate, or closed the connection before it answered.
pub(crate) fn is_refused_handshake(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        let tls = io
            .and_then(|error| error.get_ref())
            .is_some_and(|error| error.to_string().contains("alert"));
        let closed = io.is_some_and(|error| {
            use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
            [BrokenPipe, ConnectionReset, UnexpectedEof].contains(&error.kind())
        });
        let hyper = cause.downcast_ref::<hyper::Error>();
        tls || closed
            || hyper.is_some_and(|error| error.is_incomplete_message() || error.is_canceled())
    })
}
