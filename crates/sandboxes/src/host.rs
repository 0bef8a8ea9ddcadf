//! The host that sandboxes run on.

use std::sync::LazyLock;

/// The host's memory, as the kernel tells it.
pub(crate) fn memory_bytes() -> Option<u64> {
    static MEMORY_BYTES: LazyLock<Option<u64>> = LazyLock::new(|| {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        kibibytes.checked_mul(1024)
    });
    *MEMORY_BYTES
}
