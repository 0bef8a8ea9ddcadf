//! Traffic to servers inside a sandbox: who may, and how many at once.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use belljar_node::PortStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Problem;
use crate::sandbox::Sandbox;
use crate::secret::Secret;
use crate::start::Actions;

/// The most connections to one sandbox at once.
pub const MOST_CONNECTIONS: usize = 1000;

/// Why nothing gets through.
#[derive(Debug, thiserror::Error)]
pub enum Barred {
    #[error("the sandbox requires a traffic token and the request has none")]
    NoToken,
    #[error("the traffic token is wrong")]
    WrongToken,
    #[error("the sandbox cannot be reached")]
    Gone(#[source] Problem),
    #[error("the sandbox already has {MOST_CONNECTIONS} connections")]
    TooMany,
    #[error("nothing answers on port {0}")]
    Closed(u16),
}

/// Room for connections to one sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<Semaphore>);

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_CONNECTIONS)))
    }
}

/// A connection to a port inside; counted while it is there.
#[derive(Debug)]
pub struct Connection {
    stream: PortStream,
    _room: OwnedSemaphorePermit,
}

/// How long a server that was just started may take to listen.
const TRIES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(300),
    Duration::from_millis(400),
];

/// How long a connection may take to be made; a sandbox that was paused just now
/// does not answer.
const PATIENCE: Duration = Duration::from_secs(30);

impl Sandbox {
    /// Whether somebody who shows this may send traffic to its ports, the agent's
    /// excepted, which has a token of its own.
    pub fn admit(&self, token: Option<&str>) -> Result<(), Barred> {
        match (&self.facts().traffic_token, token) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(Barred::NoToken),
            (Some(own), Some(token)) if own.is(token) => Ok(()),
            (Some(_), Some(_)) => Err(Barred::WrongToken),
        }
    }

    /// The token for its ports, which a private sandbox demands on all of them and every one
    /// on the interpreter's. E2B's SDKs send no other when they manage contexts.
    pub fn port_token(&self) -> Secret {
        let facts = self.facts();
        facts.traffic_token.clone().unwrap_or_else(|| facts.token.derive("port"))
    }
}

impl Actions {
    /// Connects to a port inside a sandbox, which is resumed for it if its owner
    /// wished so.
    pub async fn dial(&self, sandbox: &Arc<Sandbox>, port: u16) -> Result<Connection, Barred> {
        let live = self.wake(sandbox).await.map_err(Barred::Gone)?;
        if port == belljar_peer_proto::gateway::PORT && live.machine.is_connected() {
            // Whoever came in by it would go out as the sandbox.
            return Err(Barred::Closed(port));
        }
        let room = live.room.0.clone().try_acquire_owned().map_err(|_| Barred::TooMany)?;
        let mut tries = TRIES.into_iter();
        loop {
            let error = match tokio::time::timeout(PATIENCE, live.machine.dial(port)).await {
                Ok(Ok(stream)) => return Ok(Connection { stream, _room: room }),
                Ok(Err(error)) => error,
                Err(_) => return Err(Barred::Closed(port)),
            };
            if let belljar_node::DialError::Link(_) = error {
                let problem = Problem::unknown_sandbox(sandbox.id().as_str());
                return Err(Barred::Gone(problem));
            }
            match tries.next() {
                Some(pause) if error.is_port_closed() => tokio::time::sleep(pause).await,
                _ => return Err(Barred::Closed(port)),
            }
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
