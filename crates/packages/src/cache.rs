//! Package files by what they hash to, shared by all sandboxes of a host.
//!
//! ```text
//!   find(key) ──► Hit(Reader)       bytes that were checked against the key
//!             ├─► Missing(Writer)   the caller fetches; whoever asks meanwhile is
//!             └─► Busy(Waiting)     told to wait, and asks again
//! ```
//!
//! What is kept and what is answered is decided by bytes alone: a name, a URL or
//! a server never is part of it. So nothing can be planted here but a file that
//! an index has promised, and it can be planted for those only who were promised
//! the same. Sandboxes see none of it but answers of the gateway.
//!
//! The disk is not trusted either. Every answer is hashed on its way out, every
//! time: small files before the first byte, large ones before the last, and
//! once more in whole when this process uses them first. Damage is a miss, or a
//! transfer that does not end well; it never is a complete wrong file.

mod flight;
mod read;
mod shelf;
#[cfg(test)]
mod tests;
mod write;

pub use flight::Waiting;
pub use read::{ReadError, Reader};
pub use shelf::OpenError;
pub use write::{WriteError, Writer};

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

use crate::digest::Digest;
use flight::Flight;
use shelf::Shelf;

/// A handle; clones share one cache. Its calls block on the disk.
#[derive(Debug, Clone)]
pub struct Cache(Arc<Inner>);

/// Who shares a file.
///
/// Whoever knows the hash of a file and may name an index could otherwise have
/// the cache hand out what the file's own index would have refused. So only
/// files of indexes that the operator configured for everybody are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    Shared,
    /// By a hash of the tenant's name, which is a safe file name.
    Tenant([u8; 32]),
}

/// What a file is kept by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub scope: Scope,
    pub digest: Digest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of everything, files that are being written included.
    pub bytes: u64,
    /// Of one file.
    pub file_bytes: u64,
}

/// What the cache can do about a file.
#[derive(Debug)]
pub enum Found {
    Hit(Reader),
    Missing(Box<Writer>),
    Busy(Waiting),
    /// The disk does not take it: fetch without the cache.
    Unavailable(io::Error),
}

/// What has happened since the start, and what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    pub hits: u64,
    pub misses: u64,
    /// Asked for while somebody else was fetching it.
    pub joined: u64,
    pub stored: u64,
    /// Fetched, and not what was promised.
    pub mismatched: u64,
    /// Found damaged on the disk.
    pub tampered: u64,
    pub too_large: u64,
    pub evicted: u64,
    /// Bytes that did not have to be fetched.
    pub bytes_saved: u64,
    pub files: u64,
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 20 << 30, file_bytes: 4 << 30 }
    }
}

impl Scope {
    pub fn tenant(name: &str) -> Self {
        Self::Tenant(Sha256::digest(name).into())
    }
}

#[derive(Debug)]
struct Inner {
    shelf: Shelf,
    limits: Limits,
    state: Mutex<State>,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    joined: AtomicU64,
    stored: AtomicU64,
    mismatched: AtomicU64,
    tampered: AtomicU64,
    too_large: AtomicU64,
    evicted: AtomicU64,
    bytes_saved: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Key, Entry>,
    /// Keys by when they were used last.
    by_age: BTreeMap<u64, Key>,
    clock: u64,
    /// Charged bytes of files on the shelf.
    stored: u64,
    /// Bytes of files that are being written.
    writing: u64,
    flights: HashMap<Key, Arc<Flight>>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    size: u64,
    used: u64,
    /// Whether this process has seen all of its bytes.
    is_checked: bool,
}

/// What a file is charged: an empty one takes room too, and memory here.
fn charge(size: u64) -> u64 {
    size.max(1).next_multiple_of(4096)
}

impl Cache {
    /// Opens the cache in `directory`, which is made, and used by one process
    /// at a time.
    pub fn open(directory: &Path, limits: Limits) -> Result<Self, OpenError> {
        let shelf = Shelf::open(directory)?;
        let mut state = State::default();
        for (key, size) in shelf.scan()? {
            state.insert(key, size, false);
        }
        let inner =
            Inner { shelf, limits, state: Mutex::new(state), counters: Counters::default() };
        inner.make_room(&mut inner.lock(), 0);
        Ok(Self(Arc::new(inner)))
    }

    /// The file, or the task of fetching it.
    pub fn find(&self, key: Key) -> Found {
        if let Some(entry) = self.0.use_entry(&key) {
            match Reader::open(&self.0, key, entry) {
                Ok(reader) => {
                    self.0.count(|c| &c.hits, 1);
                    self.0.count(|c| &c.bytes_saved, reader.size());
                    return Found::Hit(reader);
                }
                // Damaged or gone: it is fetched again.
                Err(error) => self.0.forget(&key, &error),
            }
        }
        let mut state = self.0.lock();
        if state.entries.contains_key(&key) {
            // Somebody has just finished it.
            drop(state);
            return self.find(key);
        }
        if let Some(flight) = state.flights.get(&key) {
            self.0.count(|c| &c.joined, 1);
            return Found::Busy(Waiting::on(flight));
        }
        self.0.count(|c| &c.misses, 1);
        let file = match self.0.shelf.temporary() {
            Ok(file) => file,
            Err(error) => return Found::Unavailable(error),
        };
        let flight = Arc::new(Flight::default());
        state.flights.insert(key, Arc::clone(&flight));
        Found::Missing(Box::new(Writer::new(&self.0, key, file, flight)))
    }

    /// How large the file is, if it is here.
    pub fn size(&self, key: &Key) -> Option<u64> {
        self.0.lock().entries.get(key).map(|entry| entry.size)
    }

    pub fn stats(&self) -> Stats {
        let counters = &self.0.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let state = self.0.lock();
        Stats {
            hits: get(&counters.hits),
            misses: get(&counters.misses),
            joined: get(&counters.joined),
            stored: get(&counters.stored),
            mismatched: get(&counters.mismatched),
            tampered: get(&counters.tampered),
            too_large: get(&counters.too_large),
            evicted: get(&counters.evicted),
            bytes_saved: get(&counters.bytes_saved),
            files: state.entries.len() as u64,
            bytes: state.stored,
        }
    }
}

impl Inner {
    /// Nothing is done under the lock that could leave the state half changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, which: impl Fn(&Counters) -> &AtomicU64, by: u64) {
        which(&self.counters).fetch_add(by, Ordering::Relaxed);
    }

    fn use_entry(&self, key: &Key) -> Option<Entry> {
        let mut state = self.lock();
        state.clock += 1;
        let now = state.clock;
        let entry = state.entries.get_mut(key)?;
        let before = std::mem::replace(&mut entry.used, now);
        let entry = *entry;
        state.by_age.remove(&before);
        state.by_age.insert(now, *key);
        Some(entry)
    }

    fn set_checked(&self, key: &Key) {
        if let Some(entry) = self.lock().entries.get_mut(key) {
            entry.is_checked = true;
        }
    }

    fn forget(&self, key: &Key, why: &ReadError) {
        // One that is gone may just have made room for others.
        let is_gone = matches!(why, ReadError::Io(e) if e.kind() == io::ErrorKind::NotFound);
        self.count(|c| &c.tampered, u64::from(!is_gone));
        let mut state = self.lock();
        state.remove(key);
        self.shelf.remove(key);
    }

    /// Removes what was not used for longest until `more` bytes fit, and says
    /// whether they do.
    fn make_room(&self, state: &mut State, more: u64) -> bool {
        while state.stored + state.writing + more > self.limits.bytes {
            let Some((_, &oldest)) = state.by_age.first_key_value() else { return false };
            state.remove(&oldest);
            self.shelf.remove(&oldest);
            self.count(|c| &c.evicted, 1);
        }
        true
    }
}

impl State {
    fn insert(&mut self, key: Key, size: u64, is_checked: bool) {
        self.remove(&key);
        self.clock += 1;
        self.entries.insert(key, Entry { size, used: self.clock, is_checked });
        self.by_age.insert(self.clock, key);
        self.stored += charge(size);
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.by_age.remove(&entry.used);
            self.stored -= charge(entry.size);
        }
    }
}
