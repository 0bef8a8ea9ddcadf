//! Uploads that are not finished, counted for each tenant: files beside bytes, so that
//! empty ones count, too.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Uploads that a tenant may have under way at once.
pub(super) const MAX_PARTIAL_FILES: usize = 200;

/// The unfinished uploads of all tenants, by the directory of each.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<HashMap<PathBuf, PartialUploads>>);

#[derive(Debug, Default)]
struct PartialUploads {
    files: usize,
    bytes: u64,
}

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, PartialUploads>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}

/// The share that one upload has in its tenant's, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    under_way: Arc<UnderWay>,
    directory: PathBuf,
    bytes: u64,
}

impl Share {
    /// Counts a file that is about to be made, if the tenant may have one more under way.
    pub(super) fn begin(under_way: &Arc<UnderWay>, directory: &Path) -> Option<Self> {
        let mut all = under_way.lock();
        let partial = all.entry(directory.to_owned()).or_default();
        if partial.files >= MAX_PARTIAL_FILES {
            return None;
        }
        partial.files += 1;
        drop(all);
        Some(Self { under_way: under_way.clone(), directory: directory.to_owned(), bytes: 0 })
    }

    /// Counts bytes that are about to be written, if the tenant has at most so many then.
    pub(super) fn add(&mut self, bytes: u64, most: u64) -> bool {
        let mut all = self.under_way.lock();
        let partial = all.entry(self.directory.clone()).or_default();
        let fits = partial.bytes.saturating_add(bytes) <= most;
        if fits {
            partial.bytes += bytes;
            self.bytes += bytes;
        }
        fits
    }

    /// The bytes that the tenant has under way, with those of this upload.
    pub(super) fn of_tenant(&self) -> u64 {
        self.under_way.lock().get(&self.directory).map_or(0, |partial| partial.bytes)
    }

    /// The bytes that the tenant has under way beside those of this upload.
    pub(super) fn of_others(&self) -> u64 {
        self.of_tenant().saturating_sub(self.bytes)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut all = self.under_way.lock();
        if let Some(partial) = all.get_mut(&self.directory) {
            partial.files = partial.files.saturating_sub(1);
            partial.bytes = partial.bytes.saturating_sub(self.bytes);
            if partial.files == 0 {
                all.remove(&self.directory);
            }
        }
    }
}
