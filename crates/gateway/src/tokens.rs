//! Tokens: what a sandbox shows to be served an operation.
//!
//! A token is 256 random bits that mean nothing by themselves. What it allows,
//! until when and for whom stands here only, under its SHA-256: who reads this
//! memory finds no token, and nothing that is sent can be forged or stretched. A
//! plain hash is right because nobody can guess 256 bits; it also makes the time
//! of a look-up say nothing about a token.
//!
//! ```text
//!   Mint ──► alive ──► expired       (own clock, never what a request says)
//!              │  ▲
//!              │  └─ Renew           (only the node asks for that)
//!              ├────► revoked        (pause, fork, Revoke, Close)
//!              └────► leaked         (shown on another sandbox's listener)
//! ```
//!
//! A token that is shown by another sandbox has left its own. Whoever holds it
//! now, it is not only refused there: it dies at home too, and is counted. The
//! node mints another if it wants to; a thief gains nothing but the theft.
//!
//! Tokens live in this process only. After a crash there are none, so nothing
//! has to be swept and nothing of an older life can be valid.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use belljar_domain::SandboxId;
use belljar_domain::approval::ToolApprovals;
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::budget::{Account, Minute};

mod show;
#[cfg(test)]
mod tests;

pub(crate) use show::{Presented, presented};

/// What every token begins with, so that scanners of leaks know it.
pub(crate) const PREFIX: &str = "bjt_";
/// When nobody says how long.
pub(crate) const USUAL: Duration = Duration::from_secs(300);
/// At once; renewing adds to it.
pub(crate) const LONGEST: Duration = Duration::from_secs(600);

/// A node mints a handful for each sandbox; these only bound what a fault costs.
const MOST_OF_ONE: usize = 64;
const MOST: usize = 1 << 17;
/// Nobody guesses 256 bits; this only keeps the log readable.
const WRONG_A_MINUTE: u32 = 60;
const BITS: usize = 256;
const LENGTH: usize = PREFIX.len() + (BITS / 8 * 4).div_ceil(3);

type Hash = [u8; 32];

/// Whose a token is: a sandbox, and which time that it was opened. The number
/// changes when the same sandbox is opened again, so that nothing of before
/// its pause is valid after.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) sandbox: SandboxId,
    pub(crate) epoch: u64,
}

/// What a token allows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    /// Names of operations. The first that fits a request serves it.
    pub(crate) operations: Vec<String>,
    /// The account in the ledger that its requests draw on.
    pub(crate) account: Option<Arc<Account>>,
    /// The tool calls in answers to it that wait for a human.
    pub(crate) approvals: Option<Arc<ToolApprovals>>,
}

/// A token that is known. Never the token itself.
#[derive(Debug)]
pub(crate) struct Token {
    owner: Owner,
    scope: Scope,
    /// Until when; none once it is dead for another reason.
    until: watch::Sender<Option<Instant>>,
}

/// A new token, to be told once.
pub(crate) struct Fresh {
    pub(crate) token: String,
    /// Microseconds since 1970, for people. What counts is the monotonic clock.
    pub(crate) expires: u64,
}

/// Why a token opens nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No token, more than one, or not one of ours. Also what was revoked: it is
    /// forgotten at once.
    Unknown,
    Expired,
    /// It was this other sandbox's, and is dead now.
    Foreign(SandboxId),
    /// The same place has shown too many that are none.
    TooMany,
}

/// Why a token dies in the middle of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    Expired,
    Revoked,
}

/// Why no token was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MintError {
    #[error("the sandbox already has {MOST_OF_ONE} live tokens")]
    TooManyOfOne,
    #[error("there are already {MOST} live tokens")]
    TooMany,
    #[error("cannot read random bytes")]
    Random(#[source] std::io::Error),
}

/// All tokens that are alive.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    store: Mutex<Store>,
    foreign: AtomicU64,
}

#[derive(Debug, Default)]
struct Store {
    known: HashMap<Hash, Arc<Token>>,
    of: HashMap<Owner, Vec<Hash>>,
    /// What each place has shown that is no token, in the last minute.
    guesses: HashMap<Owner, Minute>,
    swept: Option<Instant>,
}

impl Tokens {
    /// Makes a token. `lifetime` zero is [`USUAL`]; more than [`LONGEST`] is
    /// [`LONGEST`], and the answer tells it.
    pub(crate) fn mint(
        &self,
        owner: Owner,
        scope: Scope,
        lifetime: Duration,
    ) -> Result<Fresh, MintError> {
        let mut bits = [0u8; BITS / 8];
        fill(&mut bits).map_err(MintError::Random)?;
        let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bits));
        let lifetime = bounded(lifetime);
        let now = Instant::now();
        let mut store = self.lock();
        store.sweep_sometimes(now);
        if store.known.len() >= MOST {
            return Err(MintError::TooMany);
        }
        let of = store.of.entry(owner.clone()).or_default();
        if of.len() >= MOST_OF_ONE {
            return Err(MintError::TooManyOfOne);
        }
        let hash = hash(&token);
        of.push(hash);
        let (until, _) = watch::channel(Some(now + lifetime));
        store.known.insert(hash, Arc::new(Token { owner, scope, until }));
        Ok(Fresh { token, expires: micros_in(lifetime) })
    }

    /// The token that was shown on `owner`'s listener.
    pub(crate) fn check(&self, shown: &str, owner: &Owner) -> Result<Arc<Token>, Refusal> {
        let hash = is_one(shown).then(|| hash(shown));
        let mut store = self.lock();
        let found = hash.and_then(|hash| Some((hash, store.known.get(&hash)?.clone())));
        let Some((hash, token)) = found else {
            return Err(store.count_guess(owner));
        };
        if token.owner != *owner {
            store.forget(&hash);
            self.foreign.fetch_add(1, Ordering::Relaxed);
            return Err(Refusal::Foreign(token.owner.sandbox.clone()));
        }
        if token.is_alive() {
            return Ok(token);
        }
        store.forget(&hash);
        Err(Refusal::Expired)
    }

    /// The living token that was shown on its owner's listener. Other than [`Self::check`], this
    /// judges nothing.
    pub(crate) fn find(&self, shown: &str, owner: &Owner) -> Option<Arc<Token>> {
        let hash = is_one(shown).then(|| hash(shown))?;
        let found = self.lock().known.get(&hash).cloned();
        found.filter(|token| token.owner == *owner && token.is_alive())
    }

    /// Lets everything of this owner that is alive live for so long from now.
    /// Returns how many tokens that are, and until when.
    pub(crate) fn renew(&self, owner: &Owner, lifetime: Duration) -> (usize, u64) {
        let now = Instant::now();
        let lifetime = bounded(lifetime);
        let store = self.lock();
        let hashes = store.of.get(owner).into_iter().flatten();
        let mut count = 0;
        for token in hashes.filter_map(|hash| store.known.get(hash)) {
            if token.is_alive() {
                token.until.send_replace(Some(now + lifetime));
                count += 1;
            }
        }
        (count, micros_in(lifetime))
    }

    /// Ends all tokens of this owner, and what they have begun.
    pub(crate) fn revoke(&self, owner: &Owner) -> usize {
        let mut store = self.lock();
        store.guesses.remove(owner);
        let hashes = store.of.remove(owner).unwrap_or_default();
        for hash in &hashes {
            if let Some(token) = store.known.remove(hash) {
                token.until.send_replace(None);
            }
        }
        hashes.len()
    }

    /// How often a token was shown that was another sandbox's. Anything above
    /// zero is an alarm: nothing of ours does that.
    pub(crate) fn foreign(&self) -> u64 {
        self.foreign.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().known.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    fn count_guess(&mut self, owner: &Owner) -> Refusal {
        let now = Instant::now();
        let guesses = self.guesses.entry(owner.clone()).or_default();
        if guesses.room(WRONG_A_MINUTE, now).is_err() {
            return Refusal::TooMany;
        }
        guesses.count(now);
        Refusal::Unknown
    }

    fn forget(&mut self, hash: &Hash) {
        let Some(token) = self.known.remove(hash) else { return };
        token.until.send_replace(None);
        if let Some(of) = self.of.get_mut(&token.owner) {
            of.retain(|one| one != hash);
            if of.is_empty() {
                self.of.remove(&token.owner);
            }
        }
    }

    /// Expired ones are refused anyway; this only gives their memory back.
    fn sweep_sometimes(&mut self, now: Instant) {
        let is_due = self.swept.is_none_or(|last| now - last >= Duration::from_secs(10));
        if !is_due && self.known.len() < MOST {
            return;
        }
        self.swept = Some(now);
        let dead: Vec<Hash> = self
            .known
            .iter()
            .filter_map(|(hash, token)| (!token.is_alive()).then_some(*hash))
            .collect();
        for hash in &dead {
            self.forget(hash);
        }
    }
}

impl Token {
    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    pub(crate) fn allows(&self, operation: &str) -> bool {
        self.scope.operations.iter().any(|one| one == operation)
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.until.borrow().is_some_and(|until| Instant::now() < until)
    }

    /// Waits until the token is dead. What a token began is cut when it dies.
    pub(crate) async fn death(self: Arc<Self>) -> Death {
        let mut changes = self.until.subscribe();
        loop {
            let Some(until) = *changes.borrow_and_update() else { return Death::Revoked };
            tokio::select! {
                changed = changes.changed() => {
                    if changed.is_err() {
                        return Death::Revoked;
                    }
                }
                () = tokio::time::sleep_until(until) => return Death::Expired,
            }
        }
    }
}

impl fmt::Debug for Fresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh").field("expires", &self.expires).finish_non_exhaustive()
    }
}

fn bounded(lifetime: Duration) -> Duration {
    if lifetime.is_zero() { USUAL } else { lifetime.min(LONGEST) }
}

/// Whether it has a token's form. Nothing else is worth a hash: what is shown may
/// be as large as a head.
fn is_one(shown: &str) -> bool {
    let is_letter = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    shown.len() == LENGTH && shown.starts_with(PREFIX) && shown.bytes().all(is_letter)
}

fn hash(token: &str) -> Hash {
    Sha256::digest(token).into()
}

fn fill(mut bits: &mut [u8]) -> std::io::Result<()> {
    while !bits.is_empty() {
        match getrandom(&mut *bits, GetRandomFlags::empty()) {
            Ok(count) => bits = bits.get_mut(count..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn micros_in(lifetime: Duration) -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from((since + lifetime).as_micros()).unwrap_or(u64::MAX)
}
