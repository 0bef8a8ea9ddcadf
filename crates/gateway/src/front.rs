//! One connection from inside: what it speaks, and request by request what it
//! wants.
//!
//! After any doubt about where a request ends, the answer is 400 and the
//! connection is closed. Each request is judged by itself, whatever was allowed
//! before it on the same connection.

mod route;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use belljar_domain::network::{Decision, Kind, Reason};
use belljar_egress::Destination;
use belljar_egress::http1::{Head, Malformed, Scan};
use bytes::{Buf as _, BytesMut};
use http::Method;
use tokio::io::AsyncWriteExt as _;

use crate::answer::Refusal;
use crate::body::Answer;
use crate::connection::Connection;
use crate::log::Entry;
use crate::respond::{self, Question};
use crate::socks;
use crate::tunnel::{self, Asked};
use crate::wire::{self, BoxStream, Lent, Reader, Writer};
use route::Route;

/// From the first byte of a head to its last.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// Between requests.
pub(crate) const IDLE: Duration = Duration::from_secs(120);
/// What a client that was refused may still send, so that it sees the answer.
const LINGER: Duration = Duration::from_secs(1);
const MOST_LINGERING: usize = 256 << 10;

/// Both halves of a connection, and what is known of it.
pub(crate) struct Front {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) connection: Arc<Connection>,
    /// Where everything on this connection goes, once that is settled.
    pub(crate) pinned: Option<Pinned>,
}

/// A tunnel whose inside is read here.
#[derive(Debug, Clone)]
pub(crate) struct Pinned {
    pub(crate) destination: Destination,
    pub(crate) secure: bool,
}

/// Serves a connection to its end.
pub(crate) async fn serve(stream: BoxStream, connection: Arc<Connection>) {
    let (mut reader, writer) = wire::split(stream, BytesMut::new());
    // Clients open connections ahead of their needs, so the first byte may take
    // as long as the next request.
    let first = tokio::time::timeout(IDLE, reader.wait()).await;
    if !matches!(first, Ok(Ok(1..))) {
        return;
    }
    connection.attributed().await;
    let front = Front { reader, writer, connection, pinned: None };
    if front.reader.buffer.first() == Some(&socks::VERSION) {
        socks::serve(front).await;
    } else {
        front.requests().await;
    }
}

/// What becomes of the connection after a request.
enum Then {
    Next(Front),
    End,
}

impl Front {
    /// Serves requests until one of them ends it.
    pub(crate) async fn requests(self) {
        let mut front = self;
        while let Then::Next(next) = front.request().await {
            front = next;
        }
    }

    async fn request(mut self) -> Then {
        let head = match self.head().await {
            Ok(Some(head)) => head,
            // It ended between two requests, or nobody knows what it wants.
            Ok(None) => return Then::End,
            Err(malformed) => {
                self.refuse_malformed(malformed).await;
                return Then::End;
            }
        };
        match Route::of(&head, self.pinned.as_ref()) {
            Ok(Route::Tunnel(destination)) => {
                // Nothing is read before the answer, so what was sent before it
                // belongs to the tunnel.
                tunnel::open(self, destination, Asked::Connect).await;
                Then::End
            }
            Ok(route) => self.exchange(head, route).await,
            Err(reason) => {
                self.refuse(&head, reason).await;
                Then::End
            }
        }
    }

    /// The next head; none at the connection's end.
    async fn head(&mut self) -> Result<Option<Head>, Malformed> {
        if self.reader.buffer.is_empty() {
            let more = tokio::time::timeout(IDLE, self.reader.wait()).await;
            if !matches!(more, Ok(Ok(1..))) {
                return Ok(None);
            }
        }
        let whole = tokio::time::timeout(HEAD_PATIENCE, self.rest_of_head()).await;
        whole.unwrap_or(Ok(None))
    }

    async fn rest_of_head(&mut self) -> Result<Option<Head>, Malformed> {
        let mut scan = Scan::default();
        loop {
            if let Some((head, end)) = Head::parse_growing(&mut scan, &self.reader.buffer)? {
                self.reader.buffer.advance(end);
                return Ok(Some(head));
            }
            if !matches!(self.reader.fill().await, Ok(1..)) {
                return Ok(None);
            }
        }
    }

    async fn exchange(self, head: Head, route: Route) -> Then {
        let Self { reader, mut writer, connection, pinned } = self;
        let Ok(method) = Method::from_bytes(head.method().as_bytes()) else { return Then::End };
        let patience = connection.write_patience();
        let question =
            Question { method, version: head.version(), keeps_alive: head.keeps_alive() };
        if head.expects_continue()
            && respond::has_body(head.framing())
            && route.may_send_body(&connection, &head)
            && respond::go_on(&mut writer, patience).await.is_err()
        {
            return Then::End;
        }
        let (answering, mut lent) = route.answer(head, reader, &connection);
        let answer = tokio::select! {
            biased;
            answer = answering => answer,
            () = lent.gone() => return Then::End,
        };
        match respond::write(&mut writer, &question, answer, &mut lent, patience).await {
            Ok(true) => match lent.take() {
                Ok(reader) => Then::Next(Self { reader, writer, connection, pinned }),
                Err(left) => {
                    linger(left, writer).await;
                    Then::End
                }
            },
            Ok(false) => {
                linger(lent.take().map_or_else(|left| left, Some), writer).await;
                Then::End
            }
            // The client is gone, or must see that the answer is not whole.
            Err(_) => Then::End,
        }
    }

    async fn refuse_malformed(mut self, malformed: Malformed) {
        let mut entry = Entry::begin(&self.connection, Kind::Connection).await;
        entry.decide(Decision::Denied, Reason::Malformed);
        if let Some(pinned) = &self.pinned {
            entry.to(pinned.destination.host.clone(), pinned.destination.port);
        }
        entry.row().status = Some(400);
        drop(entry);
        let mut refusal = Refusal::new(Reason::Malformed, None);
        refusal.message = format!("the request is not well-formed: {malformed}");
        self.say(refusal.answer()).await;
        linger(Some(self.reader), self.writer).await;
    }

    /// Refuses a request that was read, and ends the connection: it is not sure
    /// that both sides mean the same by it.
    async fn refuse(mut self, head: &Head, reason: Reason) {
        let mut entry = Entry::begin(&self.connection, Kind::Exchange).await;
        entry.decide(Decision::Denied, reason);
        if let Some(to) = head.target().destination() {
            entry.to(to.host.clone(), to.port);
        }
        entry.row().method = Some(head.method().to_owned());
        let refusal = Refusal::new(reason, entry.row().host.clone());
        entry.row().status = Some(refusal.status.as_u16());
        drop(entry);
        self.say(refusal.answer()).await;
        linger(Some(self.reader), self.writer).await;
    }

    /// An answer after which the connection ends.
    pub(crate) async fn say(&mut self, answer: Answer) {
        let question = Question {
            method: Method::GET,
            version: belljar_egress::http1::Version::Http11,
            keeps_alive: false,
        };
        let mut lent = Lent::Spoilt(None);
        let patience = self.connection.write_patience();
        let _ = respond::write(&mut self.writer, &question, answer, &mut lent, patience).await;
    }
}

/// Ends a connection so that the client sees what was written last: a socket
/// that is closed with something unread resets the connection.
pub(crate) async fn linger(reader: Option<Reader>, mut writer: Writer) {
    let _ = writer.shutdown().await;
    let Some(mut reader) = reader else { return };
    let drain = async {
        let mut drained = 0;
        while drained < MOST_LINGERING {
            reader.buffer.clear();
            match reader.fill().await {
                Ok(count @ 1..) => drained += count,
                Ok(0) | Err(_) => return Ok::<(), io::Error>(()),
            }
        }
        Ok(())
    };
    let _ = tokio::time::timeout(LINGER, drain).await;
}
