//! One attempt: a connection to a vetted address, one request, and its status.
//!
//! Redirects are not followed: a 3xx is a failure like any other. The body of the response is
//! not read.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use time::OffsetDateTime;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use crate::event::Message;
use crate::sign::{Secret, signatures};
use crate::target::{Reach, Target, TargetError};

/// Time for one attempt, from the name's resolution to the head of the response.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
/// Bytes of a response's head.
const LONGEST_HEAD: usize = 16 << 10;
const AGENT: &str = concat!("belljar-webhooks/", env!("CARGO_PKG_VERSION"));

/// TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up TLS for webhooks")]
pub struct TlsError(#[source] rustls::Error);

/// An attempt without a response. Its text is shown to the tenant, so it names no address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// The same text as above: otherwise a tenant could tell open ports from closed ones.
    #[error("cannot connect")]
    Tls(#[source] io::Error),
    #[error("the receiver sent no valid response")]
    Http(#[source] hyper::Error),
    #[error("the request cannot be made")]
    Request(#[source] http::Error),
    #[error("no response in time")]
    Late,
}

/// Sends messages; cheap to clone.
#[derive(Clone)]
pub struct Sender {
    tls: TlsConnector,
    reach: Arc<Reach>,
}

impl Sender {
    /// Trusts the authorities of this host.
    pub fn new(reach: Reach) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), reach: Arc::new(reach) })
    }

    pub(crate) fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Sends a message once and returns the status of the response.
    pub(crate) async fn send(
        &self,
        url: &str,
        secrets: &[Secret],
        message: &Message,
    ) -> Result<u16, SendError> {
        let sent = tokio::time::timeout(PATIENCE, self.send_unhurried(url, secrets, message)).await;
        sent.unwrap_or(Err(SendError::Late))
    }

    async fn send_unhurried(
        &self,
        url: &str,
        secrets: &[Secret],
        message: &Message,
    ) -> Result<u16, SendError> {
        let target = self.reach.target(url)?;
        let addresses = self.reach.addresses(&target).await?;
        let request = request(&target, secrets, message, OffsetDateTime::now_utc())?;
        let stream = connect(&addresses).await.map_err(SendError::Connect)?;
        if !target.is_tls {
            return exchange(TokioIo::new(stream), request).await;
        }
        let name = ServerName::try_from(target.host).map_err(|_| TargetError::Form)?;
        let stream = self.tls.connect(name, stream).await.map_err(SendError::Tls)?;
        exchange(TokioIo::new(stream), request).await
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("reach", &self.reach).finish_non_exhaustive()
    }
}

fn request(
    target: &Target,
    secrets: &[Secret],
    message: &Message,
    now: OffsetDateTime,
) -> Result<Request<Full<Bytes>>, SendError> {
    let timestamp = now.unix_timestamp();
    let signature = signatures(secrets, &message.id, timestamp, &message.body);
    Request::post(&target.path)
        .header(header::HOST, &target.authority)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, AGENT)
        .header("webhook-id", &message.id)
        .header("webhook-timestamp", timestamp)
        .header("webhook-signature", signature)
        .body(Full::new(Bytes::from(message.body.clone())))
        .map_err(SendError::Request)
}

/// Connects to the first address that accepts. Nothing is resolved here.
async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<u16, SendError>
where
    S: Read + Write + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(LONGEST_HEAD);
    let (mut sender, connection) = builder.handshake(stream).await.map_err(SendError::Http)?;
    let response = async move { sender.send_request(request).await };
    tokio::pin!(connection, response);
    // The connection ends with this call, and the rest of the response with it.
    tokio::select! {
        response = &mut response => {
            Ok(response.map_err(SendError::Http)?.status().as_u16())
        }
        ended = &mut connection => match ended {
            Ok(()) => Ok(response.await.map_err(SendError::Http)?.status().as_u16()),
            Err(error) => Err(SendError::Http(error)),
        },
    }
}
