//! How much is kept.

/// Bounds of cassettes. Sizes are those of plain content, so that what
/// compresses well is not a way around them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Request and answer of one exchange together.
    pub exchange_bytes: u64,
    /// Of a body that must be held in memory: requests, and answers in which
    /// fields are redacted or which are encoded.
    pub held_bytes: usize,
    /// Of all bodies that are held at the same time by one recorder.
    pub memory_bytes: u64,
    pub cassette_bytes: u64,
    pub exchanges: u64,
    /// Of the disk, for all cassettes of a tenant: an import beyond it is refused.
    pub tenant_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            exchange_bytes: 2 << 30,
            held_bytes: 64 << 20,
            memory_bytes: 512 << 20,
            cassette_bytes: 16 << 30,
            exchanges: 200_000,
            tenant_bytes: 32 << 30,
        }
    }
}

/// One line of an index, headers included.
pub(crate) const LINE_BYTES: usize = 1 << 20;
/// The whole index: read at once when a cassette is opened.
pub(crate) const INDEX_BYTES: u64 = 512 << 20;
/// The list of pieces of one answer.
pub(crate) const TIMING_BYTES: u64 = 4 << 20;
/// Pieces that come later are one with the last.
pub(crate) const PIECES: usize = 100_000;
