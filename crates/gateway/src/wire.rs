//! Both halves of a connection from inside, and bodies read straight off it.
//!
//! A body borrows the reading half and gives it back when it has ended. So a
//! body is never copied, and whatever follows it is not touched by anyone but
//! the front.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use belljar_egress::http1::{Chunked, Framing};
use bytes::{Buf as _, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};
use tokio::sync::oneshot;
use tokio::time::Sleep;

use crate::connection::Connection;

/// Anything that a client speaks through.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

pub(crate) type BoxStream = Box<dyn Stream>;
pub(crate) type Writer = WriteHalf<BoxStream>;

/// Room for one read.
const READ: usize = 32 << 10;
/// While nothing is expected: there may be thousands that wait.
const LITTLE: usize = 2 << 10;
/// A body that is wanted as a whole is one piece, without a copy, up to this size.
const ONE_PIECE: u64 = 256 << 10;
/// How much is read ahead while a request is under way.
const AHEAD: usize = 64 << 10;
/// A client that stops in the middle of a body is given up after this.
const BODY_PATIENCE: Duration = Duration::from_secs(60);

/// The reading half, with what was read ahead.
pub(crate) struct Reader {
    half: ReadHalf<BoxStream>,
    pub(crate) buffer: BytesMut,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("ahead", &self.buffer.len()).finish_non_exhaustive()
    }
}

/// Takes a stream apart; `ahead` was read from it already.
pub(crate) fn split(stream: BoxStream, ahead: BytesMut) -> (Reader, Writer) {
    let (half, writer) = tokio::io::split(stream);
    (Reader { half, buffer: ahead }, writer)
}

/// Puts it together again.
pub(crate) fn join(reader: Reader, writer: Writer) -> Ahead {
    Ahead { buffer: reader.buffer, stream: reader.half.unsplit(writer) }
}

impl Reader {
    /// Reads more; 0 at the end.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        self.buffer.reserve(READ);
        self.half.read_buf(&mut self.buffer).await
    }

    /// The same, where it may take long.
    pub(crate) async fn wait(&mut self) -> io::Result<usize> {
        self.buffer.reserve(LITTLE);
        self.half.read_buf(&mut self.buffer).await
    }

    fn poll_fill(&mut self, room: usize, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.buffer.reserve(room);
        let future = self.half.read_buf(&mut self.buffer);
        tokio::pin!(future);
        future.poll(context)
    }

    /// Ends when the client has gone; reads ahead, within bounds, meanwhile.
    async fn until_gone(&mut self) {
        while self.buffer.len() < AHEAD {
            if !matches!(self.wait().await, Ok(1..)) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }
}

/// A stream of which the beginning was read ahead.
pub(crate) struct Ahead {
    pub(crate) buffer: BytesMut,
    pub(crate) stream: BoxStream,
}

impl Ahead {
    /// Reads more ahead; 0 at the end.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        self.buffer.reserve(READ);
        self.stream.read_buf(&mut self.buffer).await
    }
}

impl AsyncRead for Ahead {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.buffer.is_empty() {
            return Pin::new(&mut this.stream).poll_read(context, into);
        }
        let count = this.buffer.len().min(into.remaining());
        into.put_slice(&this.buffer.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Ahead {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// What one exchange moved, for its row.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) out: AtomicU64,
    pub(crate) into: AtomicU64,
}

impl Tally {
    pub(crate) fn count_out(&self, bytes: usize) {
        self.out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_in(&self, bytes: usize) {
        self.into.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Whether a reader came back with its body wholly read.
#[derive(Debug)]
pub(crate) struct Returned {
    reader: Reader,
    whole: bool,
}

/// The reading half while a request is under way.
#[derive(Debug)]
pub(crate) enum Lent {
    Here(Reader),
    Away(oneshot::Receiver<Returned>),
    /// It came back before the body's end, or not at all.
    Spoilt(Option<Reader>),
}

impl Lent {
    /// Ends when the client has gone. May be dropped and called again.
    pub(crate) async fn gone(&mut self) {
        if let Self::Away(receiver) = self {
            *self = match receiver.await {
                Ok(Returned { reader, whole: true }) => Self::Here(reader),
                Ok(Returned { reader, whole: false }) => Self::Spoilt(Some(reader)),
                Err(_) => Self::Spoilt(None),
            };
        }
        match self {
            Self::Here(reader) => reader.until_gone().await,
            Self::Away(_) | Self::Spoilt(_) => std::future::pending().await,
        }
    }

    /// The reader, if the next request can be read from it; else what is left
    /// of it. A body that nobody read to its end is not waited for.
    pub(crate) fn take(self) -> Result<Reader, Option<Reader>> {
        match self {
            Self::Here(reader) => Ok(reader),
            Self::Away(mut receiver) => match receiver.try_recv() {
                Ok(Returned { reader, whole: true }) => Ok(reader),
                Ok(Returned { reader, whole: false }) => Err(Some(reader)),
                Err(_) => Err(None),
            },
            Self::Spoilt(reader) => Err(reader),
        }
    }
}

/// The body of a request that is still arriving.
pub(crate) struct Wire {
    reader: Option<Reader>,
    left: Left,
    back: Option<oneshot::Sender<Returned>>,
    connection: Arc<Connection>,
    tally: Arc<Tally>,
    patience: Option<Pin<Box<Sleep>>>,
    /// How much of it is handed out at once, if it is not handed out as it comes.
    at_once: usize,
}

enum Left {
    Length(u64),
    Chunks(Chunked),
}

impl Wire {
    /// A body, and where its reader comes back.
    pub(crate) fn new(
        reader: Reader,
        framing: Framing,
        connection: &Arc<Connection>,
        tally: &Arc<Tally>,
    ) -> (Option<Self>, Lent) {
        let left = match framing {
            Framing::None | Framing::Length(0) => return (None, Lent::Here(reader)),
            Framing::Length(length) => Left::Length(length),
            Framing::Chunked => Left::Chunks(Chunked::default()),
        };
        let (back, receiver) = oneshot::channel();
        let wire = Self {
            reader: Some(reader),
            left,
            back: Some(back),
            connection: Arc::clone(connection),
            tally: Arc::clone(tally),
            patience: None,
            at_once: 0,
        };
        (Some(wire), Lent::Away(receiver))
    }

    /// Whoever reads it wants all of it before it begins.
    pub(crate) fn in_one_piece(mut self) -> Self {
        if let Left::Length(length @ ..=ONE_PIECE) = self.left {
            self.at_once = usize::try_from(length).unwrap_or(0);
        }
        self
    }

    fn give_back(&mut self, whole: bool) {
        if let (Some(reader), Some(back)) = (self.reader.take(), self.back.take()) {
            let _ = back.send(Returned { reader, whole });
        }
    }

    /// The next bytes of the body among those that were read.
    fn next(&mut self) -> io::Result<Next> {
        let Some(reader) = &mut self.reader else { return Ok(Next::End) };
        match &mut self.left {
            Left::Length(0) => Ok(Next::End),
            Left::Length(_) if reader.buffer.len() < self.at_once.max(1) => Ok(Next::More),
            Left::Length(left) => {
                let ahead = reader.buffer.len();
                let count = usize::try_from(*left).map_or(ahead, |left| left.min(ahead));
                *left -= count as u64;
                Ok(Next::Data(reader.buffer.split_to(count).freeze()))
            }
            Left::Chunks(chunks) => loop {
                if chunks.is_done() {
                    return Ok(Next::End);
                }
                if reader.buffer.is_empty() {
                    return Ok(Next::More);
                }
                let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
                let progress = chunks.advance(&reader.buffer).map_err(malformed)?;
                reader.buffer.advance(progress.skip);
                if progress.data > 0 {
                    return Ok(Next::Data(reader.buffer.split_to(progress.data).freeze()));
                }
            },
        }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        self.connection.reader.register(context.waker());
        loop {
            if self.connection.why_cut().is_some() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            match self.next()? {
                Next::Data(bytes) => return Poll::Ready(Ok(Some(bytes))),
                Next::End => return Poll::Ready(Ok(None)),
                Next::More => {}
            }
            let Some(reader) = &mut self.reader else { return Poll::Ready(Ok(None)) };
            let missing = self.at_once.saturating_sub(reader.buffer.len());
            let room = if missing == 0 { READ } else { missing };
            match reader.poll_fill(room, context) {
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                }
                Poll::Ready(read) => {
                    self.patience = None;
                    read?;
                }
                Poll::Pending => {
                    let patience = self
                        .patience
                        .get_or_insert_with(|| Box::pin(tokio::time::sleep(BODY_PATIENCE)));
                    ready!(patience.as_mut().poll(context));
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
        }
    }
}

enum Next {
    Data(Bytes),
    More,
    End,
}

impl Body for Wire {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        match ready!(this.poll_next(context)) {
            Ok(Some(bytes)) => {
                this.tally.count_out(bytes.len());
                // Whoever knows the length may not ask again after the last byte.
                if matches!(this.left, Left::Length(0)) {
                    this.give_back(true);
                }
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Ok(None) => {
                this.give_back(true);
                Poll::Ready(None)
            }
            Err(error) => {
                this.give_back(false);
                this.left = Left::Length(0);
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.left, Left::Length(0))
    }

    fn size_hint(&self) -> SizeHint {
        match self.left {
            Left::Length(left) => SizeHint::with_exact(left),
            Left::Chunks(_) => SizeHint::default(),
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.give_back(false);
    }
}
