//! Accepts connections from inside, within the session's limits.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use belljar_domain::network::{Decision, Kind, Reason};
use belljar_peer_proto::gateway::Belongs;
use tokio::net::{TcpListener, TcpStream, UnixStream};

use crate::answer::Refusal;
use crate::connection::Connection;
use crate::front::{self, Front, linger};
use crate::log::Entry;
use crate::session::Session;
use crate::whose;
use crate::wire::{self, BoxStream};

/// Accepts until the session is closed.
pub(crate) async fn serve(
    session: Arc<Session>,
    listener: TcpListener,
    diagnosis: Option<Arc<OwnedFd>>,
) {
    let mut changes = session.watch();
    loop {
        let accepted = tokio::select! {
            biased;
            _ = changes.wait_for(|state| state.closed) => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, client)) => {
                let connection = Connection::new(Arc::clone(&session));
                match (&diagnosis, stream.local_addr()) {
                    (Some(diagnosis), Ok(own)) => {
                        let diagnosis = Arc::clone(diagnosis);
                        let connection = Arc::clone(&connection);
                        tokio::spawn(whose::find(connection, diagnosis, client, own));
                    }
                    _ => connection.attribute(Belongs::default()),
                }
                // Elsewhere than here, as far as the runtime goes.
                admit(connection, move || tcp(stream.into_std()?));
            }
            // Descriptors may have run out: what was accepted goes on, and ends.
            Err(error) => {
                tracing::warn!(sandbox.id = %session.subject.sandbox, %error, "accept failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Serves one connection in a task of its own, if there is room for it. Its stream
/// is made where the task runs.
pub(crate) fn admit<Make>(connection: Arc<Connection>, stream: Make)
where
    Make: FnOnce() -> io::Result<BoxStream> + Send + 'static,
{
    let session = Arc::clone(&connection.session);
    let lanes = session.shared.lanes.clone();
    let throttle = session.policy().throttle;
    match session.meter.arrive(&throttle) {
        Ok(()) => {
            let place = Place(session);
            lanes.run(async move {
                let _place = place;
                let Ok(stream) = stream() else { return };
                let until_cut = Arc::clone(&connection);
                tokio::select! {
                    biased;
                    () = until_cut.until_cut() => {}
                    () = front::serve(stream, connection) => {}
                }
            });
        }
        Err(reason) => {
            let Ok(place) = Turned::new(session) else { return };
            lanes.run(async move {
                let _place = place;
                let Ok(stream) = stream() else { return };
                turn_away(connection, stream, reason).await;
            });
        }
    }
}

/// A connection that counts.
struct Place(Arc<Session>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.meter.leave();
    }
}

/// One that is being told that there is no place. Few at a time are; the others
/// are closed without a word.
struct Turned(Arc<Session>);

impl Turned {
    fn new(session: Arc<Session>) -> Result<Self, Reason> {
        session.meter.turn_away()?;
        Ok(Self(session))
    }
}

impl Drop for Turned {
    fn drop(&mut self) {
        self.0.meter.turned_away();
    }
}

async fn turn_away(connection: Arc<Connection>, stream: BoxStream, reason: Reason) {
    connection.attributed().await;
    let mut entry = Entry::begin(&connection, Kind::Connection).await;
    entry.decide(Decision::Denied, reason);
    let refusal = Refusal::new(reason, None);
    entry.row().status = Some(refusal.status.as_u16());
    drop(entry);
    let (reader, writer) = wire::split(stream, bytes::BytesMut::new());
    let mut front = Front { reader, writer, connection, pinned: None };
    front.say(refusal.answer()).await;
    linger(Some(front.reader), front.writer).await;
}

/// A listener that was handed to us.
pub(crate) fn adopt(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// A stream that was handed to us: TCP or a Unix socket.
pub(crate) fn stream(descriptor: OwnedFd) -> io::Result<BoxStream> {
    let family = rustix::net::getsockname(&descriptor)?.address_family();
    if family == rustix::net::AddressFamily::UNIX {
        let stream = std::os::unix::net::UnixStream::from(descriptor);
        stream.set_nonblocking(true)?;
        return Ok(Box::new(UnixStream::from_std(stream)?));
    }
    tcp(descriptor.into())
}

fn tcp(stream: std::net::TcpStream) -> io::Result<BoxStream> {
    stream.set_nonblocking(true)?;
    let _ = stream.set_nodelay(true);
    Ok(Box::new(TcpStream::from_std(stream)?))
}
