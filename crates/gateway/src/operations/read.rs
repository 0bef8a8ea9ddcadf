//! Reads the body of a request as a whole, within bounds.

use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt as _;

use crate::body::Inner;
use crate::room::{BodyRoom, GrowingRoom, NoRoom, TakenRoom};

/// A body, and the room that it takes.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) bytes: Bytes,
    pub(super) room: Option<TakenRoom>,
}

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReadError {
    #[error("the body is larger than this operation takes")]
    TooLarge,
    #[error("the body did not arrive in time")]
    Slow,
    #[error("the gateway has no room for the body now")]
    NoRoom,
    #[error("the client went away")]
    Gone,
}

pub(super) async fn read(
    body: Inner,
    most: u64,
    within: Duration,
    room: &BodyRoom,
) -> Result<Held, ReadError> {
    match body {
        Inner::Empty => Ok(Held { bytes: Bytes::new(), room: None }),
        Inner::Whole(bytes) if bytes.len() as u64 > most => Err(ReadError::TooLarge),
        Inner::Whole(bytes) => Ok(Held { bytes, room: None }),
        streamed @ Inner::Streamed(_) => {
            let collected = tokio::time::timeout(within, collect(streamed, most, room)).await;
            collected.map_err(|_| ReadError::Slow)?
        }
    }
}

async fn collect(body: Inner, most: u64, room: &BodyRoom) -> Result<Held, ReadError> {
    let hint = body.size_hint();
    if hint.lower() > most {
        return Err(ReadError::TooLarge);
    }
    let mut taken = GrowingRoom::new(room.clone());
    let mut collected = BytesMut::new();
    if let Some(exact) = hint.exact() {
        taken.grow_to(exact)?;
    }
    let mut body = pin!(body);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| ReadError::Gone)?.into_data() else { continue };
        let sum = collected.len() as u64 + data.len() as u64;
        if sum > most {
            return Err(ReadError::TooLarge);
        }
        taken.grow_to(sum)?;
        if collected.is_empty() && hint.exact() == Some(sum) {
            return Ok(Held { bytes: data, room: taken.into_taken() });
        }
        if collected.is_empty() {
            collected.reserve(usize::try_from(hint.lower()).map_err(|_| ReadError::TooLarge)?);
        }
        collected.extend_from_slice(&data);
    }
    Ok(Held { bytes: collected.freeze(), room: taken.into_taken() })
}

impl From<NoRoom> for ReadError {
    fn from(_: NoRoom) -> Self {
        Self::NoRoom
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use futures_util::{StreamExt as _, stream};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::sync::Semaphore;

    fn pieces(pieces: usize, size: usize) -> Inner {
        let all = stream::iter(std::iter::repeat_n(Bytes::from(vec![b'x'; size]), pieces));
        Inner::Streamed(StreamBody::new(all.map(|piece| Ok(Frame::data(piece)))).boxed_unsync())
    }

    const LONG: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn bodies_are_read_up_to_a_size() {
        let all = Arc::new(Semaphore::new(1024));
        let room = BodyRoom::new(Arc::clone(&all), 1 << 30);
        let held = read(pieces(10, 100), 1000, LONG, &room).await.unwrap();
        assert_eq!(held.bytes.len(), 1000);
        assert_eq!(all.available_permits(), 1024 - 64);
        drop(held);
        assert_eq!(all.available_permits(), 1024);
        let large = read(pieces(10, 101), 1000, LONG, &room).await;
        assert_eq!(large.unwrap_err(), ReadError::TooLarge);
        let whole = read(Inner::Whole(Bytes::from_static(b"abc")), 2, LONG, &room).await;
        assert_eq!(whole.unwrap_err(), ReadError::TooLarge);
    }

    #[tokio::test]
    async fn all_bodies_together_are_bounded() {
        let room = BodyRoom::new(Arc::new(Semaphore::new(100)), 1 << 30);
        let first = read(pieces(1, 1000), 1 << 20, LONG, &room).await.unwrap();
        let second = read(pieces(1, 1000), 1 << 20, LONG, &room).await;
        assert_eq!(second.unwrap_err(), ReadError::NoRoom);
        drop(first);
        assert!(read(pieces(1, 1000), 1 << 20, LONG, &room).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_is_not_waited_for() {
        let room = BodyRoom::new(Arc::new(Semaphore::new(100)), 1 << 30);
        let never = StreamBody::new(stream::pending::<std::io::Result<Frame<Bytes>>>());
        let read = read(Inner::Streamed(never.boxed_unsync()), 100, LONG, &room).await;
        assert_eq!(read.unwrap_err(), ReadError::Slow);
    }
}
