//! A file on its way in, hashed as it comes.

use std::io::{self, Write as _};
use std::sync::Arc;

use super::flight::Flight;
use super::shelf::Temporary;
use super::{Inner, Key, charge};
use crate::digest::Hasher;

/// Takes the bytes of a file that is being fetched.
///
/// Dropped before it is finished, it leaves nothing behind, and whoever waits
/// may try.
#[derive(Debug)]
pub struct Writer {
    inner: Arc<Inner>,
    key: Key,
    temporary: Temporary,
    flight: Arc<Flight>,
    hasher: Hasher,
    size: u64,
    /// What this file has taken of the room of files that are being written.
    charged: u64,
}

/// Why a file was not kept. What the caller passes on meanwhile is its own
/// concern; after a mismatch it should not let the transfer end well.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("the downloaded file has the wrong digest: {size} bytes, expected {wanted}")]
    Mismatch { wanted: crate::digest::Digest, size: u64 },
    #[error("the file has more than {0} bytes")]
    TooLarge(u64),
    #[error("the cache is full")]
    Full,
    #[error("cannot cache the file")]
    Io(#[source] io::Error),
}

impl Writer {
    pub(super) fn new(
        inner: &Arc<Inner>,
        key: Key,
        temporary: Temporary,
        flight: Arc<Flight>,
    ) -> Self {
        let hasher = key.digest.hasher();
        Self { inner: Arc::clone(inner), key, temporary, flight, hasher, size: 0, charged: 0 }
    }

    /// Blocks on the disk.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        let most = self.inner.limits.file_bytes;
        if self.size > most {
            self.inner.count(|c| &c.too_large, 1);
            return Err(WriteError::TooLarge(most));
        }
        let needed = charge(self.size);
        if needed > self.charged {
            let mut state = self.inner.lock();
            let more = needed - self.charged;
            if !self.inner.make_room(&mut state, more) {
                self.inner.count(|c| &c.too_large, 1);
                return Err(WriteError::Full);
            }
            state.writing += more;
            self.charged = needed;
        }
        self.temporary.file.write_all(bytes).map_err(WriteError::Io)
    }

    /// Goes on with the check where the cache gave up.
    pub fn hasher(&self) -> Hasher {
        self.hasher.clone()
    }

    /// Keeps the file if it is the promised one.
    ///
    /// All bytes are on the disk before the file gets its name, so a crash
    /// leaves the whole file or none.
    pub fn finish(self) -> Result<u64, WriteError> {
        if !self.hasher.is_met() {
            self.inner.count(|c| &c.mismatched, 1);
            return Err(WriteError::Mismatch { wanted: self.key.digest, size: self.size });
        }
        self.temporary.file.sync_data().map_err(WriteError::Io)?;
        let mut state = self.inner.lock();
        self.inner.shelf.put(&self.key, &self.temporary).map_err(WriteError::Io)?;
        state.insert(self.key, self.size, true);
        drop(state);
        self.inner.count(|c| &c.stored, 1);
        Ok(self.size)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        {
            let mut state = self.inner.lock();
            state.writing -= self.charged;
            state.flights.remove(&self.key);
        }
        self.flight.end();
    }
}
