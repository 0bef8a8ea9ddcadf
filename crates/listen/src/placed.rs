//! A stream that keeps its place for as long as it is open.
//!
//! A client that switches to another protocol leaves HTTP: whatever passes its bytes on has
//! the stream from then on, and the task that served its requests ends. So the place goes
//! with the stream, and a bound on silence goes with it, too.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::budget::Place;

/// Remembers that a connection has switched to another protocol; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Switched(Arc<AtomicBool>);

impl Switched {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(crate) struct PlacedStream<S> {
    inner: S,
    switched: Switched,
    /// How long it may be silent once it has switched.
    patience: Duration,
    /// When something last came or went.
    last: Instant,
    /// Rings to compare.
    alarm: Option<Pin<Box<Sleep>>>,
    _place: Place,
}

impl<S> PlacedStream<S> {
    pub(crate) fn new(inner: S, place: Place, switched: Switched, patience: Duration) -> Self {
        Self { inner, switched, patience, last: Instant::now(), alarm: None, _place: place }
    }

    /// Returns true if nothing has come or gone for too long. Bytes do not move the alarm: who
    /// reads is woken by it, and who writes may be another task.
    fn is_silent(&mut self, context: &mut Context<'_>) -> bool {
        if !self.switched.is_set() {
            return false;
        }
        let (last, patience) = (self.last, self.patience);
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        while alarm.as_mut().poll(context).is_ready() {
            if last.elapsed() >= patience {
                return true;
            }
            alarm.as_mut().reset(last + patience);
        }
        false
    }

    fn noted<T>(&mut self, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.last = Instant::now();
        }
        done
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PlacedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        if read.is_pending() && self.is_silent(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.noted(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PlacedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.noted(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.noted(written)
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
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;
    use crate::budget::{Budget, PeerAddress};

    const PATIENCE: Duration = Duration::from_millis(50);
    const PEER: PeerAddress = PeerAddress(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST));

    /// A client and its stream, which has the only place of its address.
    async fn placed(budget: &Budget) -> (DuplexStream, PlacedStream<DuplexStream>, Switched) {
        let place = budget.place().await.unwrap().of_address(budget, PEER).unwrap();
        let (client, served) = tokio::io::duplex(64);
        let switched = Switched::default();
        let stream = PlacedStream::new(served, place, switched.clone(), PATIENCE);
        (client, stream, switched)
    }

    fn budget() -> Budget {
        Budget::of_one(1, 2, 1)
    }

    #[tokio::test]
    async fn place_is_taken_for_as_long_as_the_stream_is_there() {
        let budget = budget();
        let (client, stream, switched) = placed(&budget).await;
        switched.set();
        drop(client);
        let other = budget.place().await.unwrap();
        assert!(other.of_address(&budget, PEER).is_none(), "its place is free");
        drop(stream);
        let other = budget.place().await.unwrap();
        assert!(other.of_address(&budget, PEER).is_some(), "its place is not given back");
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_switched_and_is_silent_is_sent_away() {
        let (_client, mut stream, switched) = placed(&budget()).await;
        switched.set();
        let begin = Instant::now();
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begin.elapsed() >= PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_not_switched_may_be_silent() {
        let (_client, mut stream, _switched) = placed(&budget()).await;
        let late = tokio::time::timeout(PATIENCE * 4, stream.read_u8()).await;
        assert!(late.is_err(), "it was sent away: {late:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_of_either_side_break_the_silence() {
        let (mut client, stream, switched) = placed(&budget()).await;
        switched.set();
        let begin = Instant::now();
        let (mut reader, mut writer) = tokio::io::split(stream);
        let end = tokio::spawn(async move {
            loop {
                if let Err(error) = reader.read_u8().await {
                    return error.kind();
                }
            }
        });
        for _ in 0..5 {
            tokio::time::sleep(PATIENCE / 2).await;
            client.write_u8(1).await.unwrap();
        }
        for _ in 0..5 {
            tokio::time::sleep(PATIENCE / 2).await;
            writer.write_u8(1).await.unwrap();
        }
        assert!(!end.is_finished(), "it was sent away");
        assert_eq!(end.await.unwrap(), io::ErrorKind::TimedOut);
        assert!(begin.elapsed() >= PATIENCE * 6);
    }
}
