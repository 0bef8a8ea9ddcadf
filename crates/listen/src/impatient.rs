//! A stream whose other side must begin to speak.
//!
//! Whoever connects and says nothing would hold a descriptor for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

#[derive(Debug)]
pub(crate) struct Impatient<S> {
    inner: S,
    /// Until the first byte has come.
    patience: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    pub(crate) fn new(inner: S, patience: Duration) -> Self {
        Self { inner, patience: Some(Box::pin(tokio::time::sleep(patience))) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        if read.is_ready() {
            self.patience = None;
            return read;
        }
        let is_over = self.patience.as_mut().is_some_and(|it| it.as_mut().poll(context).is_ready());
        if is_over { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { Poll::Pending }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(50);

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_is_sent_away() {
        let (_silent, served) = tokio::io::duplex(64);
        let error = Impatient::new(served, PATIENCE).read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_spoken_may_think() {
        let (mut client, served) = tokio::io::duplex(64);
        let mut served = Impatient::new(served, PATIENCE);
        client.write_u8(1).await.unwrap();
        assert_eq!(served.read_u8().await.unwrap(), 1);
        let late = tokio::time::timeout(PATIENCE * 4, served.read_u8()).await;
        assert!(late.is_err(), "it was sent away: {late:?}");
    }
}
