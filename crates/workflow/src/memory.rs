//! Bounds the memory of this process for files of workflows.

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::service::MAX_FILE_BYTES;

/// KiB of all files that are held at the same time.
const MAX_HELD_KIB: usize = 256 << 10;

static HELD: Semaphore = Semaphore::const_new(MAX_HELD_KIB);

/// Waits until so many bytes of files may be held, for as long as the permit lives. A caller asks
/// for one file at a time, so that none waits for another.
pub(crate) async fn hold(bytes: u64) -> Option<SemaphorePermit<'static>> {
    let kib = bytes.min(MAX_FILE_BYTES as u64) / 1024 + 1;
    HELD.acquire_many(u32::try_from(kib).unwrap_or(u32::MAX)).await.ok()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn files_in_memory_are_bounded_by_their_bytes() {
        let longest = MAX_FILE_BYTES as u64;
        let mut held = Vec::new();
        while let Some(Some(permit)) = hold(longest).now_or_never() {
            held.push(permit);
        }
        assert_eq!(held.len(), 3);
        // A short one has room beside them.
        assert!(hold(1).now_or_never().is_some());
        held.pop();
        assert!(hold(longest).now_or_never().is_some());
    }
}
