//! A server that breaks HTTP on purpose. The path says how.
//!
//! It writes bytes itself, since no library writes what it writes. Numbers come
//! as a query: `/flood?count=5`. `/hello` and `/echo` behave: they are the
//! controls.
//!
//! | path | what comes |
//! |---|---|
//! | `/hello`, `/echo` | a greeting; the request's own head and body, also below it |
//! | `/redirect?to=URL&status=302` | another place |
//! | `/endless-body?length=1` | a body without end, in chunks or with a length |
//! | `/endless-headers`, `/huge-header?kb=` | headers without end; one that is huge |
//! | `/flood?count=` | informational responses, 0 for no end of them |
//! | `/gzip-bomb?mb=` | zeros, compressed |
//! | `/trailers?kb=` | trailers, 0 for no end of them |
//! | `/chunk-extensions?kb=` | extensions of a chunk, 0 for no end of them |
//! | `/drip?ms=&count=` | one byte at a time, 0 for no end of them, also below it |
//! | `/framing/KIND` | see [`framing`] |
//! | `/early` | an answer before the body was read, which it never is |
//! | `/silent`, `/reset` | nothing; a reset connection |
//! | `/bytes?n=` | so many bytes |
//!
//! What a test places at a path ([`Hostile::place`]) goes before all of these.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::io::Socket;
use crate::listen::{Running, Security};
use crate::record::{Asked, Record};

mod framing;
pub(crate) mod head;
mod placed;

use head::Head;
use placed::Placed;

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct Hostile {
    running: Running,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    record: Record,
    watch: Vec<String>,
    placed: Placed,
    connections: AtomicU64,
}

impl Hostile {
    /// Listens at `address`, port 0 for any free one, and looks for the texts in
    /// `watch` in everything that it is sent.
    pub async fn start(
        address: SocketAddr,
        security: Security,
        watch: Vec<String>,
    ) -> anyhow::Result<Self> {
        let (record, placed) = Default::default();
        let connections = AtomicU64::new(0);
        let shared = Arc::new(Shared { record, watch, placed, connections });
        let serving = shared.clone();
        let serve = move |socket| {
            let shared = serving.clone();
            shared.connections.fetch_add(1, Ordering::Relaxed);
            // A connection that breaks is what this server is for.
            async move { drop(connection(&shared, socket).await) }
        };
        // What breaks here is HTTP/1.
        let security = match security {
            Security::Tls(config) => {
                let mut config = Arc::unwrap_or_clone(config);
                config.alpn_protocols = vec![b"http/1.1".to_vec()];
                Security::Tls(Arc::new(config))
            }
            Security::Plain => Security::Plain,
        };
        let running = Running::start(address, security, serve).await?;
        Ok(Self { running, shared })
    }

    pub fn address(&self) -> SocketAddr {
        self.running.address
    }

    /// What it was asked so far.
    pub fn record(&self) -> &Record {
        &self.shared.record
    }

    /// How many connections were opened so far.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Puts a file at a path, in place of what is there.
    pub fn place(&self, path: &str, content_type: &str, bytes: &[u8]) {
        self.shared.placed.file(path, content_type, bytes);
    }

    /// Has a path answered with exactly these bytes, and then the end.
    pub fn place_raw(&self, path: &str, answer: &[u8]) {
        self.shared.placed.raw(path, answer);
    }
}

async fn connection(shared: &Shared, mut socket: Socket) -> anyhow::Result<()> {
    let mut buffer = Vec::new();
    while let Some(head) = Head::read(&mut socket, &mut buffer).await? {
        if head.path() == "/__requests" {
            let list = serde_json::json!({ "total": shared.record.total(),
                "requests": shared.record.all() });
            socket.write_all(&head::ok(list.to_string().as_bytes())).await?;
            continue;
        }
        let early = head.path() == "/early";
        let body = if early { Vec::new() } else { head.body(&mut socket, &mut buffer).await? };
        shared.record.add(head.asked(&body, &shared.watch));
        if early {
            socket.write_all(&head::ok(b"early")).await?;
            return hold(&mut socket).await;
        }
        if let Some((answer, is_last)) = shared.placed.answer(&head) {
            socket.write_all(&answer).await?;
            if is_last || head.closes() {
                return Ok(socket.shutdown().await?);
            }
            continue;
        }
        if !respond(&mut socket, &head, &body).await? || head.closes() {
            return Ok(());
        }
    }
    Ok(())
}

/// Answers, and says whether the connection can go on.
async fn respond(socket: &mut Socket, head: &Head, body: &[u8]) -> anyhow::Result<bool> {
    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    match head.kind() {
        // One answer too many, on a connection that stays open.
        "/hello" if head.number("surplus", 0) > 0 => {
            let both = [head::ok(b"hello"), head::ok(b"poison")].concat();
            socket.write_all(&both).await?;
        }
        "/hello" => socket.write_all(&head::ok(b"hello")).await?,
        "/echo" => {
            let said = [head.raw(), body].concat();
            socket.write_all(&head::ok(&said)).await?;
        }
        "/bytes" => {
            let count = usize::try_from(head.number("n", 0))?;
            socket.write_all(&head::ok(&vec![b'b'; count])).await?;
        }
        "/redirect" => {
            let (status, to) = (head.number("status", 302), head.query("to").unwrap_or_default());
            let said = format!(
                "HTTP/1.1 {status} Elsewhere\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"
            );
            socket.write_all(said.as_bytes()).await?;
        }
        "/endless-body" if head.number("length", 0) > 0 => {
            let said = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", u64::MAX / 4);
            socket.write_all(said.as_bytes()).await?;
            repeat(socket, &[b'a'; 16384], 0).await?;
        }
        "/endless-body" => {
            socket.write_all(CHUNKED).await?;
            let chunk = [b"4000\r\n".as_slice(), &[b'a'; 0x4000], b"\r\n"].concat();
            repeat(socket, &chunk, 0).await?;
        }
        "/endless-headers" => {
            socket.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            repeat(socket, b"x-more: and more of them\r\n", 0).await?;
        }
        "/huge-header" => {
            socket.write_all(b"HTTP/1.1 200 OK\r\nx-huge: ").await?;
            repeat(socket, &[b'h'; 1024], head.number("kb", 1024).max(1)).await?;
            socket.write_all(b"\r\ncontent-length: 2\r\n\r\nok").await?;
        }
        "/flood" => {
            repeat(socket, b"HTTP/1.1 103 Early Hints\r\n\r\n", head.number("count", 0)).await?;
            socket.write_all(&head::ok(b"after the flood")).await?;
        }
        "/gzip-bomb" => {
            let bomb = framing::zeros(head.number("mb", 1024))?;
            let said = format!(
                "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
                bomb.len()
            );
            socket.write_all(said.as_bytes()).await?;
            socket.write_all(&bomb).await?;
        }
        "/trailers" => {
            socket.write_all(CHUNKED).await?;
            socket.write_all(b"2\r\nok\r\n0\r\n").await?;
            let line = format!("x-trailer: {}\r\n", "t".repeat(1011));
            repeat(socket, line.as_bytes(), head.number("kb", 1024)).await?;
            socket.write_all(b"\r\n").await?;
        }
        "/chunk-extensions" => {
            socket.write_all(CHUNKED).await?;
            socket.write_all(b"2").await?;
            let extension = format!(";{}", "e".repeat(1023));
            repeat(socket, extension.as_bytes(), head.number("kb", 1024)).await?;
            socket.write_all(b"\r\nok\r\n0\r\n\r\n").await?;
        }
        "/drip" => {
            socket.write_all(CHUNKED).await?;
            let (pause, count) = (head.number("ms", 100), head.number("count", 0));
            let mut dripped = 0;
            while count == 0 || dripped < count {
                socket.write_all(b"1\r\n.\r\n").await?;
                tokio::time::sleep(Duration::from_millis(pause)).await;
                dripped += 1;
            }
            socket.write_all(b"0\r\n\r\n").await?;
        }
        "/silent" => hold(socket).await?,
        "/reset" => {
            socket.tcp().set_zero_linger()?;
            return Ok(false);
        }
        other => {
            let kind = other.strip_prefix("/framing/").and_then(framing::bytes);
            let said = kind.with_context(|| format!("nothing is at `{other}`"));
            let Ok(said) = said else {
                let missing = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
                socket.write_all(missing).await?;
                return Ok(true);
            };
            socket.write_all(said).await?;
            socket.shutdown().await?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// `count` times `unit`; 0 for no end of them.
async fn repeat(socket: &mut Socket, unit: &[u8], count: u64) -> anyhow::Result<()> {
    let mut sent = 0;
    while count == 0 || sent < count {
        socket.write_all(unit).await?;
        sent += 1;
    }
    Ok(())
}

/// Says nothing and reads nothing more, until the client goes away.
async fn hold(socket: &mut Socket) -> anyhow::Result<()> {
    let mut byte = [0];
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        if socket.tcp().peek(&mut byte).await? == 0 || socket.read(&mut []).await.is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
