//! From here to a node and back.

use axum::body::Body;
use axum::response::Response;
use belljar_domain::network::Scheme;
use belljar_domain::target::sandbox_of_host;
use belljar_domain::{NodeNumber, SandboxId};
use belljar_peer_proto::behalf::{ABSENT, HEADER, WHOSE};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri, Version, header};
use hyper_util::rt::TokioIo;

use crate::control::Control;
use crate::keys::Caller;
use crate::sign::HeldBody;

/// Why there is no answer of a node's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreached {
    #[error("the node is not available")]
    Gone,
    /// It has heard nothing of the request.
    #[error("the node cannot be reached")]
    Connect(#[source] hyper_util::client::legacy::Error),
    /// Nobody knows what it has done.
    #[error("the connection to the node was lost")]
    BrokeOff(#[source] hyper_util::client::legacy::Error),
    /// The node is unknown here, and the database cannot be read.
    #[error("the node cannot be looked up: the database does not respond")]
    Database,
    #[error("the request cannot be proxied")]
    Form(#[source] http::Error),
}

impl Unreached {
    /// Whether somebody else may be asked without fear that it is done twice.
    pub(crate) fn is_safe(&self) -> bool {
        !matches!(self, Self::BrokeOff(_))
    }
}

/// Headers that are about one connection only.
const HOP: [HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// A request whose body is held, so that it can be sent more than once.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
}

impl Held {
    pub(crate) fn request(&self) -> Request<Body> {
        let mut request = Request::new(Body::from(self.body.clone()));
        request.extensions_mut().insert(HeldBody(self.body.clone()));
        *request.method_mut() = self.parts.method.clone();
        *request.uri_mut() = self.parts.uri.clone();
        *request.headers_mut() = self.parts.headers.clone();
        if let Some(scheme) = self.parts.extensions.get::<Scheme>() {
            request.extensions_mut().insert(*scheme);
        }
        request
    }
}

impl Control {
    /// In a tenant's name; what the request makes is called as `ids` say.
    pub(crate) async fn forward_for(
        &self,
        caller: &Caller,
        ids: &[SandboxId],
        node: NodeNumber,
        mut request: Request<Body>,
    ) -> Result<Response, Unreached> {
        let word = self.sign_for(caller, ids, node, &mut request).await;
        // The key has done its work; nobody further in needs it. Where the request goes is decided,
        // so it names no sandbox to route by either.
        for name in ["x-api-key", "authorization", "e2b-sandbox-id", "e2b-sandbox-port"] {
            request.headers_mut().remove(name);
        }
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        if host.and_then(sandbox_of_host).is_some() {
            request.headers_mut().remove(header::HOST);
        }
        self.send(node, request, word.map(|word| (HEADER, word))).await
    }

    /// As whoever it is: the node decides by what the request shows.
    pub(crate) async fn forward(
        &self,
        node: NodeNumber,
        request: Request<Body>,
    ) -> Result<Response, Unreached> {
        self.send(node, request, None).await
    }

    /// Asks a node whether a request would be for a sandbox of its own.
    pub(crate) async fn ask_whose(&self, node: NodeNumber, request: Request<Body>) -> bool {
        let question = Some((WHOSE, HeaderValue::from_static("1")));
        let answer = self.send(node, request, question).await;
        answer.is_ok_and(|answer| answer.status() == StatusCode::NO_CONTENT)
    }

    async fn send(
        &self,
        node: NodeNumber,
        mut request: Request<Body>,
        said: Option<(&'static str, HeaderValue)>,
    ) -> Result<Response, Unreached> {
        tracing::Span::current().record("node", self.node_name(node));
        let address = self.find_address(node).await?;
        let upgrade = upgrade(request.headers());
        // Taken before the request goes: it is the client's end.
        let client = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
        outward(&mut request, &address, upgrade.as_ref())?;
        belljar_telemetry::pass_on(request.headers_mut());
        if let Some((name, value)) = said {
            request.headers_mut().insert(name, value);
        }
        let response = self.client().request(request).await.map_err(|error| {
            if error.is_connect() { Unreached::Connect(error) } else { Unreached::BrokeOff(error) }
        })?;
        if response.headers().contains_key(ABSENT) {
            return Err(Unreached::Gone);
        }
        let mut response = response.map(Body::new);
        let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        let agreed = crate::forward::upgrade(response.headers()).filter(|_| switched);
        if switched && let Some(client) = client {
            let server = hyper::upgrade::on(&mut response);
            tokio::spawn(async move {
                let (Ok(client), Ok(server)) = tokio::join!(client, server) else { return };
                let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
                // Either side may break off; the other sees it as its own end.
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
        strip(response.headers_mut(), agreed.as_ref());
        crate::believe::strip(response.headers_mut());
        *response.version_mut() = Version::HTTP_11;
        Ok(response)
    }
}

/// Makes a request ready for the way to a node.
fn outward(
    request: &mut Request<Body>,
    address: &str,
    upgrade: Option<&HeaderValue>,
) -> Result<(), Unreached> {
    let host = request.uri().authority().map(|authority| authority.as_str().to_owned());
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let uri: Result<Uri, _> = format!("{address}{path}").parse();
    *request.uri_mut() = uri.map_err(|error| Unreached::Form(error.into()))?;
    *request.version_mut() = Version::HTTP_11;
    let scheme = request.extensions().get::<Scheme>().copied();
    let headers = request.headers_mut();
    strip(headers, upgrade);
    if let Some(host) = host.and_then(|host| HeaderValue::try_from(host).ok()) {
        headers.insert(header::HOST, host);
    }
    // Only control says these.
    let ours: Vec<_> =
        headers.keys().filter(|name| name.as_str().starts_with("belljar-")).cloned().collect();
    for name in ours {
        headers.remove(name);
    }
    // The way to a node is always TLS, so a node cannot see how the client came.
    if !headers.contains_key("x-forwarded-proto")
        && let Some(scheme) = scheme
    {
        headers.insert("x-forwarded-proto", HeaderValue::from_static(scheme.as_str()));
    }
    Ok(())
}

fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let connection = headers.get(header::CONNECTION)?.to_str().ok()?;
    let asks = connection.split(',').any(|part| part.trim().eq_ignore_ascii_case("upgrade"));
    asks.then(|| headers.get(header::UPGRADE).cloned()).flatten()
}

/// Takes away what is about one connection, but for an upgrade that goes through.
fn strip(headers: &mut HeaderMap, upgrade: Option<&HeaderValue>) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP.iter().chain(&named) {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    if let Some(upgrade) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, upgrade.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(headers: &[(&'static str, &'static str)], uri: &str) -> Request<Body> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).unwrap();
        let upgrade = upgrade(request.headers());
        outward(&mut request, "http://10.0.0.1:4000", upgrade.as_ref()).unwrap();
        request
    }

    #[test]
    fn nobody_brings_controls_word_with_him() {
        let request =
            sent(&[("belljar-behalf", "x"), ("belljar-whose", "1"), ("host", "h")], "/a?b");
        assert_eq!(request.uri(), "http://10.0.0.1:4000/a?b");
        assert!(!request.headers().contains_key("belljar-behalf"));
        assert!(!request.headers().contains_key("belljar-whose"));
        assert_eq!(request.headers()[header::HOST], "h");
    }

    #[test]
    fn what_is_about_one_connection_stays_there() {
        let request = sent(&[("connection", "close, x-mine"), ("x-mine", "1"), ("te", "t")], "/");
        assert!(request.headers().keys().all(|name| name == header::HOST), "{request:?}");
        let request = sent(&[("connection", "Upgrade"), ("upgrade", "websocket")], "/");
        assert_eq!(request.headers()[header::UPGRADE], "websocket");
    }

    #[test]
    fn a_node_hears_how_the_client_came() {
        let proto = |scheme: Option<Scheme>, said: Option<&'static str>| {
            let mut request = Request::builder().uri("/docs").body(Body::empty()).unwrap();
            if let Some(scheme) = scheme {
                request.extensions_mut().insert(scheme);
            }
            if let Some(said) = said {
                request.headers_mut().insert("x-forwarded-proto", HeaderValue::from_static(said));
            }
            outward(&mut request, "https://10.0.0.1:4000", None).unwrap();
            request.headers().get("x-forwarded-proto").cloned()
        };
        assert_eq!(proto(Some(Scheme::Http), None).unwrap(), "http");
        assert_eq!(proto(Some(Scheme::Https), None).unwrap(), "https");
        // A proxy before control knows better.
        assert_eq!(proto(Some(Scheme::Http), Some("https")).unwrap(), "https");
        assert_eq!(proto(None, None), None);
    }

    #[test]
    fn the_name_that_was_asked_for_is_passed_on() {
        let request = sent(&[], "http://8080-abc.example.com/x");
        assert_eq!(request.headers()[header::HOST], "8080-abc.example.com");
        let request = sent(&[("host", "8080-abc.example.com")], "http://api.example.com/x");
        assert_eq!(request.headers()[header::HOST], "api.example.com");
    }
}
