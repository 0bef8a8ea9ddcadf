//! Connections that code makes in a sandbox whose network the host does not see.
//!
//! The guest listens, on a port of its own for each call and each interpreter,
//! which only that one finds in its environment; so the port says whose a
//! connection is. Another call could look for it and use it: what it does there
//! is put down to the wrong call of its own sandbox, and to no other sandbox.
//!
//! ```text
//!   code ──► port of its call ──guest──► channel ──pump──► socketpair ──► gateway
//! ```

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use belljar_guest_proto::{Failure, Reply, Request, ToGuest};
use belljar_peer_proto::gateway::{Belongs, PORT};
use rustix::io::Errno;
use tokio::net::UnixStream;
use tokio::task::AbortHandle;

use crate::dial::Pump;
use crate::ledger::Ledger;
use crate::link::{Channel, Incoming, Link, LinkError};

/// Why a guest does not relay.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    #[error("the sandbox does not respond")]
    Link(#[source] LinkError),
    #[error("cannot {doing}")]
    Refused { doing: String, source: io::Error },
}

impl From<Failure> for RelayError {
    fn from(failure: Failure) -> Self {
        let source = io::Error::from_raw_os_error(failure.errno);
        Self::Refused { doing: failure.doing, source }
    }
}

/// Takes the gateway's end of a connection.
type Pass = Box<dyn Fn(Belongs, OwnedFd) + Send + Sync>;

/// The listeners of one sandbox.
pub(crate) struct Relay {
    link: Link,
    listeners: Mutex<Listeners>,
    /// One is opened at a time, so that no call gets two.
    opening: tokio::sync::Mutex<()>,
    /// Whose connections are, and who takes them.
    acceptor: Arc<Acceptor>,
}

struct Acceptor {
    ledger: Weak<Ledger>,
    pass: Pass,
}

#[derive(Default)]
struct Listeners {
    open: HashMap<u32, Listener>,
    /// Those of calls that have ended, oldest first: what they left behind goes
    /// on using them.
    ended: VecDeque<u32>,
}

/// A port inside; closed when this is dropped.
struct Listener {
    port: u16,
    accepting: Vec<AbortHandle>,
    /// Of the listener; its drop closes the port.
    _channel: Channel,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.iter().for_each(AbortHandle::abort);
    }
}

/// Connections of one call that are taken at once, before the next round trip.
const ACCEPTING: usize = 3;

/// Ports that are kept open for what calls left behind.
const LINGERING: usize = 64;

/// How long to wait when the guest holds still.
const STILL: Duration = Duration::from_millis(200);

/// Connections that nobody can be told for: those to the usual port.
const NOBODY: u32 = 0;

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let listeners = self.listeners();
        f.debug_struct("Relay").field("open", &listeners.open.len()).finish_non_exhaustive()
    }
}

impl Relay {
    /// Listens on the usual port as well, for programs that know of no other.
    pub(crate) async fn start(
        link: Link,
        ledger: &Arc<Ledger>,
        pass: Pass,
    ) -> Result<Arc<Self>, RelayError> {
        let acceptor = Arc::new(Acceptor { ledger: Arc::downgrade(ledger), pass });
        let (listeners, opening) = Default::default();
        let relay = Self { link, listeners, opening, acceptor };
        relay.open(NOBODY, PORT).await?;
        Ok(Arc::new(relay))
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The port of a call; opened if it has none.
    pub(crate) async fn port_of(&self, number: u32) -> Result<u16, RelayError> {
        let _one = self.opening.lock().await;
        let known = self.listeners().open.get(&number).map(|listener| listener.port);
        match known {
            Some(port) => Ok(port),
            None => self.open(number, 0).await,
        }
    }

    async fn open(&self, number: u32, port: u16) -> Result<u16, RelayError> {
        let mut channel = self.link.open();
        let request = ToGuest::Request(Request::Listen { port });
        channel.cancel_on_drop(true);
        channel.send(&request, &[]).await.map_err(RelayError::Link)?;
        let port = match channel.reply().await.map_err(RelayError::Link)?? {
            Reply::Listening { port } => port,
            _ => return Err(RelayError::Link(LinkError::Gone)),
        };
        let accepting = (0..ACCEPTING).map(|_| {
            let (acceptor, link) = (self.acceptor.clone(), self.link.clone());
            tokio::spawn(acceptor.run(link, channel.number, number)).abort_handle()
        });
        let accepting = accepting.collect();
        let listener = Listener { port, accepting, _channel: channel };
        self.listeners().open.insert(number, listener);
        Ok(port)
    }

    /// Closes the port of a call that has ended, some time later.
    pub(crate) fn end(&self, number: u32) {
        let mut listeners = self.listeners();
        if !listeners.open.contains_key(&number) || listeners.ended.contains(&number) {
            return;
        }
        listeners.ended.push_back(number);
        if listeners.ended.len() > LINGERING
            && let Some(oldest) = listeners.ended.pop_front()
        {
            listeners.open.remove(&oldest);
        }
    }
}

impl Acceptor {
    /// Takes one connection after the other.
    async fn run(self: Arc<Self>, link: Link, listener: u32, number: u32) {
        while let Ok(channel) = accept(&link, listener).await {
            let Ok((ours, theirs)) = UnixStream::pair() else { continue };
            let Some(belongs) = self.belongs(number) else { return };
            let theirs = theirs.into_std().map(OwnedFd::from);
            let Ok(theirs) = theirs else { continue };
            tokio::spawn(Pump::new(channel, ours.into_split()).run_alone());
            (self.pass)(belongs, theirs);
        }
    }

    fn belongs(&self, number: u32) -> Option<Belongs> {
        let ledger = self.ledger.upgrade()?;
        Some(if number == NOBODY { Belongs::default() } else { ledger.describe(number) })
    }
}

/// Waits for a connection, however long that takes.
async fn accept(link: &Link, listener: u32) -> Result<Channel, RelayError> {
    loop {
        let mut channel = link.open();
        channel.cancel_on_drop(true);
        let request = ToGuest::Request(Request::Accept { listener });
        channel.send(&request, &[]).await.map_err(RelayError::Link)?;
        let answer = loop {
            if let Incoming::Reply(answer) = channel.next().await.map_err(RelayError::Link)? {
                break answer;
            }
        };
        match answer {
            Ok(_) => return Ok(channel),
            // It is put on disk just now.
            Err(failure) if failure.errno == Errno::AGAIN.raw_os_error() => {
                tokio::time::sleep(STILL).await;
            }
            Err(failure) => return Err(failure.into()),
        }
    }
}
