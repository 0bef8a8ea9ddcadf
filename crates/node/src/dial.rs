//! Connections to ports inside a sandbox.
//!
//! The guest connects, and passes on what flows. A task stands between the
//! channel and the stream's owner, so that neither direction waits for the
//! other, whoever of the two sides is slow.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use belljar_guest_proto::{Failure, Request, ToGuest, WINDOW};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf,
};
use tokio::sync::oneshot;

use crate::link::{Channel, Incoming, LinkError};
use crate::sandbox::Sandbox;

/// Why a port could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("the sandbox does not respond")]
    Link(#[source] LinkError),
    /// With the kernel's error; `ConnectionRefused` when nobody listens.
    #[error("cannot {doing}")]
    Refused { doing: String, source: io::Error },
}

impl DialError {
    /// Whether the sandbox is well and nobody listens on the port.
    pub fn is_port_closed(&self) -> bool {
        matches!(self, Self::Refused { source, .. }
            if source.kind() == io::ErrorKind::ConnectionRefused)
    }
}

impl From<Failure> for DialError {
    fn from(failure: Failure) -> Self {
        let source = io::Error::from_raw_os_error(failure.errno);
        Self::Refused { doing: failure.doing, source }
    }
}

/// A TCP connection to a port inside a sandbox.
///
/// Shutting it down closes its own direction and leaves the other open. Dropping
/// it closes both; what was written before is still delivered.
#[derive(Debug)]
pub struct PortStream {
    stream: DuplexStream,
    broken: Broken,
    /// Its drop tells the task that nobody reads any more.
    _owner: oneshot::Sender<()>,
}

/// Why the connection broke, if it did.
type Broken = Arc<OnceLock<io::ErrorKind>>;

/// What may wait between the task and the owner, in each direction.
const BETWEEN: usize = 64 << 10;

/// How long what a dropped stream has written may take to be delivered.
const LINGER: Duration = Duration::from_secs(5);

impl Sandbox {
    /// Connects to a TCP port on the sandbox's loopback: 127.0.0.1, or else ::1.
    pub async fn dial(&self, port: u16) -> Result<PortStream, DialError> {
        let mut channel = self.link.open();
        // Whatever ends this early, the guest closes the connection.
        channel.cancel_on_drop(true);
        let request = ToGuest::Request(Request::Dial { port });
        channel.send(&request, &[]).await.map_err(DialError::Link)?;
        channel.reply().await.map_err(DialError::Link)??;
        let (stream, ours) = tokio::io::duplex(BETWEEN);
        let (owner, dropped) = oneshot::channel();
        let broken = Broken::default();
        let task = Pump::new(channel, tokio::io::split(ours));
        tokio::spawn(task.run(dropped, broken.clone()));
        Ok(PortStream { stream, broken, _owner: owner })
    }
}

/// Passes on what flows between a channel and a stream, both ways.
pub(crate) struct Pump<R, W> {
    channel: Channel,
    /// What the owner writes; gone when the owner has shut that down.
    reader: Option<R>,
    /// What the owner reads; gone when the end has been passed on.
    writer: Option<W>,
    /// Whether the owner is still there.
    owned: bool,
    piece: Vec<u8>,
    /// What has come and the owner has not taken. Bounded by the credit given.
    unread: VecDeque<Vec<u8>>,
    /// Whether all has come.
    ended: bool,
    /// Credit that the guest gets back.
    owed: usize,
    /// What the guest takes now.
    credit: usize,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Pump<R, W> {
    pub(crate) fn new(channel: Channel, (reader, writer): (R, W)) -> Self {
        Self {
            channel,
            reader: Some(reader),
            writer: Some(writer),
            unread: VecDeque::new(),
            owned: true,
            piece: vec![0; BETWEEN],
            ended: false,
            owed: 0,
            credit: WINDOW as usize,
        }
    }

    /// As [`Self::run`], for an owner that only its stream tells of.
    pub(crate) async fn run_alone(mut self) {
        let (_owner, mut dropped) = oneshot::channel();
        let _ = self.flow(&mut dropped).await;
    }

    async fn run(mut self, mut dropped: oneshot::Receiver<()>, broken: Broken) {
        if let Err(kind) = self.flow(&mut dropped).await {
            // Before the streams' ends: whoever sees one of those looks here.
            let _ = broken.set(kind);
        }
    }

    async fn flow(&mut self, dropped: &mut oneshot::Receiver<()>) -> Result<(), io::ErrorKind> {
        while self.owned && (self.reader.is_some() || self.writer.is_some()) {
            self.step(dropped).await?;
        }
        let deliver = async {
            while self.reader.is_some() {
                self.step(dropped).await?;
            }
            Ok(())
        };
        tokio::time::timeout(LINGER, deliver).await.unwrap_or(Ok(()))
    }

    /// Moves one piece in one direction.
    async fn step(&mut self, dropped: &mut oneshot::Receiver<()>) -> Result<(), io::ErrorKind> {
        let mut piece = std::mem::take(&mut self.piece);
        let room = piece.len().min(self.credit);
        let next = self.unread.front().filter(|_| self.writer.is_some());
        let free = piece.get_mut(..room).unwrap_or_default();
        // What is awaited here loses nothing when another is first.
        let moved = tokio::select! {
            incoming = self.channel.next() => Moved::Came(incoming),
            read = read(&mut self.reader, free), if room > 0 => Moved::Read(read),
            written = write(&mut self.writer, next), if next.is_some() => Moved::Taken(written),
            _ = dropped, if self.owned => Moved::Dropped,
        };
        let done = match moved {
            Moved::Came(incoming) => self.take(incoming).await,
            Moved::Read(Ok(count)) if count > 0 => {
                self.pass(piece.get(..count).unwrap_or(&piece)).await
            }
            Moved::Read(_) => self.end_input().await,
            Moved::Taken(Ok(count)) => self.taken(count).await,
            Moved::Taken(Err(_)) | Moved::Dropped => {
                // What the owner wrote before it went is still passed on.
                self.owned = false;
                self.writer = None;
                Ok(())
            }
        };
        self.piece = piece;
        done
    }

    async fn take(&mut self, incoming: Result<Incoming, LinkError>) -> Result<(), io::ErrorKind> {
        match incoming {
            Ok(Incoming::Data(bytes)) => self.unread.push_back(bytes),
            Ok(Incoming::Credit(bytes)) => self.credit += bytes as usize,
            Ok(Incoming::Eof) => {
                self.ended = true;
                self.pass_end().await;
            }
            Ok(Incoming::Reply(Err(failure))) => {
                return Err(io::Error::from_raw_os_error(failure.errno).kind());
            }
            Ok(_) => {}
            Err(_) => return Err(io::ErrorKind::ConnectionAborted),
        }
        Ok(())
    }

    /// Says that the owner has taken so much of what came first.
    async fn taken(&mut self, count: usize) -> Result<(), io::ErrorKind> {
        if let Some(first) = self.unread.front_mut() {
            first.drain(..count);
            if first.is_empty() {
                self.unread.pop_front();
            }
        }
        self.owed += count;
        // In larger pieces: each grant is a message of its own.
        if !self.ended && self.owed >= WINDOW as usize / 4 {
            let owed = std::mem::take(&mut self.owed);
            self.channel.grant(owed).await.map_err(aborted)?;
        }
        self.pass_end().await;
        Ok(())
    }

    /// Lets the owner see the end once everything before it is taken.
    async fn pass_end(&mut self) {
        if self.ended
            && self.unread.is_empty()
            && let Some(mut writer) = self.writer.take()
        {
            // Closes a buffer of our own; there is nothing to fail or wait for.
            let _ = writer.shutdown().await;
        }
    }

    async fn pass(&mut self, bytes: &[u8]) -> Result<(), io::ErrorKind> {
        self.credit -= bytes.len();
        self.channel.send(&ToGuest::Data(bytes), &[]).await.map_err(aborted)
    }

    async fn end_input(&mut self) -> Result<(), io::ErrorKind> {
        self.reader = None;
        self.channel.send(&ToGuest::Eof, &[]).await.map_err(aborted)
    }
}

/// What one step found.
enum Moved {
    Came(Result<Incoming, LinkError>),
    Read(io::Result<usize>),
    Taken(io::Result<usize>),
    Dropped,
}

fn aborted(_: LinkError) -> io::ErrorKind {
    io::ErrorKind::ConnectionAborted
}

async fn read(reader: &mut Option<impl AsyncRead + Unpin>, piece: &mut [u8]) -> io::Result<usize> {
    match reader {
        Some(reader) => reader.read(piece).await,
        None => std::future::pending().await,
    }
}

async fn write(
    writer: &mut Option<impl AsyncWrite + Unpin>,
    bytes: Option<&Vec<u8>>,
) -> io::Result<usize> {
    match (writer, bytes) {
        (Some(writer), Some(bytes)) => writer.write(bytes).await,
        _ => std::future::pending().await,
    }
}

impl AsyncRead for PortStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let is_end = buffer.filled().len() == before && buffer.remaining() > 0;
        match (polled, self.broken.get()) {
            (Poll::Ready(Ok(())), Some(&kind)) if is_end => Poll::Ready(Err(kind.into())),
            (polled, _) => polled,
        }
    }
}

impl PortStream {
    fn explain<T>(&self, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match (polled, self.broken.get()) {
            (Poll::Ready(Err(_)), Some(&kind)) => Poll::Ready(Err(kind.into())),
            (polled, _) => polled,
        }
    }
}

impl AsyncWrite for PortStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.explain(polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.explain(polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.explain(polled)
    }
}
