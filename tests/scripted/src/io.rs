//! A socket, plain or encrypted, on which bytes can be slipped in before what
//! the HTTP library writes: no library floods with informational responses.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

#[derive(Debug)]
pub(crate) enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// What is slipped in before the next byte of the answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slip(Arc<Mutex<Option<Flood>>>);

#[derive(Debug)]
struct Flood {
    unit: Bytes,
    current: Bytes,
    /// How many more units, or no end of them.
    left: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Wire {
    socket: Socket,
    slip: Slip,
}

impl Slip {
    /// `count` times `unit`; 0 for no end of them.
    pub(crate) fn flood(&self, unit: Bytes, count: u64) {
        let flood = Flood { unit, current: Bytes::new(), left: (count > 0).then_some(count) };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(flood);
    }

    fn poll_write(&self, socket: &mut Socket, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(flood) = &mut *slot {
            if flood.current.is_empty() {
                match &mut flood.left {
                    Some(0) => {
                        *slot = None;
                        break;
                    }
                    Some(left) => *left -= 1,
                    None => {}
                }
                flood.current = flood.unit.clone();
            }
            let wrote = ready!(socket.pinned().poll_write(context, &flood.current))?;
            flood.current.advance(wrote);
        }
        Poll::Ready(Ok(()))
    }
}

trait Duplex: AsyncRead + AsyncWrite {}
impl<T: AsyncRead + AsyncWrite> Duplex for T {}

impl Socket {
    fn pinned(&mut self) -> Pin<&mut (dyn Duplex + Send + Unpin)> {
        match self {
            Self::Plain(stream) => Pin::new(stream),
            Self::Tls(stream) => Pin::new(stream.as_mut()),
        }
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

impl Wire {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, slip: Slip::default() }
    }

    pub(crate) fn slip(&self) -> Slip {
        self.slip.clone()
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.pinned().poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.pinned().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pinned().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pinned().poll_shutdown(context)
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.socket.pinned().poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.slip.poll_write(&mut this.socket, context))?;
        this.socket.pinned().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.slip.poll_write(&mut this.socket, context))?;
        this.socket.pinned().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.socket {
            Socket::Plain(stream) => stream.is_write_vectored(),
            Socket::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.pinned().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.pinned().poll_shutdown(context)
    }
}
