//! A way to the gateway's operations for this process itself: whoever drives a model
//! from outside of a sandbox has no key either.

use std::io;
use std::os::unix::net::UnixStream;

use belljar_domain::SandboxId;
use belljar_peer_proto::gateway::{Belongs, FromGateway, Grant, Minted, Session, ToGateway};

use super::{Gateway, GatewayError};

/// A session that belongs to no sandbox; its id is made up. Its drop ends it, and
/// every token of it.
#[derive(Debug)]
pub struct Desk {
    gateway: Gateway,
    id: SandboxId,
    /// Of the gateway that knows of it.
    pid: Option<u32>,
}

impl Gateway {
    /// Opens a session for this process. One that a new gateway process has never
    /// heard of is not opened again by itself: see [`Desk::is_open`].
    pub async fn desk(&self, session: Session) -> Result<Desk, GatewayError> {
        let sequence = self.shared.next();
        let desk =
            Desk { gateway: self.clone(), id: session.subject.sandbox.clone(), pid: self.pid() };
        let open = ToGateway::Open { sequence, session: Box::new(session) };
        match self.shared.ask(sequence, &open, Vec::new()).await? {
            FromGateway::Opened { .. } => Ok(desk),
            _ => Err(GatewayError::Gone),
        }
    }
}

impl Desk {
    /// Whether the gateway is still the one that was told of this session.
    pub fn is_open(&self) -> bool {
        self.pid.is_some() && self.gateway.pid() == self.pid
    }

    pub async fn mint(&self, grant: Grant) -> Result<Minted, GatewayError> {
        self.gateway.mint(&self.id, grant).await
    }

    /// Lets every token that is alive live for so long from now.
    pub async fn renew(&self, seconds: u32) -> Result<(), GatewayError> {
        self.gateway.renew(&self.id, seconds).await
    }

    /// A connection, as one from inside of a sandbox would be. Rows say that it is
    /// for this run and turn.
    pub fn connect(&self, belongs: Belongs) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let connection = ToGateway::Connection { sandbox: self.id.clone(), belongs };
        self.gateway.shared.say_with(&connection, vec![theirs.into()]);
        Ok(ours)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let sequence = self.gateway.shared.next();
        self.gateway.shared.say(&ToGateway::Close { sequence, sandbox: self.id.clone() });
    }
}
