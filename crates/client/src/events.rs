//! Server-sent events, as values.

use std::marker::PhantomData;
use std::time::Duration;

use bytes::BytesMut;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;

use crate::error::{Error, Protocol, Transport};
use crate::server::Body;

/// The longest event: a display may be an image.
const LONGEST: usize = 64 << 20;

/// A server with nothing to say says so every fifteen seconds.
const SILENCE: Duration = Duration::from_secs(60);

/// Events that come; dropped, nobody listens any more.
#[derive(Debug)]
pub(crate) struct Events<T> {
    body: Body,
    /// What has come and was not read.
    held: BytesMut,
    /// How much of it has no end of a line, for sure.
    searched: usize,
    data: Vec<u8>,
    of: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Events<T> {
    pub(crate) fn new(body: Body) -> Self {
        Self { body, held: BytesMut::new(), searched: 0, data: Vec::new(), of: PhantomData }
    }

    /// The next event; none when the server has said everything. Nothing is lost
    /// when this is dropped half-way.
    pub(crate) async fn next(&mut self) -> Result<Option<T>, Error> {
        loop {
            while let Some(line) = self.line() {
                if line.is_empty() {
                    if !self.data.is_empty() {
                        let event = serde_json::from_slice(&self.data).map_err(Protocol::Json);
                        self.data.clear();
                        return Ok(Some(event?));
                    }
                } else if let Some(data) = line.strip_prefix(b"data:") {
                    // A value of several lines has them joined; JSON minds no space.
                    self.data.extend_from_slice(data);
                }
                // What an event is called stands in its data, too; the rest is comments.
            }
            if self.held.len() + self.data.len() > LONGEST {
                return Err(Protocol::LongEvent(LONGEST).into());
            }
            let frame = tokio::time::timeout(SILENCE, self.body.frame()).await;
            let frame = frame.map_err(|_| Transport::Silent(SILENCE))?;
            match frame.transpose().map_err(Transport::BrokeOff)? {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.held.extend_from_slice(&bytes);
                    }
                }
            }
        }
    }

    /// A whole line without its end, if one has come.
    fn line(&mut self) -> Option<BytesMut> {
        let fresh = &self.held[self.searched..];
        let Some(end) = fresh.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.held.len();
            return None;
        };
        let mut line = self.held.split_to(self.searched + end + 1);
        self.searched = 0;
        line.truncate(line.len() - 1);
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use serde_json::{Value, json};

    use super::*;

    fn events(text: &str, at: usize) -> Events<Value> {
        let pieces = text.as_bytes().chunks(at).map(|piece| Ok(Frame::data(piece.to_vec().into())));
        let pieces: Vec<Result<Frame<Bytes>, Box<dyn std::error::Error + Send + Sync>>> =
            pieces.collect();
        Events::new(StreamBody::new(stream::iter(pieces)).boxed_unsync())
    }

    #[tokio::test]
    async fn events_are_the_same_however_they_are_cut() {
        let text = "event: a\ndata: {\"n\": 1}\n\n:\n\nid: 4\r\ndata: {\"n\":\r\ndata: 2}\r\n\r\n\
                    data: {\"n\": 3}\n";
        for at in 1..text.len() {
            let mut events = events(text, at);
            assert_eq!(events.next().await.unwrap(), Some(json!({ "n": 1 })), "{at}");
            assert_eq!(events.next().await.unwrap(), Some(json!({ "n": 2 })), "{at}");
            // The last one has no end: it did not come as a whole.
            assert_eq!(events.next().await.unwrap(), None, "{at}");
        }
    }

    #[tokio::test]
    async fn what_is_no_json_is_an_error_and_no_event() {
        let mut events = events("data: {\n\ndata: 1\n\n", 7);
        assert!(matches!(events.next().await, Err(Error::Protocol(Protocol::Json(_)))));
        assert_eq!(events.next().await.unwrap(), Some(json!(1)));
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_not_collected_for_ever() {
        let piece = Bytes::from(vec![b'x'; 1 << 20]);
        let pieces = stream::iter((0..80).map(move |_| Ok(Frame::data(piece.clone()))));
        let mut events = Events::<Value>::new(StreamBody::new(pieces).boxed_unsync());
        assert!(matches!(events.next().await, Err(Error::Protocol(Protocol::LongEvent(_)))));
    }
}
