//! What others ring, as it comes.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use async_nats::{Client, SubscribeError, Subscriber};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream, StreamExt};
use serde::de::DeserializeOwned;
use tokio::task::unconstrained;

/// Messages of one kind. Goes on through outages; what is said meanwhile is lost.
pub struct Heard<T> {
    from: From,
    unread: Arc<AtomicU64>,
    is_wanted: Wanted<T>,
}

pub(crate) type Wanted<T> = Box<dyn Fn(&T) -> bool + Send + Sync>;

enum From {
    /// Not asked for yet: too much else is on its way to the server.
    Asking(BoxFuture<'static, Result<Subscriber, SubscribeError>>),
    Hearing(Subscriber),
    Nobody,
}

impl<T> Heard<T> {
    pub(crate) fn new(
        client: Client,
        subject: String,
        unread: Arc<AtomicU64>,
        is_wanted: Wanted<T>,
    ) -> Self {
        let mut asking = unconstrained(async move { client.subscribe(subject).await }).boxed();
        // Asked now rather than when somebody first looks, or what comes before
        // that would be missed.
        let from = match (&mut asking).now_or_never() {
            Some(Ok(subscriber)) => From::Hearing(subscriber),
            Some(Err(_)) => From::Nobody,
            None => From::Asking(asking),
        };
        Self { from, unread, is_wanted }
    }
}

impl<T: DeserializeOwned> Heard<T> {
    /// The next message. None: nothing will ever come, which is so only when the
    /// process ends.
    pub async fn next(&mut self) -> Option<T> {
        StreamExt::next(self).await
    }

    fn read(&self, message: &async_nats::Message) -> Option<T> {
        let read: Option<T> = serde_json::from_slice(&message.payload).ok();
        let wanted = read.filter(|read| (self.is_wanted)(read));
        if wanted.is_none() {
            self.unread.fetch_add(1, Ordering::Relaxed);
        }
        wanted
    }
}

impl<T: DeserializeOwned> Stream for Heard<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        loop {
            match &mut self.from {
                From::Asking(asking) => match asking.poll_unpin(context) {
                    Poll::Ready(Ok(subscriber)) => self.from = From::Hearing(subscriber),
                    Poll::Ready(Err(_)) => self.from = From::Nobody,
                    Poll::Pending => return Poll::Pending,
                },
                From::Hearing(subscriber) => match subscriber.poll_next_unpin(context) {
                    Poll::Ready(Some(message)) => {
                        if let Some(read) = self.read(&message) {
                            return Poll::Ready(Some(read));
                        }
                    }
                    Poll::Ready(None) => self.from = From::Nobody,
                    Poll::Pending => return Poll::Pending,
                },
                From::Nobody => return Poll::Ready(None),
            }
        }
    }
}

impl<T> Unpin for Heard<T> {}

impl<T> fmt::Debug for Heard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heard").finish_non_exhaustive()
    }
}
