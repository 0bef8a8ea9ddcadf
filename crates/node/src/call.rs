//! A running call, as its owner sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use belljar_domain::{End, EndReason, Usage};
use belljar_guest_proto::{PtySize, Reply, Request, ToGuest};
use tokio::sync::{Notify, mpsc};

use crate::link::{Link, LinkError};
use crate::sandbox::CallError;

/// What a call does, in order; the end comes last and once.
///
/// Whoever does not take events holds the call up: between one and two MiB of
/// output wait (eight pieces here, [`WINDOW`] bytes in the link, a full pipe
/// inside), then its writes block, as on a pipe that nobody reads. Its limits
/// run on meanwhile, and it goes on when events are taken again. A [`Call`] that
/// is dropped is another matter: its output is thrown away and never blocks.
///
/// [`WINDOW`]: belljar_guest_proto::WINDOW
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    End(End),
}

/// What the owner asks of the supervisor.
#[derive(Debug)]
pub(crate) enum Order {
    Kill,
    Input(Vec<u8>),
    EndInput,
}

#[derive(Debug)]
pub struct Call {
    number: u32,
    pid: u32,
    channel: u32,
    link: Link,
    events: mpsc::Receiver<Event>,
    orders: mpsc::UnboundedSender<Order>,
    queue: Arc<Waiting>,
}

/// Writes to a call's standard input, apart from its [`Call`].
#[derive(Debug, Clone)]
pub struct Writer {
    orders: mpsc::UnboundedSender<Order>,
    queue: Arc<Waiting>,
}

/// Input that was given and not yet sent on.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    bytes: AtomicUsize,
    less: Notify,
}

impl Waiting {
    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn take(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.less.notify_waiters();
    }
}

/// Input that may wait before [`Writer::ready`] holds its caller back.
const ROOM: usize = 1 << 20;

impl Writer {
    /// Waits until the call has taken most of what was written. Whoever passes
    /// on a stream without a known end asks before each write.
    pub async fn ready(&self) {
        loop {
            let less = self.queue.less.notified();
            let over = self.orders.is_closed();
            if over || self.queue.bytes.load(Ordering::Relaxed) < ROOM {
                return;
            }
            tokio::select! {
                () = less => {}
                () = self.orders.closed() => return,
            }
        }
    }

    pub fn write(&self, bytes: Vec<u8>) {
        self.queue.add(bytes.len());
        // A call that is over takes no input, as a closed pipe would.
        let _ = self.orders.send(Order::Input(bytes));
    }

    pub fn close(&self) {
        let _ = self.orders.send(Order::EndInput);
    }
}

impl Call {
    pub(crate) fn new(
        (number, pid): (u32, u32),
        channel: u32,
        link: Link,
        events: mpsc::Receiver<Event>,
        orders: mpsc::UnboundedSender<Order>,
        queue: Arc<Waiting>,
    ) -> Self {
        Self { number, pid, channel, link, events, orders, queue }
    }

    /// The call's number in its sandbox.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The pid of its main process, as the sandbox counts; so says the guest.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The next event. After the end, the end again would be wrong: do not ask.
    pub async fn next(&mut self) -> Event {
        self.events.recv().await.unwrap_or(Event::End(End {
            reason: EndReason::Lost,
            exit_code: None,
            signal: None,
            usage: Usage::default(),
        }))
    }

    pub fn writer(&self) -> Writer {
        Writer { orders: self.orders.clone(), queue: self.queue.clone() }
    }

    /// Signals the call's processes.
    pub async fn signal(&self, signal: i32) -> Result<(), CallError> {
        self.ask(Request::Signal { call: self.channel, signal }).await
    }

    pub async fn resize(&self, size: PtySize) -> Result<(), CallError> {
        self.ask(Request::Resize { call: self.channel, size }).await
    }

    /// Ends the call and every process of it.
    pub fn kill(&self) {
        let _ = self.orders.send(Order::Kill);
    }

    async fn ask(&self, request: Request) -> Result<(), CallError> {
        match self.link.ask(request).await.map_err(CallError::Link)? {
            Ok(Reply::Done) => Ok(()),
            Ok(_) => Err(CallError::Link(LinkError::Gone)),
            Err(failure) => Err(failure.into()),
        }
    }
}

/// Sends input as far as the guest has room for it.
#[derive(Debug)]
pub(crate) struct InputQueue {
    given: Arc<Waiting>,
    waiting: std::collections::VecDeque<u8>,
    ended: bool,
    end_sent: bool,
    credit: usize,
}

impl InputQueue {
    pub(crate) fn new(given: Arc<Waiting>) -> Self {
        Self {
            given,
            waiting: std::collections::VecDeque::new(),
            ended: false,
            end_sent: false,
            credit: belljar_guest_proto::WINDOW as usize / 2,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend(bytes);
    }

    /// As [`Self::push`], for bytes that no [`Writer`] counted.
    pub(crate) fn give(&mut self, bytes: &[u8]) {
        self.given.add(bytes.len());
        self.push(bytes);
    }

    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    pub(crate) fn grant(&mut self, bytes: u32) {
        self.credit += bytes as usize;
    }

    pub(crate) async fn flush(&mut self, channel: &crate::link::Channel) -> Result<(), LinkError> {
        while !self.waiting.is_empty() && self.credit > 0 {
            let count = self.waiting.len().min(self.credit).min(belljar_guest_proto::CHUNK);
            let chunk: Vec<u8> = self.waiting.drain(..count).collect();
            self.credit -= count;
            self.given.take(count);
            channel.send(&ToGuest::Data(&chunk), &[]).await?;
        }
        if self.ended && self.waiting.is_empty() && !self.end_sent {
            self.end_sent = true;
            channel.send(&ToGuest::Eof, &[]).await?;
        }
        Ok(())
    }
}
