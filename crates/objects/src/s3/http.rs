//! How a bucket is spoken to: HTTP/1.1 over connections that are kept, with TLS
//! against the host's own authorities.

use std::error::Error as _;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http_body_util::BodyExt as _;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::error::OpenError;

const TO_CONNECT: Duration = Duration::from_secs(5);
/// From a request to the head of its answer; the body of an answer is watched by
/// whoever reads it.
const TO_ANSWER: Duration = Duration::from_secs(30);
const KEPT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Connector {
    dial: Dial,
}

impl Connector {
    pub(super) fn new() -> Result<Self, OpenError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| OpenError::NoAuthorities)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { dial: Dial { tls: TlsConnector::from(Arc::new(config)) } })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(KEPT)
            .pool_timer(TokioTimer::new())
            .build(self.dial.clone());
        Ok(HttpClient::new(Service { client }))
    }
}

#[derive(Debug)]
struct Service {
    client: Client<Dial, HttpRequestBody>,
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for Service {
    fn call<'a, 'b>(&'a self, request: HttpRequest) -> Answer<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let answer = tokio::time::timeout(TO_ANSWER, self.client.request(request)).await;
            let answer = answer.map_err(|late| HttpError::new(HttpErrorKind::Timeout, late))?;
            let (head, body) = answer.map_err(kind_of)?.into_parts();
            let body = body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
            Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
        })
    }
}

/// What may be sent again without asking, as far as can be told.
fn kind_of(error: ClientError) -> HttpError {
    let mut kind = HttpErrorKind::Unknown;
    if error.is_connect() {
        kind = HttpErrorKind::Connect;
    }
    let mut cause = error.source();
    while let (HttpErrorKind::Unknown, Some(error)) = (kind, cause) {
        if let Some(error) = error.downcast_ref::<hyper::Error>()
            && (error.is_closed() || error.is_incomplete_message() || error.is_body_write_aborted())
        {
            kind = HttpErrorKind::Request;
        } else if error.downcast_ref::<io::Error>().is_some() {
            kind = HttpErrorKind::Interrupted;
        }
        cause = error.source();
    }
    HttpError::new(kind, error)
}

#[derive(Clone)]
struct Dial {
    tls: TlsConnector,
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial").finish_non_exhaustive()
    }
}

impl Dial {
    async fn connect(self, uri: Uri) -> io::Result<Stream> {
        let host = uri.host().ok_or(io::ErrorKind::InvalidInput)?.trim_matches(['[', ']']);
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        if !is_tls {
            return Ok(Stream::Plain(TokioIo::new(stream)));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = self.tls.connect(name, stream).await?;
        Ok(Stream::Tls(Box::new(TokioIo::new(stream))))
    }
}

impl tower::Service<Uri> for Dial {
    type Response = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let dial = self.clone();
        Box::pin(async move {
            let connected = tokio::time::timeout(TO_CONNECT, dial.connect(uri)).await;
            connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
        })
    }
}

#[derive(Debug)]
enum Stream {
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
