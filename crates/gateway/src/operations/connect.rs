//! Connections to an operation's upstream, kept and used again.
//!
//! Every operation has its own pool, so that no request travels on a connection
//! that another operation's credential has been on.

mod line;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use http::{Request, Response, Version, header};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;

pub(crate) use line::Reply;
use line::{Line, Unanswered};
use wire::Wire;

use crate::body::Inner;
use crate::lanes;

/// Below what servers usually keep a silent connection for.
const IDLE: Duration = Duration::from_secs(30);
const MOST_IDLE: usize = 256;
/// Of a head, where there is HTTP/2.
const LONGEST_HEAD: u32 = 64 << 10;

/// Where it went, found among the extensions of an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Asks one upstream.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    place: Place,
    /// By the lane that they were made on, and are used on.
    kept: Mutex<BTreeMap<usize, Kept>>,
}

/// Connections that wait for another request.
#[derive(Debug, Default)]
struct Kept {
    /// The longest idle first.
    lines: VecDeque<(Line, Instant)>,
    /// Many requests share it.
    http2: Option<(http2::SendRequest<Inner>, SocketAddr)>,
    /// Whether somebody comes to close what waits for too long.
    is_swept: bool,
}

/// Why an upstream did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("cannot connect to the upstream")]
    Connect(#[source] io::Error),
    #[error("the upstream did not answer")]
    Answer(#[source] hyper::Error),
    #[error("the upstream did not answer in time")]
    Timeout,
}

struct Place {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    timeout: Duration,
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a valid name for a certificate")]
pub(crate) struct InvalidServerName(String);

impl Pool {
    /// For `host` and `port` only, whatever a request says. `tls` is none for
    /// an upstream without TLS.
    pub(crate) fn new(
        host: &str,
        port: u16,
        tls: Option<Arc<ClientConfig>>,
        timeout: Duration,
    ) -> Result<Self, InvalidServerName> {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = match tls {
            Some(config) => {
                let name = ServerName::try_from(host.clone())
                    .map_err(|_| InvalidServerName(host.clone()))?;
                Some((TlsConnector::from(config), name))
            }
            None => None,
        };
        let place = Place { host, port, tls, timeout };
        Ok(Self { shared: Arc::new(Shared { place, kept: Mutex::default() }) })
    }

    /// Never follows a redirect: whoever asked gets to see it, or not.
    pub(crate) async fn ask(
        &self,
        request: Request<Inner>,
        timeout: Duration,
    ) -> Result<Response<Reply>, AskError> {
        let answer = tokio::time::timeout(timeout, self.answer(request));
        answer.await.unwrap_or(Err(AskError::Timeout))
    }

    async fn answer(&self, mut request: Request<Inner>) -> Result<Response<Reply>, AskError> {
        while let Some(line) = self.take().await {
            match self.ask_on(line, request).await {
                Err(Unanswered::Unsent(unsent)) => request = *unsent,
                Err(Unanswered::Failed(error)) => return Err(AskError::Answer(error)),
                Ok(answer) => return Ok(answer),
            }
        }
        let shared = self.shared.kept(|kept| kept.http2.clone());
        if let Some((sender, peer)) = shared.filter(|(sender, _)| !sender.is_closed()) {
            match ask_http2(sender, peer, request).await {
                Err(Unanswered::Unsent(unsent)) => request = *unsent,
                Err(Unanswered::Failed(error)) => return Err(AskError::Answer(error)),
                Ok(answer) => return Ok(answer),
            }
        }
        let wire = self.shared.place.connect().await.map_err(AskError::Connect)?;
        let answered = if wire.is_http2() {
            let peer = wire.peer();
            let (sender, driver) = http2::Builder::new(TokioExecutor::new())
                .max_header_list_size(LONGEST_HEAD)
                .handshake(wire)
                .await
                .map_err(AskError::Answer)?;
            tokio::spawn(driver);
            self.shared.kept(|kept| kept.http2 = Some((sender.clone(), peer)));
            ask_http2(sender, peer, request).await
        } else {
            let line = Line::new(wire).await.map_err(AskError::Answer)?;
            self.ask_on(line, request).await
        };
        answered.map_err(|unanswered| match unanswered {
            Unanswered::Unsent(_) => AskError::Connect(io::ErrorKind::ConnectionReset.into()),
            Unanswered::Failed(error) => AskError::Answer(error),
        })
    }

    async fn ask_on(
        &self,
        line: Line,
        request: Request<Inner>,
    ) -> Result<Response<Reply>, Unanswered> {
        let peer = line.peer;
        let (answer, line) = line.ask(request).await?;
        let line = line.map(|line| (line, self.clone()));
        Ok(reply(answer, peer, line))
    }

    /// The connection that was used last, if the server has left it open.
    async fn take(&self) -> Option<Line> {
        std::future::poll_fn(|context| {
            while let Some((mut line, since)) = self.shared.kept(|kept| kept.lines.pop_back()) {
                if since.elapsed() < IDLE && line.poll_usable(context) {
                    return std::task::Poll::Ready(Some(line));
                }
            }
            std::task::Poll::Ready(None)
        })
        .await
    }

    fn keep(&self, line: Line) {
        let is_swept = self.shared.kept(|kept| {
            if kept.lines.len() == MOST_IDLE {
                kept.lines.pop_front();
            }
            kept.lines.push_back((line, Instant::now()));
            std::mem::replace(&mut kept.is_swept, true)
        });
        if !is_swept {
            tokio::spawn(sweep(Arc::downgrade(&self.shared)));
        }
    }
}

fn reply(
    answer: Response<hyper::body::Incoming>,
    peer: SocketAddr,
    line: Option<(Line, Pool)>,
) -> Response<Reply> {
    let mut answer = answer.map(|incoming| Reply::new(incoming, line));
    answer.extensions_mut().insert(Peer(peer));
    answer
}

async fn ask_http2(
    mut sender: http2::SendRequest<Inner>,
    peer: SocketAddr,
    mut request: Request<Inner>,
) -> Result<Response<Reply>, Unanswered> {
    if sender.ready().await.is_err() {
        return Err(Unanswered::Unsent(Box::new(request)));
    }
    *request.version_mut() = Version::HTTP_2;
    // Its authority says so already.
    let host = request.headers_mut().remove(header::HOST);
    match sender.try_send_request(request).await {
        Ok(answer) => Ok(reply(answer, peer, None)),
        Err(mut error) => Err(match error.take_message() {
            Some(mut unsent) => {
                unsent.headers_mut().extend(host.map(|host| (header::HOST, host)));
                Unanswered::Unsent(Box::new(unsent))
            }
            None => Unanswered::Failed(error.into_error()),
        }),
    }
}

/// Closes this lane's connections that nobody has used for long; ends when none
/// are left.
async fn sweep(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(shared) = shared.upgrade() else { return };
        let is_over = shared.kept(|kept| {
            while kept.lines.front().is_some_and(|(_, since)| since.elapsed() >= IDLE) {
                kept.lines.pop_front();
            }
            kept.is_swept = !kept.lines.is_empty();
            !kept.is_swept
        });
        if is_over {
            return;
        }
    }
}

impl Shared {
    /// What this lane keeps.
    fn kept<T>(&self, see: impl FnOnce(&mut Kept) -> T) -> T {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        see(kept.entry(lanes::here()).or_default())
    }
}

impl Place {
    async fn connect(&self) -> io::Result<Wire> {
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        tokio::time::timeout(self.timeout, self.dial()).await.map_err(late)?
    }

    async fn dial(&self) -> io::Result<Wire> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let peer = stream.peer_addr()?;
        match &self.tls {
            None => Ok(Wire::Plain(peer, TokioIo::new(stream))),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await?;
                Ok(Wire::Secured(peer, Box::new(TokioIo::new(stream))))
            }
        }
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
