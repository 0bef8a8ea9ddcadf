//! Connections, with TLS or without.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use super::{DialError, Trust};

const TO_CONNECT: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(super) struct Connect {
    /// None: it is not wanted.
    tls: Option<TlsConnector>,
}

impl Connect {
    pub(super) fn new(scheme: &Scheme, trust: &Trust) -> Result<Self, DialError> {
        if *scheme != Scheme::HTTPS {
            return Ok(Self { tls: None });
        }
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(DialError::Tls)?
            .with_root_certificates(roots(trust)?)
            .with_no_client_auth();
        Ok(Self { tls: Some(TlsConnector::from(Arc::new(config))) })
    }

    async fn connect(self, uri: Uri) -> io::Result<Stream> {
        let host = uri.host().ok_or(io::ErrorKind::InvalidInput)?.trim_matches(['[', ']']);
        let default = if self.tls.is_some() { 443 } else { 80 };
        let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(default))).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = self.tls else { return Ok(Stream::Plain(TokioIo::new(stream))) };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(TokioIo::new(tls.connect(name, stream).await?))))
    }
}

fn roots(trust: &Trust) -> Result<RootCertStore, DialError> {
    let mut roots = RootCertStore::empty();
    match trust {
        Trust::Host => {
            // A host without authorities believes nobody, and says so when it connects.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Trust::File(path) => {
            let certificates = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|source| DialError::Read { path: path.clone(), source })?;
            for certificate in certificates {
                let unusable = |source| DialError::Authority { path: path.clone(), source };
                roots.add(certificate).map_err(unusable)?;
            }
        }
    }
    Ok(roots)
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect").finish_non_exhaustive()
    }
}

impl tower::Service<Uri> for Connect {
    type Response = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connect = self.clone();
        Box::pin(async move {
            let connected = tokio::time::timeout(TO_CONNECT, connect.connect(uri)).await;
            connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
        })
    }
}

#[derive(Debug)]
pub(super) enum Stream {
    Plain(TokioIo<TcpStream>),
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl Write for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
