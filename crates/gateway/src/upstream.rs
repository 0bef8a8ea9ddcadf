//! Connections to the world, and those that are kept for the next exchange.
//!
//! A kept connection belongs to one session and one place. Whoever takes it has
//! its address vetted again: policies change while connections wait.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belljar_domain::network::{Host, Reason, Scheme};
use belljar_egress::Destination;
use http::header::HOST;
use http::{Request, Response, Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::body::Inner;
use crate::connection::Connection;
use crate::metered::Metered;
use crate::resolve;
use crate::wire::BoxStream;

const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
const TLS_PATIENCE: Duration = Duration::from_secs(10);
/// Servers close idle connections too; a minute is what most keep them.
const LONGEST_IDLE: Duration = Duration::from_secs(55);
const MOST_IDLE_A_PLACE: usize = 32;
const MOST_IDLE: usize = 256;
/// The longest head of an answer.
const LONGEST_HEAD: u32 = 64 << 10;

/// Where a connection leads, and how it is spoken to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) destination: Destination,
    pub(crate) secure: bool,
}

impl Place {
    pub(crate) fn scheme(&self) -> Scheme {
        if self.secure { Scheme::Https } else { Scheme::Http }
    }
}

/// Connections that wait for another exchange.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<HashMap<Place, Vec<Idle>>>);

#[derive(Debug)]
struct Idle {
    sender: Sender,
    address: IpAddr,
    since: Instant,
}

#[derive(Debug)]
enum Sender {
    Http1(http1::SendRequest<Inner>),
    Http2(http2::SendRequest<Inner>),
}

/// A connection whose answer is still being read.
#[derive(Debug)]
pub(crate) struct Busy {
    idle: Option<Idle>,
    place: Place,
    pub(crate) address: IpAddr,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, HashMap<Place, Vec<Idle>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes everything that waits.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn take(&self, place: &Place) -> Option<Idle> {
        let mut kept = self.lock();
        let idle = kept.get_mut(place)?;
        while let Some(found) = idle.pop() {
            if found.since.elapsed() > LONGEST_IDLE {
                continue;
            }
            match &found.sender {
                Sender::Http1(sender) if !sender.is_closed() => return Some(found),
                Sender::Http2(sender) if !sender.is_closed() => {
                    let sender = Sender::Http2(sender.clone());
                    let copy = Idle { sender, address: found.address, since: found.since };
                    // Many exchanges share it.
                    idle.push(found);
                    return Some(copy);
                }
                Sender::Http1(_) | Sender::Http2(_) => {}
            }
        }
        None
    }

    fn keep(&self, place: Place, idle: Idle) {
        let mut kept = self.lock();
        if kept.values().map(Vec::len).sum::<usize>() >= MOST_IDLE {
            kept.retain(|_, idle| {
                idle.retain(|idle| idle.since.elapsed() < LONGEST_IDLE);
                !idle.is_empty()
            });
        }
        let idles = kept.entry(place).or_default();
        let is_shared = matches!(idle.sender, Sender::Http2(_));
        if idles.len() < if is_shared { 1 } else { MOST_IDLE_A_PLACE } {
            idles.push(idle);
        }
    }
}

impl Busy {
    /// The answer has been read to its end: the connection may be used again.
    pub(crate) fn done(&mut self, pool: &Pool) {
        if let Some(idle) = self.idle.take() {
            pool.keep(self.place.clone(), idle);
        }
    }
}

/// Connects to an address of `destination` that was vetted.
pub(crate) async fn dial(
    connection: &Arc<Connection>,
    destination: &Destination,
) -> Result<(Metered<TcpStream>, IpAddr), Reason> {
    for address in resolve::addresses(connection, destination).await? {
        let attempt = TcpStream::connect((address, destination.port));
        if let Ok(Ok(stream)) = tokio::time::timeout(CONNECT_PATIENCE, attempt).await {
            let _ = stream.set_nodelay(true);
            return Ok((Metered::new(stream, Arc::clone(&connection.session)), address));
        }
    }
    Err(Reason::Unreachable)
}

/// Sends a request there and waits for the head of its answer.
pub(crate) async fn send(
    connection: &Arc<Connection>,
    place: &Place,
    mut request: Request<Inner>,
) -> Result<(Response<Incoming>, Busy), Reason> {
    let pool = &connection.session.pool;
    while let Some(idle) = pool.take(place) {
        if resolve::vet(connection, place.destination.port, &[idle.address]).is_err() {
            continue;
        }
        match attempt(idle, place, request).await? {
            Attempt::Answered(answered) => return Ok(*answered),
            // The server had closed it meanwhile; nothing was sent.
            Attempt::Unsent(unsent) => request = *unsent,
        }
    }
    let idle = connect(connection, place).await?;
    match attempt(idle, place, request).await? {
        Attempt::Answered(answered) => Ok(*answered),
        Attempt::Unsent(_) => Err(Reason::Upstream),
    }
}

enum Attempt {
    Answered(Box<(Response<Incoming>, Busy)>),
    Unsent(Box<Request<Inner>>),
}

async fn attempt(
    mut idle: Idle,
    place: &Place,
    request: Request<Inner>,
) -> Result<Attempt, Reason> {
    let sent = match &mut idle.sender {
        Sender::Http1(sender) => {
            if sender.ready().await.is_err() {
                return Ok(Attempt::Unsent(Box::new(request)));
            }
            sender.try_send_request(as_http1(request, place)).await
        }
        Sender::Http2(sender) => {
            if sender.ready().await.is_err() {
                return Ok(Attempt::Unsent(Box::new(request)));
            }
            sender.try_send_request(as_http2(request, place)).await
        }
    };
    match sent {
        Ok(answer) => {
            idle.since = Instant::now();
            let address = idle.address;
            let busy = Busy { idle: Some(idle), place: place.clone(), address };
            Ok(Attempt::Answered(Box::new((answer, busy))))
        }
        Err(mut error) => match error.take_message() {
            Some(unsent) => Ok(Attempt::Unsent(Box::new(unsent))),
            None => Err(why(error.error())),
        },
    }
}

/// What went wrong, as far as a row tells.
fn why(error: &hyper::Error) -> Reason {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let io = inner.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.get_ref().is_some_and(|e| e.is::<crate::metered::Spent>())) {
            return Reason::BytesSpent;
        }
        source = inner.source();
    }
    if error.is_parse() || error.is_parse_too_large() {
        Reason::BadAnswer
    } else {
        Reason::Upstream
    }
}

async fn connect(connection: &Arc<Connection>, place: &Place) -> Result<Idle, Reason> {
    let (stream, address) = dial(connection, &place.destination).await?;
    if !place.secure {
        let sender = http1(Box::new(stream)).await?;
        return Ok(Idle { sender, address, since: Instant::now() });
    }
    let name = match &place.destination.host {
        Host::Name(name) => ServerName::try_from(name.to_string()).map_err(|_| Reason::Upstream)?,
        Host::Address(address) => ServerName::IpAddress((*address).into()),
    };
    let connector = TlsConnector::from(Arc::clone(&connection.session.shared.live().tls));
    let stream = tokio::time::timeout(TLS_PATIENCE, connector.connect(name, stream))
        .await
        .map_err(|_| Reason::Upstream)?
        .map_err(|_| Reason::Upstream)?;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let stream: BoxStream = Box::new(stream);
    let sender = if is_http2 { http2(stream).await? } else { http1(stream).await? };
    let idle = Idle { sender, address, since: Instant::now() };
    if let Sender::Http2(sender) = &idle.sender {
        let sender = Sender::Http2(sender.clone());
        let copy = Idle { sender, address, since: idle.since };
        connection.session.pool.keep(place.clone(), copy);
    }
    Ok(idle)
}

async fn http1(stream: BoxStream) -> Result<Sender, Reason> {
    let (sender, driver) = http1::Builder::new()
        .max_header_size(LONGEST_HEAD as usize)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|_| Reason::Upstream)?;
    tokio::spawn(driver);
    Ok(Sender::Http1(sender))
}

async fn http2(stream: BoxStream) -> Result<Sender, Reason> {
    let (sender, driver) = http2::Builder::new(TokioExecutor::new())
        .max_header_list_size(LONGEST_HEAD)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|_| Reason::Upstream)?;
    tokio::spawn(driver);
    Ok(Sender::Http2(sender))
}

/// The place as a Host field says it.
pub(crate) fn host_field(place: &Place) -> String {
    let Destination { host, port } = &place.destination;
    if *port == place.scheme().port() { host.to_string() } else { format!("{host}:{port}") }
}

fn as_http1(mut request: Request<Inner>, place: &Place) -> Request<Inner> {
    *request.version_mut() = Version::HTTP_11;
    if let Ok(value) = host_field(place).try_into() {
        request.headers_mut().insert(HOST, value);
    }
    if let Some(path) = request.uri().path_and_query().cloned() {
        *request.uri_mut() = Uri::from(path);
    }
    request
}

fn as_http2(mut request: Request<Inner>, place: &Place) -> Request<Inner> {
    *request.version_mut() = Version::HTTP_2;
    request.headers_mut().remove(HOST);
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let uri = Uri::builder().scheme("https").authority(host_field(place)).path_and_query(path);
    if let Ok(uri) = uri.build() {
        *request.uri_mut() = uri;
    }
    request
}
