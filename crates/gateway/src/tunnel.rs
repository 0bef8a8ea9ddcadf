//! Tunnels: bytes that pass unread, once the name inside them is the one that
//! was asked for; or whose inside is read here, where a policy needs that.

mod copy;
mod hello;

use std::sync::Arc;

use belljar_domain::network::{Decision, Kind, Reason};
use belljar_egress::{Destination, Verdict, holds_hosts};
use futures_util::future::BoxFuture;
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::TlsAcceptor;

use crate::answer::Refusal;
use crate::forward::{allowed_by, outcome};
use crate::front::{self, Front, Pinned, linger};
use crate::log::Entry;
use crate::wire::{self, Ahead, Tally};
use crate::{resolve, socks, upstream};
use hello::Greeting;

/// In which protocol a tunnel was asked for, and is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Connect,
    Socks,
}

/// Judges a tunnel and serves it to its end.
pub(crate) fn open(front: Front, to: Destination, asked: Asked) -> BoxFuture<'static, ()> {
    // What is inside may be served by the front again: a future that would
    // contain itself.
    Box::pin(async move {
        let mut entry = Entry::begin(&front.connection, Kind::Connection).await;
        entry.to(to.host.clone(), to.port);
        let state = front.connection.session.state();
        match state.judge(&to) {
            Verdict::Deny(reason) => refuse(front, asked, entry, reason).await,
            Verdict::Tunnel if holds_hosts(&state.policy, &to) => {
                plain(front, to, asked, entry).await;
            }
            Verdict::Tunnel => {
                front.connection.tunnels(&to, None);
                pass(front, to, asked, entry).await;
            }
            Verdict::Content => {
                entry.decide(Decision::Allowed, allowed_by(&state.policy));
                read(front, to, asked, entry).await;
            }
        }
    })
}

async fn refuse(mut front: Front, asked: Asked, mut entry: Entry, reason: Reason) {
    entry.decide(outcome(reason), reason);
    let refusal = Refusal::new(reason, entry.row().host.clone());
    if asked == Asked::Connect {
        entry.row().status = Some(refusal.status.as_u16());
    }
    drop(entry);
    match asked {
        Asked::Connect => front.say(refusal.answer()).await,
        Asked::Socks => socks::refuse(&mut front.writer, reason).await,
    }
    linger(Some(front.reader), front.writer).await;
}

async fn accept(front: &mut Front, asked: Asked) -> std::io::Result<()> {
    match asked {
        Asked::Connect => front.writer.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await,
        Asked::Socks => socks::accept(&mut front.writer).await,
    }
}

/// Passes bytes on.
async fn pass(mut front: Front, to: Destination, asked: Asked, mut entry: Entry) {
    let (upstream, address) = match upstream::dial(&front.connection, &to).await {
        Ok(dialled) => dialled,
        Err(reason) => return refuse(front, asked, entry, reason).await,
    };
    entry.row().address = Some(address);
    let connection = Arc::clone(&front.connection);
    connection.tunnels(&to, Some(address));
    if let Err(reason) = connection.check() {
        return refuse(front, asked, entry, reason).await;
    }
    if accept(&mut front, asked).await.is_err() {
        return;
    }
    let tally = Arc::new(Tally::default());
    entry.count_by(&tally);
    let mut inside = wire::join(front.reader, front.writer);
    // Where TLS is the rule, nothing passes before its greeting was read. Else
    // the server may speak first, and the first bytes of the client are read
    // when they come.
    let policy = connection.session.policy();
    if to.port == 443 {
        match hello::read(&mut inside, &policy, &to).await {
            Ok(Greeting::Tls) => {}
            Ok(Greeting::Other) => return entry.decide(Decision::Denied, Reason::NoName),
            Ok(Greeting::Nothing) => return,
            Err(reason) => return entry.decide(Decision::Denied, reason),
        }
    }
    entry.decide(Decision::Allowed, allowed_by(&policy));
    copy::both(inside, upstream, (&policy, &to), &tally, &mut entry).await;
}

/// A tunnel to the port of plain HTTP. Its requests are read, so that each is for the host that
/// was asked for: others are served at the same address. TLS passes as elsewhere.
async fn plain(mut front: Front, to: Destination, asked: Asked, mut entry: Entry) {
    let connection = Arc::clone(&front.connection);
    // A name that leads where nothing may go is refused now, while the client can be told why.
    if let Err(reason) = resolve::addresses(&connection, &to).await {
        return refuse(front, asked, entry, reason).await;
    }
    connection.reads(&to);
    if accept(&mut front, asked).await.is_err() {
        return;
    }
    let mut inside: Ahead = wire::join(front.reader, front.writer);
    // Clients open connections ahead of their needs.
    let is_silent = inside.buffer.is_empty();
    if is_silent && !matches!(tokio::time::timeout(front::IDLE, inside.fill()).await, Ok(Ok(1..))) {
        return;
    }
    let policy = connection.session.policy();
    match hello::read(&mut inside, &policy, &to).await {
        Ok(Greeting::Other) => {
            entry.decide(Decision::Allowed, allowed_by(&policy));
            let (reader, writer) = wire::split(inside.stream, inside.buffer);
            let pinned = Some(Pinned { destination: to, secure: false });
            return Front { reader, writer, connection, pinned }.requests().await;
        }
        Ok(Greeting::Tls) => {}
        Ok(Greeting::Nothing) => return,
        Err(reason) => return entry.decide(Decision::Denied, reason),
    }
    connection.tunnels(&to, None);
    let (upstream, address) = match upstream::dial(&connection, &to).await {
        Ok(dialled) => dialled,
        Err(reason) => return entry.decide(outcome(reason), reason),
    };
    entry.row().address = Some(address);
    connection.tunnels(&to, Some(address));
    if let Err(reason) = connection.check() {
        return entry.decide(outcome(reason), reason);
    }
    let tally = Arc::new(Tally::default());
    entry.count_by(&tally);
    entry.decide(Decision::Allowed, allowed_by(&policy));
    copy::both(inside, upstream, (&policy, &to), &tally, &mut entry).await;
}

/// Reads what is inside, request by request.
async fn read(mut front: Front, to: Destination, asked: Asked, mut entry: Entry) {
    let connection = Arc::clone(&front.connection);
    connection.reads(&to);
    if accept(&mut front, asked).await.is_err() {
        return;
    }
    let mut inside: Ahead = wire::join(front.reader, front.writer);
    let policy = connection.session.policy();
    let secure = match hello::read(&mut inside, &policy, &to).await {
        Ok(Greeting::Tls) => true,
        Ok(Greeting::Other) if to.port != 443 => false,
        Ok(Greeting::Other) => return entry.decide(Decision::Denied, Reason::NoName),
        Ok(Greeting::Nothing) => return,
        Err(reason) => return entry.decide(Decision::Denied, reason),
    };
    let (reader, writer) = if secure {
        let Ok(leaf) = connection.session.authority.leaf(&to.host) else {
            return entry.decide(Decision::Failed, Reason::Upstream);
        };
        let accepting = TlsAcceptor::from(leaf).accept(inside);
        let Ok(Ok(stream)) = tokio::time::timeout(hello::PATIENCE, accepting).await else {
            return entry.decide(Decision::Failed, Reason::Ended);
        };
        wire::split(Box::new(stream), bytes::BytesMut::new())
    } else {
        wire::split(inside.stream, inside.buffer)
    };
    let pinned = Some(Pinned { destination: to, secure });
    Front { reader, writer, connection, pinned }.requests().await;
}
