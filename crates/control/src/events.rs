//! What happens on all nodes, as it happens.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_api::event::Event;
use belljar_domain::NodeNumber;
use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, SelectAll};
use futures_util::{Stream, StreamExt as _};
use http::{StatusCode, header};
use tokio::time::Instant;

use crate::believe::{NodeEvent, read_event};
use crate::control::Control;
use crate::forward::Held;
use crate::keys::Caller;
use crate::refuse::Refusal;

/// The longest event of a node. Details of events are a few hundred bytes.
const MAX_EVENT_BYTES: usize = 64 << 10;

/// How soon a node that came, or came back, is listened to.
const LOOK: Duration = Duration::from_millis(500);

impl Control {
    pub(crate) async fn events(
        &self,
        caller: &Arc<Caller>,
        held: Held,
    ) -> Result<Response, Refusal> {
        let mut following = Following {
            control: self.clone(),
            caller: caller.clone(),
            held,
            all: SelectAll::new(),
            heard: BTreeSet::new(),
            look_at: Instant::now(),
            told: 0,
        };
        following.listen().await;
        if following.heard.is_empty() {
            return Err(Refusal::busy("no_node", "no node is available"));
        }
        let body = stream::unfold(following, async |mut following| {
            let event = following.next().await;
            Some((Ok::<_, Infallible>(event), following))
        });
        let kind =
            [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
        Ok((kind, Body::from_stream(body)).into_response())
    }
}

/// Everybody who is listened to.
struct Following {
    control: Control,
    caller: Arc<Caller>,
    held: Held,
    /// Events of nodes; none: the node has no more.
    all: SelectAll<BoxStream<'static, (NodeNumber, Option<Bytes>)>>,
    heard: BTreeSet<NodeNumber>,
    /// When to look for others again, however much there is to hear.
    look_at: Instant,
    /// How many were told.
    told: u64,
}

impl Following {
    /// Listens to those nodes that are not listened to yet.
    async fn listen(&mut self) {
        for node in self.control.nodes() {
            if self.heard.contains(&node) {
                continue;
            }
            let asked = self.control.forward_for(&self.caller, &[], node, self.held.request());
            let Ok(response) = asked.await else { continue };
            if response.status() != StatusCode::OK {
                continue;
            }
            let events = whole_events(response.into_body()).map(Some);
            let events = events.chain(stream::once(async { None }));
            self.all.push(events.map(move |event| (node, event)).boxed());
            self.heard.insert(node);
        }
        self.look_at = Instant::now() + LOOK;
    }

    async fn next(&mut self) -> Bytes {
        loop {
            let next = async {
                match self.all.next().await {
                    Some(next) => next,
                    // Nobody is listened to: the next look may find somebody.
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.look_at) => self.listen().await,
                next = next => match next {
                    (node, Some(block)) => {
                        if let Some(event) = retold(node, &block, &mut self.told) {
                            return event;
                        }
                    }
                    (node, None) => drop(self.heard.remove(&node)),
                },
            }
        }
    }
}

/// Writes what a node's block says in control's own bytes, if it is believed. It gets a number of
/// this stream's: each node counts its own.
fn retold(node: NodeNumber, block: &[u8], told: &mut u64) -> Option<Bytes> {
    let NodeEvent::Event(event) = read_event(node, block)? else {
        return Some(Bytes::from_static(b":\n\n"));
    };
    let event = Event { id: *told + 1, ..event };
    let data = serde_json::to_string(&event).ok()?;
    *told = event.id;
    Some(Bytes::from(format!("id: {}\nevent: {}\ndata: {data}\n\n", event.id, event.kind)))
}

/// Events of one node, each in one piece, so that those of others can stand
/// between them. A node that sends an event longer than any is not listened to any more.
fn whole_events(body: Body) -> impl Stream<Item = Bytes> + Send {
    let start = (body.into_data_stream(), EventBuffer::default());
    stream::unfold(start, async |(mut body, mut buffer)| {
        loop {
            if let Some(event) = buffer.next() {
                return Some((event, (body, buffer)));
            }
            if buffer.held.len() > MAX_EVENT_BYTES {
                tracing::warn!(bytes = buffer.held.len(), "node event too long; stream dropped");
                return None;
            }
            let piece = body.next().await?.ok()?;
            buffer.held.extend_from_slice(&piece);
        }
    })
}

/// The bytes of one node that are not a whole event yet.
#[derive(Debug, Default)]
struct EventBuffer {
    held: BytesMut,
    /// How many of them were searched for the end of an event: each byte is looked at once.
    searched: usize,
}

impl EventBuffer {
    /// Takes the next whole event.
    fn next(&mut self) -> Option<Bytes> {
        let found = self.held[self.searched..].windows(2).position(|two| two == b"\n\n");
        let Some(found) = found else {
            // The last byte may be the first of the two.
            self.searched = self.held.len().saturating_sub(1);
            return None;
        };
        let event = self.held.split_to(self.searched + found + 2).freeze();
        self.searched = 0;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use belljar_domain::SandboxId;

    use super::*;

    #[tokio::test]
    async fn an_event_comes_in_one_piece() {
        let pieces = ["id: 1\nda", "ta: x\n", "\nid: 2\n\nid", ": 3\n"];
        let body = Body::from_stream(stream::iter(pieces.map(Ok::<_, Infallible>)));
        let events: Vec<_> = whole_events(body).collect().await;
        assert_eq!(events, ["id: 1\ndata: x\n\n", "id: 2\n\n"]);
    }

    #[tokio::test]
    async fn an_event_without_an_end_is_not_kept() {
        let read = Arc::new(AtomicUsize::new(0));
        let counted = read.clone();
        let endless = stream::repeat_with(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Bytes::from(vec![b'x'; 1000]))
        });
        let first = stream::iter([Ok(Bytes::from("id: 1\n\n"))]);
        let events: Vec<_> = whole_events(Body::from_stream(first.chain(endless))).collect().await;
        assert_eq!(events, ["id: 1\n\n"]);
        let read = read.load(Ordering::Relaxed) * 1000;
        assert!(read <= MAX_EVENT_BYTES + 2000, "{read} bytes were read");
    }

    #[test]
    fn no_byte_is_searched_twice() {
        let mut buffer = EventBuffer::default();
        for _ in 0..100 {
            buffer.held.extend_from_slice(&[b'x'; 100]);
            assert_eq!(buffer.next(), None);
            assert_eq!(buffer.searched, buffer.held.len() - 1);
        }
        buffer.held.extend_from_slice(b"\n");
        assert_eq!(buffer.next(), None);
        buffer.held.extend_from_slice(b"\nid: 2\n\n");
        assert_eq!(buffer.next().map(|event| event.len()), Some(10_002));
        assert_eq!(buffer.next().as_deref(), Some(&b"id: 2\n\n"[..]));
        assert_eq!(buffer.next(), None);
    }

    #[test]
    fn events_of_all_nodes_are_counted_as_one() {
        let event = |id| block(id, &sandbox(1));
        let mut told = 0;
        let mut tell = |block: &str| retold(node(1), block.as_bytes(), &mut told);
        assert_eq!(tell(&event(7)).unwrap(), event(1));
        assert_eq!(tell(":\n\n").unwrap(), ":\n\n");
        assert_eq!(tell(&block(8, &sandbox(2))), None);
        assert_eq!(tell(&event(7)).unwrap(), event(2));
    }

    #[test]
    fn no_event_hides_where_a_client_alone_sees_a_line() {
        let (own, foreign) = (block(1, &sandbox(1)), block(1, &sandbox(2)));
        let hidden = foreign.trim_end().replace('\n', "\r");
        let own = own.trim_end();
        let mut passed = Vec::new();
        for block in [
            format!(": \r{hidden}\r\n\n"),
            format!("x\r\r{hidden}\r\r\n\n"),
            format!("\u{feff}{hidden}\n\n"),
            format!("retry: 1\r{hidden}\n{own}\n\n"),
            format!("{own}\r\r{hidden}\n\n"),
            own.replace(r#""created""#, r#""created\r\rdata: 1""#) + "\n\n",
            own.replacen("created", "a\r\rdata: 1", 1) + "\n\n",
        ] {
            let mut told = 0;
            let Some(shown) = retold(node(1), block.as_bytes(), &mut told) else { continue };
            let shown = String::from_utf8(shown.to_vec()).unwrap();
            assert!(!shown.contains('\r') && !shown.contains(&sandbox(2)), "{block:?}: {shown:?}");
            passed.push(shown);
        }
        // The control: what was read of such a block is told.
        let own = format!("{own}\n\n");
        assert_eq!(passed, [":\n\n", ":\n\n", ":\n\n", own.as_str(), own.as_str()]);
    }

    fn node(number: u16) -> NodeNumber {
        NodeNumber::new(number).unwrap()
    }

    fn sandbox(number: u16) -> String {
        SandboxId::on_node(node(number), [7; 16]).to_string()
    }

    fn block(id: u64, sandbox: &str) -> String {
        let at = "2026-01-01T00:00:00Z";
        let data = format!(r#"{{"id":{id},"at":"{at}","sandbox":"{sandbox}","kind":"created"}}"#);
        format!("id: {id}\nevent: created\ndata: {data}\n\n")
    }
}
