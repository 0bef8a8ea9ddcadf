//! Writes answers to a client, as HTTP/1.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use belljar_egress::http1::{CHUNK_END, Framing, LAST_CHUNK, Version, chunk_head, is_hop_by_hop};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap};
use http::{Method, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::body::{Answer, AnswerBody};
use crate::wire::Lent;

/// What has to be known of the request to answer it.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) method: Method,
    pub(crate) version: Version,
    pub(crate) keeps_alive: bool,
}

/// Writes `answer` to its end. Returns true if another request may follow. A client that takes no
/// byte for as long as `patience` is given up.
pub(crate) async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    question: &Question,
    answer: Answer,
    lent: &mut Lent,
    patience: Duration,
) -> io::Result<bool> {
    let (parts, mut body) = answer.into_parts();
    let mut headers = parts.headers;
    let framing = framing(question, parts.status, &body);
    let keeps_alive = question.keeps_alive && framing != Some(Until::Close);
    let mut head = Vec::with_capacity(512);
    status_line(&mut head, parts.status);
    if framing.is_some() {
        headers.remove(CONTENT_LENGTH);
    }
    fields(&mut head, &headers);
    match framing {
        Some(Until::Length(length)) => {
            head.extend_from_slice(format!("content-length: {length}\r\n").as_bytes());
        }
        Some(Until::LastChunk) => head.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        Some(Until::Close) | None => {}
    }
    if !keeps_alive {
        head.extend_from_slice(b"connection: close\r\n");
    }
    head.extend_from_slice(b"\r\n");
    let Some(until) = framing else {
        write_all(writer, &mut [IoSlice::new(&head)], patience).await?;
        return Ok(keeps_alive);
    };
    let mut left = match until {
        Until::Length(length) => Some(length),
        Until::LastChunk | Until::Close => None,
    };
    // What is there already goes out with the head.
    let mut pieces = Pieces { head, ..Pieces::default() };
    pieces.gather(&mut body).await;
    loop {
        if !pieces.is_empty() {
            if let Some(left) = &mut left {
                let counted = left.checked_sub(pieces.size as u64);
                *left = counted.ok_or(io::ErrorKind::InvalidData)?;
            }
            pieces.write(writer, until, patience).await?;
        }
        if let Some(error) = pieces.error.take() {
            return Err(error);
        }
        if pieces.ended {
            break;
        }
        let frame = next(&mut body, lent).await?;
        pieces.take(frame);
        pieces.gather(&mut body).await;
    }
    if left.is_some_and(|left| left > 0) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    within(patience, writer.flush()).await?;
    Ok(keeps_alive)
}

/// What is written at once: all that is there, for every write costs both this
/// side and the other more than the bytes do.
#[derive(Default)]
struct Pieces {
    /// Of the answer, until it is written.
    head: Vec<u8>,
    data: Vec<Bytes>,
    size: usize,
    ended: bool,
    /// Comes after what is here.
    error: Option<io::Error>,
}

/// As much of a body as is held for one write.
const MOST_AT_ONCE: usize = 64 << 10;
const MOST_PIECES: usize = 60;

impl Pieces {
    fn is_empty(&self) -> bool {
        self.head.is_empty() && self.data.is_empty() && !self.ended
    }

    fn take(&mut self, frame: Option<io::Result<http_body::Frame<Bytes>>>) {
        match frame {
            None => self.ended = true,
            Some(Err(error)) => self.error = Some(error),
            Some(Ok(frame)) => {
                // Trailers are not passed on.
                if let Ok(data) = frame.into_data()
                    && !data.is_empty()
                {
                    self.size += data.len();
                    self.data.push(data);
                }
            }
        }
    }

    /// Adds what the body has ready, and waits for nothing.
    async fn gather(&mut self, body: &mut AnswerBody) {
        while self.size < MOST_AT_ONCE
            && self.data.len() < MOST_PIECES
            && !self.ended
            && self.error.is_none()
        {
            let polled = std::future::poll_fn(|context| {
                Poll::Ready(Pin::new(&mut *body).poll_frame(context))
            });
            match polled.await {
                Poll::Ready(frame) => self.take(frame),
                Poll::Pending => return,
            }
        }
    }

    async fn write(
        &mut self,
        writer: &mut (impl AsyncWrite + Unpin),
        until: Until,
        patience: Duration,
    ) -> io::Result<()> {
        let size = chunk_head(self.size);
        let is_chunk = until == Until::LastChunk;
        let mut parts = Vec::with_capacity(self.data.len() + 4);
        parts.push(IoSlice::new(&self.head));
        if is_chunk && self.size > 0 {
            parts.push(IoSlice::new(&size));
        }
        parts.extend(self.data.iter().map(|data| IoSlice::new(data)));
        if is_chunk && self.size > 0 {
            parts.push(IoSlice::new(CHUNK_END));
        }
        if is_chunk && self.ended {
            parts.push(IoSlice::new(LAST_CHUNK));
        }
        write_all(writer, &mut parts, patience).await?;
        self.head = Vec::new();
        self.data.clear();
        self.size = 0;
        Ok(())
    }
}

/// The next frame, unless the client goes away before it comes.
async fn next(
    body: &mut AnswerBody,
    lent: &mut Lent,
) -> io::Result<Option<io::Result<http_body::Frame<Bytes>>>> {
    tokio::select! {
        biased;
        frame = body.frame() => Ok(frame),
        () = lent.gone() => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// How a client sees the end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Length(u64),
    LastChunk,
    Close,
}

/// None: there is no body, whatever the fields say of one.
fn framing(question: &Question, status: StatusCode, body: &AnswerBody) -> Option<Until> {
    let bodiless = question.method == Method::HEAD
        || status.is_informational()
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED;
    if bodiless {
        return None;
    }
    Some(match (body.size_hint().exact(), question.version) {
        (Some(length), _) => Until::Length(length),
        (None, Version::Http11) => Until::LastChunk,
        (None, Version::Http10) => Until::Close,
    })
}

fn status_line(head: &mut Vec<u8>, status: StatusCode) {
    head.extend_from_slice(b"HTTP/1.1 ");
    head.extend_from_slice(status.as_str().as_bytes());
    head.push(b' ');
    head.extend_from_slice(status.canonical_reason().unwrap_or("").as_bytes());
    head.extend_from_slice(b"\r\n");
}

fn fields(head: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        if is_hop_by_hop(name.as_str()) {
            continue;
        }
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
}

/// Everything in as few system calls as the socket takes it. Each of them may take `patience`.
async fn write_all(
    writer: &mut (impl AsyncWrite + Unpin),
    mut parts: &mut [IoSlice<'_>],
    patience: Duration,
) -> io::Result<()> {
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        let count = within(patience, writer.write_vectored(parts)).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut parts, count);
    }
    Ok(())
}

async fn within<T>(
    patience: Duration,
    write: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    tokio::time::timeout(patience, write).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

/// Tells a client to send the body that it asks about.
pub(crate) async fn go_on(
    writer: &mut (impl AsyncWrite + Unpin),
    patience: Duration,
) -> io::Result<()> {
    within(patience, writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")).await
}

/// Whether a body follows a head that is framed so.
pub(crate) fn has_body(framing: Framing) -> bool {
    !matches!(framing, Framing::None | Framing::Length(0))
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn endless() -> Answer {
        let piece = Bytes::from_static(&[b'x'; 4096]);
        let pieces = stream::repeat_with(move || Ok(Frame::data(piece.clone())));
        http::Response::new(StreamBody::new(pieces).boxed_unsync())
    }

    fn question() -> Question {
        Question { method: Method::GET, version: Version::Http11, keeps_alive: true }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_given_up() {
        let (mut near, _far) = tokio::io::duplex(1024);
        let begin = tokio::time::Instant::now();
        let mut lent = Lent::Spoilt(None);
        let written = write(&mut near, &question(), endless(), &mut lent, PATIENCE).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!((PATIENCE..PATIENCE * 2).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    }

    /// It is the time without a byte that counts, not that of the answer.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_is_served() {
        let (mut near, mut far) = tokio::io::duplex(1024);
        let reading = tokio::spawn(async move {
            let mut buffer = [0; 1024];
            for _ in 0..8 {
                tokio::time::sleep(PATIENCE / 2).await;
                far.read_exact(&mut buffer).await.unwrap();
            }
            far
        });
        let begin = tokio::time::Instant::now();
        let mut lent = Lent::Spoilt(None);
        let written = write(&mut near, &question(), endless(), &mut lent, PATIENCE).await;
        assert!(written.is_err(), "in the end, it stops to read");
        assert!(begin.elapsed() > PATIENCE * 4, "{:?}", begin.elapsed());
        drop(reading.await);
    }
}
