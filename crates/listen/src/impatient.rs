//! A stream whose other side must begin to speak, and must go on to read.
//!
//! A client that connects and says nothing would hold a descriptor for ever, and one that asks
//! for a stream and does not read it would hold what the stream is made of.

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
    /// While there are bytes that the other side does not take.
    stalled: Option<Pin<Box<Sleep>>>,
}

/// How long the other side may take no byte while there are some for it. Clients may read slowly
/// on purpose, and hold back what they read from; one that takes so long is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(600);

impl<S> Impatient<S> {
    pub(crate) fn new(inner: S, patience: Duration) -> Self {
        Self { inner, patience: Some(Box::pin(tokio::time::sleep(patience))), stalled: None }
    }

    /// Passes on how a write came out, or ends it if the other side has stalled for too long.
    fn unless_stalled<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let wait = || Box::pin(tokio::time::sleep(WRITE_TIMEOUT));
        match self.stalled.get_or_insert_with(wait).as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
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
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.unless_stalled(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.unless_stalled(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(context);
        self.unless_stalled(context, flushed)
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

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_is_sent_away() {
        let (_unread, served) = tokio::io::duplex(64);
        let mut served = Impatient::new(served, PATIENCE);
        let begin = tokio::time::Instant::now();
        let error = served.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begin.elapsed().as_secs(), WRITE_TIMEOUT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_slowly_may_go_on() {
        let (mut slow, served) = tokio::io::duplex(64);
        let mut served = Impatient::new(served, PATIENCE);
        let write = tokio::spawn(async move { served.write_all(&[0; 1000]).await });
        for _ in 0..1000 {
            tokio::time::sleep(WRITE_TIMEOUT / 2).await;
            slow.read_u8().await.unwrap();
        }
        write.await.unwrap().unwrap();
    }
}
