//! Proves who asks, and bounds what wrong keys cost.
//!
//! ```text
//!   form ──► believed ──► proven before ──► refused a moment ago ──► this address ──► a place
//!    │          │ 1 s         │ 10 min           │ 1 s                   │ limit        │ of 4
//!    ▼          ▼             ▼                  ▼                       ▼              ▼
//!   401      answered      database             401                     429          database
//! ```
//!
//! The last two refusals come late, so that a flood waits for them.
//!
//! A key that was proven is believed for a second without asking again, so that one that is
//! taken away is dead within a second or two. Clients with a key that was proven before never
//! wait behind wrong keys, whatever address those come from.

mod limits;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use belljar_domain::{OperationCaps, Tier};
use belljar_listen::PeerAddress;
use belljar_store::{Proven, Store, StoreError};
use http::{HeaderMap, header};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use limits::AddressLimits;

/// How long a proof counts without asking again.
const BELIEVED: Duration = Duration::from_secs(1);
/// How long a key that was proven goes past the limits for unknown ones.
const REMEMBERED: Duration = Duration::from_secs(600);
/// How long a key that opens nothing is refused without asking again.
const REFUSED: Duration = Duration::from_secs(1);
/// Past this, what is remembered is thrown away and asked for again.
const MAX_REMEMBERED: usize = 10_000;
/// Unknown keys that are looked up at the same time: fewer than the pool has connections.
const LOOKUPS_AT_ONCE: usize = 4;
/// Unknown keys that wait for that, and for how long.
const MAX_WAITING: usize = 256;
const WAITING: Duration = Duration::from_millis(500);
/// How long a client waits for its refusal, at least and at most, when a key was not even
/// looked up: a flood of many requests at once is as slow as that, and does not come in waves.
/// And how many of them are held at most.
const REFUSAL_DELAY: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(8));
const MAX_DELAYED: usize = 4096;

pub(crate) type Hash = [u8; 32];

/// The tenant of a key, and what holds for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) proven: Proven,
    pub(crate) floor: Option<Tier>,
    pub(crate) caps: OperationCaps,
}

/// What became of a key that was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Proof {
    Of(Arc<Caller>),
    /// It opens nothing.
    Unknown,
    /// Too many wrong keys came from the same address: it was not looked up.
    TooManyWrong,
    /// Too many are being looked up: it was not.
    Busy,
}

#[derive(Debug)]
pub(crate) struct Proofs {
    proven: Mutex<HashMap<Hash, (Instant, Arc<Caller>)>>,
    refused: Mutex<HashMap<Hash, Instant>>,
    addresses: Mutex<AddressLimits>,
    lookups: Semaphore,
    waiting: AtomicUsize,
    delayed: AtomicUsize,
}

impl Default for Proofs {
    fn default() -> Self {
        Self {
            proven: Mutex::default(),
            refused: Mutex::default(),
            addresses: Mutex::default(),
            lookups: Semaphore::new(LOOKUPS_AT_ONCE),
            waiting: AtomicUsize::new(0),
            delayed: AtomicUsize::new(0),
        }
    }
}

impl Proofs {
    /// Looks a key up, unless that would be too much.
    pub(crate) async fn prove(
        &self,
        store: &Store,
        hash: &Hash,
        from: Option<PeerAddress>,
    ) -> Result<Proof, StoreError> {
        let before = self.proven_before(hash);
        if let Some((age, caller)) = &before
            && *age < BELIEVED
        {
            return Ok(Proof::Of(caller.clone()));
        }
        let proof = if before.is_some() {
            self.look_up(store, hash).await?
        } else if self.is_refused(hash) {
            Proof::Unknown
        } else {
            self.look_up_unknown(store, hash, from).await?
        };
        let refused = match &proof {
            Proof::Of(_) => return Ok(proof),
            Proof::Unknown => "unknown",
            Proof::TooManyWrong => "too_many_wrong",
            Proof::Busy => "busy",
        };
        belljar_telemetry::metrics().refused_key(refused);
        Ok(proof)
    }

    /// Looks up a key that was not proven before, behind the limits for such.
    async fn look_up_unknown(
        &self,
        store: &Store,
        hash: &Hash,
        from: Option<PeerAddress>,
    ) -> Result<Proof, StoreError> {
        let Some(_pending) = Pending::begin(&self.addresses, from) else {
            return Ok(Proof::TooManyWrong);
        };
        let Some(_waiting) = Waiting::begin(&self.waiting, MAX_WAITING) else {
            return Ok(Proof::Busy);
        };
        let place = tokio::time::timeout(WAITING, self.lookups.acquire()).await;
        let Ok(Ok(_place)) = place else { return Ok(Proof::Busy) };
        // Others of the same address may have been wrong meanwhile.
        if !self.may_ask(from) {
            return Ok(Proof::TooManyWrong);
        }
        let proof = self.look_up(store, hash).await?;
        if proof == Proof::Unknown
            && let Some(from) = from
        {
            lock(&self.addresses).was_wrong(from.network(), Instant::now());
        }
        Ok(proof)
    }

    async fn look_up(&self, store: &Store, hash: &Hash) -> Result<Proof, StoreError> {
        let Some(proven) = store.prove(hash).await? else {
            lock(&self.proven).remove(hash);
            let mut refused = lock(&self.refused);
            if refused.len() >= MAX_REMEMBERED {
                refused.clear();
            }
            refused.insert(*hash, Instant::now());
            return Ok(Proof::Unknown);
        };
        let tenant = store.tenant(&proven.tenant).await?;
        let caps = OperationCaps { tenant: tenant.operations, key: proven.operations.clone() };
        let caller = Arc::new(Caller { proven, floor: tenant.floor, caps });
        let mut known = lock(&self.proven);
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert(*hash, (Instant::now(), caller.clone()));
        Ok(Proof::Of(caller))
    }

    /// When a key was proven last, if that is not long ago.
    fn proven_before(&self, hash: &Hash) -> Option<(Duration, Arc<Caller>)> {
        let proven = lock(&self.proven);
        let (at, caller) = proven.get(hash)?;
        let age = at.elapsed();
        (age < REMEMBERED).then(|| (age, caller.clone()))
    }

    fn is_refused(&self, hash: &Hash) -> bool {
        lock(&self.refused).get(hash).is_some_and(|at| at.elapsed() < REFUSED)
    }

    /// Has a client wait whose key was not looked up.
    pub(crate) async fn delay_refusal(&self, hash: &Hash) {
        if let Some(_delayed) = Waiting::begin(&self.delayed, MAX_DELAYED) {
            let (least, most) = REFUSAL_DELAY;
            let part = (most - least) * u32::from(u16::from_be_bytes([hash[0], hash[1]]));
            tokio::time::sleep(least + part / u32::from(u16::MAX)).await;
        }
    }

    fn may_ask(&self, from: Option<PeerAddress>) -> bool {
        let network = from.map(PeerAddress::network);
        network.is_none_or(|network| lock(&self.addresses).may_ask(network, Instant::now()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An unknown key of an address that is looked up, or waits for that.
struct Pending<'a>(&'a Mutex<AddressLimits>, Option<IpAddr>);

impl<'a> Pending<'a> {
    fn begin(addresses: &'a Mutex<AddressLimits>, from: Option<PeerAddress>) -> Option<Self> {
        let network = from.map(PeerAddress::network);
        let may = |network| lock(addresses).begin(network, Instant::now());
        network.is_none_or(may).then(|| Self(addresses, network))
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(network) = self.1 {
            lock(self.0).end(network);
        }
    }
}

/// One that waits, until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize, most: usize) -> Option<Self> {
        let waiting = Self(count);
        (count.fetch_add(1, Ordering::Relaxed) < most).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The key that came with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShownKey {
    None,
    /// No key of ours looks like this: nothing is asked.
    Malformed,
    Hash(Hash),
}

pub(crate) fn shown(headers: &HeaderMap) -> ShownKey {
    let key = match (headers.get("x-api-key"), headers.get(header::AUTHORIZATION)) {
        (Some(key), _) => key.as_bytes(),
        (None, Some(value)) => {
            let value = value.as_bytes();
            let space = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
            let (scheme, key) = value.split_at(space);
            if !scheme.eq_ignore_ascii_case(b"bearer") || key.is_empty() {
                return ShownKey::None;
            }
            key.trim_ascii()
        }
        (None, None) => return ShownKey::None,
    };
    if is_key(key) { ShownKey::Hash(Sha256::digest(key).into()) } else { ShownKey::Malformed }
}

/// The hash of what may be a key of ours, in a header that may be for a server inside.
pub(crate) fn in_value(value: &str) -> Option<Hash> {
    let key = value.rsplit(' ').next()?;
    is_key(key.as_bytes()).then(|| Sha256::digest(key).into())
}

/// Returns true if this has the form of our keys: `e2b_` and 40 hex digits.
fn is_key(key: &[u8]) -> bool {
    let digits = key.strip_prefix(b"e2b_");
    digits.is_some_and(|digits| digits.len() == 40 && digits.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests;
