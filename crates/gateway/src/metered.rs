//! A stream to the world that a sandbox pays for, byte by byte.
//!
//! It sits right on the socket: heads, trailers, interim answers and what TLS
//! adds are all counted, whoever wrote them and however they are framed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use belljar_domain::network::Reason;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::meter::Way;
use crate::session::Session;

#[derive(Debug)]
pub(crate) struct Metered<S> {
    stream: S,
    session: Arc<Session>,
    reading: Pace,
    writing: Pace,
}

/// The wait that the last bytes cost, before the next ones.
#[derive(Debug, Default)]
struct Pace(Option<Pin<Box<Sleep>>>);

/// Said through layers that know only I/O errors.
#[derive(Debug, thiserror::Error)]
#[error("the bytes that the policy allows are used up")]
pub(crate) struct Spent;

impl Pace {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(sleep) = &mut self.0 {
            ready!(sleep.as_mut().poll(context));
            self.0 = None;
        }
        Poll::Ready(())
    }

    /// How many bytes may be written now.
    fn room(session: &Session) -> io::Result<usize> {
        let left = session.meter.left(Way::Out, &session.policy().throttle);
        match usize::try_from(left).unwrap_or(usize::MAX) {
            0 => Err(io::Error::other(Spent)),
            left => Ok(left),
        }
    }

    fn charge(&mut self, session: &Session, way: Way, bytes: usize) -> io::Result<()> {
        let throttle = session.policy().throttle;
        match session.meter.take(way, bytes as u64, &throttle) {
            // Timers are no finer than this.
            Ok(wait) if wait < Duration::from_millis(1) => Ok(()),
            Ok(wait) => {
                self.0 = Some(Box::pin(tokio::time::sleep(wait)));
                Ok(())
            }
            Err(Reason::BytesSpent) => Err(io::Error::other(Spent)),
            Err(_) => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

impl<S> Metered<S> {
    pub(crate) fn new(stream: S, session: Arc<Session>) -> Self {
        Self { stream, session, reading: Pace::default(), writing: Pace::default() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.reading.poll(context));
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        let count = buffer.filled().len() - before;
        Poll::Ready(this.reading.charge(&this.session, Way::In, count))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.writing.poll(context));
        let bytes = bytes.get(..Pace::room(&this.session)?).unwrap_or(bytes);
        let count = ready!(Pin::new(&mut this.stream).poll_write(context, bytes))?;
        this.writing.charge(&this.session, Way::Out, count)?;
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.writing.poll(context));
        let wanted: usize = parts.iter().map(|part| part.len()).sum();
        if wanted > Pace::room(&this.session)? {
            let first = parts.iter().find(|part| !part.is_empty());
            return Pin::new(this).poll_write(context, first.map_or(&[], |part| part));
        }
        let count = ready!(Pin::new(&mut this.stream).poll_write_vectored(context, parts))?;
        this.writing.charge(&this.session, Way::Out, count)?;
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
