//! The bytes of a connection to an upstream, with TLS or without.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A connection to the upstream.
#[derive(Debug)]
pub(super) enum Wire {
    Plain(SocketAddr, TokioIo<TcpStream>),
    Secured(SocketAddr, Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Wire {
    pub(super) fn peer(&self) -> SocketAddr {
        match self {
            Self::Plain(peer, _) | Self::Secured(peer, _) => *peer,
        }
    }

    pub(super) fn is_http2(&self) -> bool {
        match self {
            Self::Plain(..) => false,
            Self::Secured(_, stream) => {
                let (_, tls) = stream.inner().get_ref();
                tls.alpn_protocol() == Some(b"h2")
            }
        }
    }
}

impl Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(_, stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Secured(_, stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl Write for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(_, stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Secured(_, stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(_, stream) => Pin::new(stream).poll_flush(context),
            Self::Secured(_, stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(_, stream) => Pin::new(stream).poll_shutdown(context),
            Self::Secured(_, stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(_, stream) => stream.is_write_vectored(),
            Self::Secured(_, stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(_, stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Secured(_, stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }
}
