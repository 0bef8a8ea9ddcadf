//! The stream to one guest, shared by all that goes on in its sandbox.
//!
//! The guest may be in a stranger's hands. It can only ever hurt its own
//! sandbox: a frame that cannot be read, more data than credit was given for, more
//! messages than may wait, or a second answer to a question ends the link. What
//! comes for a channel that is closed is dropped.

mod queue;
mod run;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use belljar_domain::Tier;
use belljar_guest_proto::{
    Decoder, DiskCount, Failure, FrameError, FromGuest, GENERATION, Header, Hello, MAX_BODY, Reply,
    Request, ToGuest,
};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};

use queue::Queue;
pub(crate) use queue::{Bounds, Counted, Incoming};

/// Why a sandbox no longer answers.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LinkError {
    #[error("the sandbox has ended")]
    Gone,
    #[error("the sandbox's guest did not answer in {0:?}")]
    Silent(Duration),
    #[error("the request is too large for the sandbox's guest")]
    TooLarge,
    #[error("the sandbox's guest broke the protocol")]
    Protocol(#[source] FrameError),
    #[error("the sandbox's guest has another generation than this program")]
    Generation,
    #[error("the sandbox's guest reports that it is not confined as planned")]
    NotConfined,
}

/// One frame on its way to the guest, with what travels beside it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// Frames that may wait to be written.
const OUTBOX: usize = 4;

async fn write_frames(link: Weak<Shared>, mut frames: mpsc::Receiver<Outgoing>) {
    while let Some(frame) = frames.recv().await {
        let Some(shared) = link.upgrade() else { return };
        let descriptors: Vec<_> = frame.descriptors.iter().map(AsFd::as_fd).collect();
        if shared.write(&frame.bytes, &descriptors).await.is_err() {
            return shared.end(LinkError::Gone);
        }
    }
}

/// Zero is the link's own.
const FIRST_CHANNEL: u32 = 1;

/// How long a guest may take for one answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where it boots first, on a processor that may be emulated on a busy
/// host.
const BOOT_PATIENCE: Duration = Duration::from_secs(120);

/// The receiving end of a channel; it is closed when this is dropped.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) number: u32,
    link: Link,
    queue: Arc<Queue>,
    /// Whether the guest must hear of the end of interest.
    cancel: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Link {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    stream: UnixStream,
    /// Whole frames on their way out. A sender that is dropped has sent all of
    /// a frame or nothing of it.
    outbox: mpsc::Sender<Outgoing>,
    routes: Mutex<HashMap<u32, Arc<Queue>>>,
    next: AtomicU32,
    bounds: Bounds,
    patience: Duration,
    /// What the guest has told last of a disk that only it can see.
    disk: Mutex<Option<DiskCount>>,
    /// Whether the guest has said hello, and was believed.
    greeted: watch::Sender<bool>,
    /// Why it is of no more use, once it is.
    broken: watch::Sender<Option<LinkError>>,
}

impl Link {
    /// Starts reading. The guest's first word must be a greeting that `expected`
    /// approves; until then nothing that it says is passed on.
    pub(crate) fn new(
        stream: UnixStream,
        tier: Tier,
        bounds: Bounds,
        expected: impl FnOnce(&Hello) -> bool + Send + 'static,
    ) -> Self {
        Self::start(stream, tier, bounds, Some(expected), FIRST_CHANNEL)
    }

    /// A link to a guest that was restored, and said hello in another life.
    /// Channels from `next` on are new.
    pub(crate) fn resumed(stream: UnixStream, tier: Tier, next: u32) -> Self {
        let expected = None::<fn(&Hello) -> bool>;
        Self::start(stream, tier, Bounds::Kept, expected, next.max(FIRST_CHANNEL))
    }

    fn start<E>(
        stream: UnixStream,
        tier: Tier,
        bounds: Bounds,
        expected: Option<E>,
        next: u32,
    ) -> Self
    where
        E: FnOnce(&Hello) -> bool + Send + 'static,
    {
        let (outbox, frames) = mpsc::channel(OUTBOX);
        let shared = Arc::new(Shared {
            stream,
            outbox,
            routes: Mutex::new(HashMap::new()),
            next: AtomicU32::new(next),
            bounds,
            patience: if tier == Tier::Microvm { BOOT_PATIENCE } else { PATIENCE },
            disk: Mutex::default(),
            greeted: watch::Sender::new(false),
            broken: watch::Sender::new(None),
        });
        // The writer ends with the last link, which holds the other end of its
        // queue; so it must not hold the whole.
        let writer = Arc::downgrade(&shared);
        tokio::spawn(write_frames(writer, frames));
        let reader = shared.clone();
        tokio::spawn(async move {
            let ended = reader.read(expected).await;
            reader.end(ended.err().unwrap_or(LinkError::Gone));
        });
        Self { shared }
    }

    /// Why the link is of no more use, if it is.
    pub(crate) fn error(&self) -> LinkError {
        self.shared.broken.borrow().clone().unwrap_or(LinkError::Gone)
    }

    /// Waits for the guest's hello; `false`: it did not come in time.
    pub(crate) async fn greeted(&self, within: Duration) -> bool {
        let mut greeted = self.shared.greeted.subscribe();
        tokio::select! {
            said = greeted.wait_for(|said| *said) => said.is_ok(),
            _ = self.broken() => false,
            () = tokio::time::sleep(within) => false,
        }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.shared.broken.borrow().is_some()
    }

    /// Answers when the link is of no more use, and why. Whoever waits does not
    /// keep the link.
    pub(crate) fn broken(&self) -> impl Future<Output = LinkError> + Send + use<> {
        let mut broken = self.shared.broken.subscribe();
        async move {
            let error = broken.wait_for(Option::is_some).await;
            error.ok().and_then(|error| error.clone()).unwrap_or(LinkError::Gone)
        }
    }

    /// What the guest has told last of a disk that only it can see.
    pub(crate) fn disk(&self) -> Option<DiskCount> {
        *lock(&self.shared.disk)
    }

    /// The number that the next channel gets.
    pub(crate) fn next_channel(&self) -> u32 {
        self.shared.next.load(Ordering::Relaxed)
    }

    pub(crate) fn open(&self) -> Channel {
        self.reopen(self.shared.next.fetch_add(1, Ordering::Relaxed))
    }

    /// A channel that the guest knows from another life.
    pub(crate) fn reopen(&self, number: u32) -> Channel {
        let queue = Arc::new(Queue::new(self.shared.bounds));
        self.shared.add(number, queue.clone());
        Channel { number, link: self.clone(), queue, cancel: false }
    }

    /// Asks one question and waits for the one answer.
    pub(crate) async fn ask(&self, request: Request) -> Result<Result<Reply, Failure>, LinkError> {
        let mut channel = self.open();
        channel.send(&ToGuest::Request(request), &[]).await?;
        channel.reply().await
    }

    pub(crate) async fn send(
        &self,
        channel: u32,
        message: &ToGuest<'_>,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), LinkError> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes, channel);
        if bytes.len() > Header::SIZE + MAX_BODY {
            return Err(LinkError::TooLarge);
        }
        let descriptors = descriptors.iter().map(BorrowedFd::try_clone_to_owned);
        let descriptors = descriptors.collect::<Result<_, _>>().map_err(|_| self.error())?;
        self.send_frame(Outgoing { bytes, descriptors }).await
    }

    /// Sends a frame that is encoded already.
    pub(crate) async fn send_frame(&self, frame: Outgoing) -> Result<(), LinkError> {
        self.shared.outbox.send(frame).await.map_err(|_| self.error())
    }

    /// Tells the guest that nobody waits on `channel` any more.
    pub(crate) fn cancel_later(&self, channel: u32) {
        let link = self.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { drop(link.send(channel, &ToGuest::Cancel, &[]).await) });
        }
    }

    pub(crate) fn shut_down(&self) {
        // Closing both ways also wakes our own reader.
        let _ = rustix::net::shutdown(&self.shared.stream, rustix::net::Shutdown::Both);
    }
}

impl Shared {
    /// Ends the link for everyone who waits on it. The first reason stays.
    fn end(&self, reason: LinkError) {
        let mut routes = lock(&self.routes);
        self.broken.send_if_modified(|broken| {
            let first = broken.is_none();
            broken.get_or_insert(reason);
            first
        });
        for (_, queue) in routes.drain() {
            queue.close();
        }
    }

    /// Adds a channel, unless the link is broken: then whoever listens learns of
    /// it at once.
    fn add(&self, number: u32, queue: Arc<Queue>) {
        let mut routes = lock(&self.routes);
        if self.broken.borrow().is_none() {
            routes.insert(number, queue);
        } else {
            queue.close();
        }
    }

    async fn write(&self, mut bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut descriptors = Some(descriptors).filter(|list| !list.is_empty());
        while !bytes.is_empty() {
            let sent = match descriptors {
                None => self.stream.try_write(bytes),
                Some(list) => {
                    self.stream.try_io(Interest::WRITABLE, || send_with(&self.stream, bytes, list))
                }
            };
            match sent {
                Ok(count) => {
                    descriptors = None;
                    bytes = bytes.get(count..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stream.writable().await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn read(
        &self,
        mut expected: Option<impl FnOnce(&Hello) -> bool>,
    ) -> Result<(), LinkError> {
        let mut decoder = Decoder::default();
        loop {
            // A guest that never stops must not have a thread to itself.
            tokio::task::coop::consume_budget().await;
            match self.stream.try_read(decoder.space()) {
                Ok(0) => return Ok(()),
                Ok(count) => decoder.filled(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stream.readable().await.map_err(|_| LinkError::Gone)?;
                    continue;
                }
                Err(_) => return Ok(()),
            }
            while let Some((header, body)) = decoder.next_frame().map_err(LinkError::Protocol)? {
                let message = FromGuest::decode(header, body).map_err(LinkError::Protocol)?;
                match (expected.take(), &message) {
                    (Some(expected), FromGuest::Hello(word)) => {
                        if word.generation != GENERATION {
                            return Err(LinkError::Generation);
                        }
                        if !expected(word) {
                            return Err(LinkError::NotConfined);
                        }
                        self.greeted.send_replace(true);
                    }
                    // No greeting, or a second one: a guest that is not ours.
                    (Some(_), _) | (None, FromGuest::Hello(_)) => {
                        return Err(LinkError::Protocol(FrameError::BadBody(header.kind)));
                    }
                    (None, _) => {}
                }
                self.route(header, message)?;
            }
        }
    }

    fn route(&self, header: Header, message: FromGuest<'_>) -> Result<(), LinkError> {
        let Some(queue) = lock(&self.routes).get(&header.channel).cloned() else { return Ok(()) };
        let counters = match &message {
            FromGuest::Counters(counters) => Some(*counters),
            FromGuest::Exited(exit) => exit.counters,
            _ => None,
        };
        if let Some(disk) = counters.and_then(|counters| counters.disk) {
            *lock(&self.disk) = Some(disk);
        }
        let pushed = queue.push(message, header.length as usize);
        pushed.map_err(|_| LinkError::Protocol(FrameError::BadBody(header.kind)))
    }
}

fn send_with(
    stream: &UnixStream,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(stream, &[io::IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Channel {
    pub(crate) async fn send(
        &self,
        message: &ToGuest<'_>,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), LinkError> {
        let sent = self.link.send(self.number, message, descriptors);
        if !matches!(message, ToGuest::Request(_)) {
            return sent.await;
        }
        self.queue.expect_answer();
        // A guest that does not read must not keep whoever asks.
        let patience = self.link.shared.patience;
        let sent = tokio::time::timeout(patience, sent).await;
        sent.unwrap_or(Err(LinkError::Silent(patience)))
    }

    /// The next message; an error when the link is gone.
    pub(crate) async fn next(&mut self) -> Result<Incoming, LinkError> {
        self.queue.next().await.ok_or_else(|| self.link.error())
    }

    pub(crate) fn try_next(&mut self) -> Option<Incoming> {
        self.queue.try_next()
    }

    /// Waits for the answer, passing over anything else.
    pub(crate) async fn reply(&mut self) -> Result<Result<Reply, Failure>, LinkError> {
        let patience = self.link.shared.patience;
        let answer = async {
            loop {
                if let Incoming::Reply(reply) = self.next().await? {
                    return Ok(reply);
                }
            }
        };
        // A guest that is stopped, starved or taken over may never answer.
        let answer = tokio::time::timeout(patience, answer).await;
        answer.unwrap_or(Err(LinkError::Silent(patience)))
    }

    /// Lets the guest send `bytes` more.
    pub(crate) async fn grant(&self, bytes: usize) -> Result<(), LinkError> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.queue.grant(bytes);
        self.send(&ToGuest::Credit(bytes), &[]).await
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// What the guest's own kernel has counted for this call so far.
    pub(crate) fn counted(&self) -> Counted {
        self.queue.counted()
    }

    /// Until this is taken back, dropping the channel tells the guest to stop.
    pub(crate) fn cancel_on_drop(&mut self, cancel: bool) {
        self.cancel = cancel;
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        lock(&self.link.shared.routes).remove(&self.number);
        if self.cancel {
            self.link.cancel_later(self.number);
        }
    }
}
