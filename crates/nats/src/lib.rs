//! Rings over NATS, and never waits at the door.
//!
//! ```text
//!   nodes ───── beats ─────► control replicas   lost: the next one follows
//!   nodes ───── told ──────► whoever listens    lost: ask the API
//!   control ─── outbox ────► a stream           lost: the database says it again
//! ```
//!
//! A [`Doorbell`] is there at once, connects behind its user's back and comes back
//! by itself for ever. While NATS is away, beats and events are dropped and counted,
//! and the outbox says [`OutboxError::Away`]. So nothing that must not be lost, and
//! nobody who must not wait, may depend on it.

mod heard;
mod outbox;

use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::{Client, ConnectOptions, ServerAddr};
use belljar_peer_proto::platform::{BEATS, SignedBeat, TOLD, Told};
use futures_util::FutureExt as _;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::task::unconstrained;

pub use heard::Heard;
pub use outbox::{OutboxError, Stream, Waiting};

/// A server that says nothing for three of these is given up for another.
const PING: Duration = Duration::from_secs(2);
const HANDSHAKE: Duration = Duration::from_secs(2);
/// What is waited for an answer. The publisher holds rows of the database
/// meanwhile, which may be idle for 15 s.
const ANSWER: Duration = Duration::from_secs(4);
/// Between two attempts to connect: at most this, at first a fraction of it.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// Messages that wait for a slow reader. What comes then is lost to that reader.
const UNHEARD: usize = 4096;

/// Why there is no doorbell.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Without the address, which may hold a password.
    #[error("invalid NATS address {0}; expected one like nats://host:4222")]
    Address(usize),
    #[error("no NATS server is configured")]
    Nobody,
    #[error("cannot set up the connection to NATS")]
    Setup(#[source] async_nats::ConnectError),
}

/// What went through, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Handed to a server; of the outbox, what a stream has acknowledged.
    pub published: u64,
    /// Beats and events that nobody took, as NATS was away or too slow.
    pub dropped: u64,
    /// Messages of others that could not be read.
    pub unread: u64,
    /// Messages of the outbox that no server would ever take.
    pub refused: u64,
    pub reconnects: u64,
}

/// A handle on NATS; cheap to clone.
#[derive(Debug, Clone)]
pub struct Doorbell {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    streams: Context,
    published: AtomicU64,
    dropped: AtomicU64,
    unread: Arc<AtomicU64>,
    refused: AtomicU64,
    /// The last place in the stream that is known to be taken.
    highest: AtomicU64,
}

impl Doorbell {
    /// Fails for addresses that are none; not because nobody answers there. All
    /// servers have to be named: those that they name themselves may be known by
    /// addresses that lead nowhere from here.
    pub async fn connect<I>(urls: I) -> Result<Self, ConnectError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let parse = |(number, url): (usize, I::Item)| {
            url.as_ref().trim().parse().map_err(|_| ConnectError::Address(number + 1))
        };
        let servers: Vec<ServerAddr> =
            urls.into_iter().enumerate().map(parse).collect::<Result<_, _>>()?;
        let first = servers.first().ok_or(ConnectError::Nobody)?;
        let client = options(first)
            .name("belljar")
            .retry_on_initial_connect()
            .max_reconnects(None)
            .ignore_discovered_servers()
            .ping_interval(PING)
            .connection_timeout(HANDSHAKE)
            .request_timeout(Some(ANSWER))
            .subscription_capacity(UNHEARD)
            .reconnect_delay_callback(pause)
            .connect(servers)
            .await
            .map_err(ConnectError::Setup)?;
        let streams = ContextBuilder::new().timeout(ANSWER).build(client.clone());
        let shared = Shared {
            client,
            streams,
            published: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            unread: Arc::default(),
            refused: AtomicU64::new(0),
            highest: AtomicU64::new(0),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Whether a server is there, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.shared.client.connection_state() == State::Connected
    }

    pub fn figures(&self) -> Figures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let shared = &self.shared;
        let connects = shared.client.statistics().connects.load(Ordering::Relaxed);
        Figures {
            published: read(&shared.published),
            dropped: read(&shared.dropped),
            unread: read(&shared.unread),
            refused: read(&shared.refused),
            reconnects: connects.saturating_sub(1),
        }
    }

    /// Says how a node is.
    pub fn beat(&self, beat: &SignedBeat) {
        self.ring(BEATS.to_owned(), beat);
    }

    /// What nodes say of themselves from now on.
    pub fn beats(&self) -> Heard<SignedBeat> {
        self.hear(BEATS.to_owned(), |_| true)
    }

    /// Tells those of a tenant who listen.
    pub fn tell(&self, told: &Told) {
        self.ring(told_subject(&told.tenant), told);
    }

    /// What a tenant is told from now on.
    pub fn told(&self, tenant: &str) -> Heard<Told> {
        let whose = tenant.to_owned();
        self.hear(told_subject(tenant), move |told: &Told| told.tenant == whose)
    }

    fn ring<T: Serialize>(&self, subject: String, message: &T) {
        let shared = &self.shared;
        let is_taken = || {
            // While nobody is there, messages would wait in a queue, to be told late.
            if !self.is_connected() {
                return false;
            }
            let Ok(body) = serde_json::to_vec(message) else { return false };
            // Ready at once unless the queue is full, for the server is slow.
            let handed = unconstrained(shared.client.publish(subject, body.into()));
            matches!(handed.now_or_never(), Some(Ok(())))
        };
        let counter = if is_taken() { &shared.published } else { &shared.dropped };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn hear<T>(
        &self,
        subject: String,
        is_wanted: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) -> Heard<T> {
        let unread = Arc::clone(&self.shared.unread);
        Heard::new(self.shared.client.clone(), subject, unread, Box::new(is_wanted))
    }
}

/// The first address says who asks, for all of them: the library reads that of
/// none.
fn options(address: &ServerAddr) -> ConnectOptions {
    let options = ConnectOptions::new();
    match (address.username(), address.password()) {
        (Some(user), Some(password)) => options.user_and_password(plain(user), plain(password)),
        (Some(token), None) => options.token(plain(token)),
        _ => options,
    }
}

/// What stands for itself in an address, and what is written as `%40`.
fn plain(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let code = code.and_then(|two| u8::from_str_radix(two, 16).ok());
        let (byte, left) = match code.filter(|_| *first == b'%') {
            Some(code) => (code, &after[2..]),
            None => (*first, after),
        };
        bytes.push(byte);
        rest = left;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A tenant's name may hold what no subject may.
fn told_subject(tenant: &str) -> String {
    let mut subject = format!("{TOLD}.");
    for byte in &Sha256::digest(tenant)[..16] {
        let _ = write!(subject, "{byte:02x}");
    }
    subject
}

/// Longer from attempt to attempt, and never the same for all: after an outage
/// everybody comes back.
fn pause(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX).min(10);
    let most = LONGEST_PAUSE.min(SHORTEST_PAUSE * 2_u32.pow(doublings));
    let random = RandomState::new().build_hasher().finish() % 1000;
    most / 2 + most * u32::try_from(random).unwrap_or_default() / 2000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_differ() {
        for (attempts, least, most) in [(0, 25, 50), (1, 25, 50), (2, 50, 100), (99, 1000, 2000)] {
            let paused = pause(attempts).as_millis();
            assert!((least..=most).contains(&paused), "{attempts}: {paused} ms");
        }
        let paused: std::collections::BTreeSet<_> = (0..20).map(|_| pause(99)).collect();
        assert!(paused.len() > 10, "{paused:?}");
    }

    #[test]
    fn every_tenant_has_a_subject_that_is_one() {
        let (spaced, wild) = (told_subject("a b"), told_subject(">"));
        assert_ne!(spaced, wild);
        for subject in [spaced, wild] {
            let name = subject.strip_prefix("belljar.told.").unwrap();
            assert!(name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()));
        }
    }

    #[test]
    fn what_is_written_in_an_address_is_meant() {
        assert_eq!(plain("p%40ss%2fw"), "p@ss/w");
        assert_eq!(plain("100%"), "100%");
        assert_eq!(plain("%zz%4"), "%zz%4");
    }

    #[tokio::test]
    async fn an_address_that_is_none_is_refused_without_being_shown() {
        let error = Doorbell::connect(["nats://a:1", "nats://u:pass word@:x"]).await.unwrap_err();
        assert!(matches!(error, ConnectError::Address(2)), "{error}");
        assert!(!format!("{error}{error:?}").contains("pass"));
        let nobody = Doorbell::connect(Vec::<String>::new()).await.unwrap_err();
        assert!(matches!(nobody, ConnectError::Nobody));
    }
}
