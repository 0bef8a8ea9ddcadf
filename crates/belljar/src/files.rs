//! Files that go in before the code runs and come out after it.
//!
//! What comes out was named by hostile code. A name from inside is only ever
//! one component below the place that the user named; nothing on the host is
//! reached through a symbolic link; a file appears whole, under its name, or
//! not at all.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

mod incoming;
mod outgoing;
mod place;

pub(crate) use incoming::copy_in;
pub(crate) use outgoing::copy_out;
pub(crate) use place::write;

/// A regular file of the host. Reading and writing one never waits for anybody
/// else, so it is done in place.
#[derive(Debug)]
struct Local(File);

impl AsyncRead for Local {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = self.get_mut().0.read(buffer.initialize_unfilled())?;
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Local {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(self.get_mut().0.write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
