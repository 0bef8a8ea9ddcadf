//! What a file may cost, whatever is in it. What goes beyond is left out, and
//! the description says so.

/// Deeper values are passed over.
pub(crate) const DEPTH: usize = 32;
/// Paths of one file.
pub(crate) const PATHS: usize = 2048;
/// Paths of one file that may have sketches (about 16 KiB each).
pub(crate) const SKETCHES: u32 = 640;
/// Keys of one object, or columns of a table.
pub(crate) const KEYS: usize = 1024;
/// A longer key is passed over with its value.
pub(crate) const KEY_BYTES: usize = 256;
