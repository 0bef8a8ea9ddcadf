//! A server that speaks like model providers do: Anthropic's Messages, OpenAI's
//! Responses and Chat Completions.
//!
//! It is strict where providers are: a request without the credential, without a
//! known API version or with a tool result that answers no call is refused. What
//! a gateway breaks on the way therefore shows up here. A script can ask for more
//! (`strict`), which clients of our own have to bear.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;

use crate::io::{Socket, Wire};
use crate::listen::{Running, Security};
use crate::record::Record;
use crate::script::Script;

mod answer;
mod ask;
mod bench;
mod chat;
mod dialect;
mod fault;
mod heard;
mod messages;
mod reply;
mod responses;
mod sse;
mod strict;
mod thoughts;

pub use bench::Bench;

/// How a scripted model is served.
#[derive(Debug)]
pub struct Options {
    /// Port 0 for any free one.
    pub address: SocketAddr,
    pub security: Security,
    /// What must come as `x-api-key` or `Authorization: Bearer`; nothing is
    /// checked without it.
    pub credential: Option<String>,
    pub script: Script,
    /// Texts that are looked for in every request, headers and body.
    pub watch: Vec<String>,
    /// Keeps bodies in the record.
    pub keep_bodies: bool,
    /// The same prepared answer for every request, and no record.
    pub bench: Option<Bench>,
}

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct Model {
    running: Running,
    record: Record,
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    script: Script,
    credential: Option<String>,
    watch: Vec<String>,
    keep_bodies: bool,
    bench: Option<bench::Prepared>,
    record: Record,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            security: Security::Plain,
            credential: None,
            script: Script::default(),
            watch: Vec::new(),
            keep_bodies: false,
            bench: None,
        }
    }
}

impl Model {
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let record = Record::default();
        let shared = Arc::new(Shared {
            script: options.script,
            credential: options.credential,
            watch: options.watch,
            keep_bodies: options.keep_bodies,
            bench: options.bench.map(bench::Prepared::new),
            record: record.clone(),
        });
        let serve = move |socket| connection(shared.clone(), socket);
        let running = Running::start(options.address, options.security, serve).await?;
        Ok(Self { running, record })
    }

    pub fn address(&self) -> SocketAddr {
        self.running.address
    }

    /// What it was asked so far.
    pub fn record(&self) -> &Record {
        &self.record
    }
}

async fn connection(shared: Arc<Shared>, socket: Socket) {
    let wire = Wire::new(socket);
    let slip = wire.slip();
    let bench = shared.bench.is_some();
    let service = service_fn(move |request| {
        let (shared, slip) = (shared.clone(), slip.clone());
        async move { Ok::<_, Infallible>(answer::answer(&shared, &slip, request).await) }
    });
    // Clients break connections, and scripts do: neither is an error here.
    if bench {
        let http = hyper::server::conn::http1::Builder::new();
        let _ = http.serve_connection(TokioIo::new(wire), service).await;
    } else {
        let http = auto::Builder::new(TokioExecutor::new());
        let _ = http.serve_connection(TokioIo::new(wire), service).await;
    }
}

#[cfg(test)]
mod tests;
