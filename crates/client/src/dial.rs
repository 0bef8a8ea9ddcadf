//! A server that is reached over a network.

mod connect;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::uri::{Authority, InvalidUri, Scheme};
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio_rustls::rustls;

use crate::error::Transport;
use crate::server::{Body, Server};

/// Why a server cannot be dialed at all.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("`{url}` is not a server URL")]
    Address { url: String, source: InvalidUri },
    #[error("`{0}` is not a server URL: use http:// or https://, a host, and no path")]
    Form(String),
    #[error("the API key has invalid characters")]
    Key,
    #[error("cannot read the certificate authorities in `{path}`")]
    Read { path: PathBuf, source: rustls_pki_types::pem::Error },
    #[error("cannot use a certificate authority in `{path}`")]
    Authority { path: PathBuf, source: rustls::Error },
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
}

/// Whom to believe that they are the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// Whoever an authority of this host vouches for.
    #[default]
    Host,
    /// Whoever the authorities of this file, in PEM, vouch for: `belljar tls init`
    /// makes one.
    File(PathBuf),
}

/// How long a connection that nobody uses is kept.
const KEPT: Duration = Duration::from_secs(30);

/// Over HTTP/1.1, with a key; connections are kept and shared by clones.
#[derive(Clone)]
pub struct Dial {
    client: Client<connect::Connect, Body>,
    scheme: Scheme,
    authority: Authority,
    key: HeaderValue,
}

impl Dial {
    /// At `http://host:port` or `https://host:port`, with an API key.
    pub fn new(url: &str, key: &str, trust: &Trust) -> Result<Self, DialError> {
        let address = |source| DialError::Address { url: url.to_owned(), source };
        let uri: Uri = url.parse().map_err(address)?;
        let is_plain = matches!(uri.path(), "" | "/") && uri.query().is_none();
        let parts = uri.into_parts();
        let (Some(scheme), Some(authority), true) = (parts.scheme, parts.authority, is_plain)
        else {
            return Err(DialError::Form(url.to_owned()));
        };
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(DialError::Form(url.to_owned()));
        }
        let mut key = HeaderValue::from_str(key).map_err(|_| DialError::Key)?;
        key.set_sensitive(true);
        let connect = connect::Connect::new(&scheme, trust)?;
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(KEPT)
            .pool_timer(TokioTimer::new())
            .build(connect);
        Ok(Self { client, scheme, authority, key })
    }

    fn outward(&self, mut request: Request<Body>) -> Result<Request<Body>, http::Error> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(path)
            .build()?;
        let host = HeaderValue::from_str(self.authority.as_str())?;
        request.headers_mut().insert(header::HOST, host);
        request.headers_mut().insert("x-api-key", self.key.clone());
        Ok(request)
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial").field("authority", &self.authority).finish_non_exhaustive()
    }
}

impl Server for Dial {
    fn send(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, Transport>> {
        async move {
            let request = self.outward(request);
            let request = request.map_err(|error| Transport::Connect(error.into()))?;
            let answer = self.client.request(request).await.map_err(|error| {
                if error.is_connect() {
                    Transport::Connect(error.into())
                } else {
                    Transport::BrokeOff(error.into())
                }
            })?;
            Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_and_a_host() {
        let dial = |url: &str| Dial::new(url, "k", &Trust::Host);
        for url in ["http://127.0.0.1:3000", "https://belljar.example/", "http://[::1]:80"] {
            assert!(dial(url).is_ok(), "{url}");
        }
        for url in ["", "localhost:3000", "ftp://x", "http://x/v1", "http://x?y", "http://"] {
            assert!(dial(url).is_err(), "{url}");
        }
        assert!(matches!(Dial::new("http://x", "a\nb", &Trust::Host), Err(DialError::Key)));
    }

    #[test]
    fn the_key_is_not_printed() {
        let dial = Dial::new("http://x", "e2b_secret", &Trust::Host).unwrap();
        assert!(!format!("{dial:?}").contains("secret"));
    }
}
