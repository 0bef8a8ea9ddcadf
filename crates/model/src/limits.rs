//! Hard limits of one sandbox.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What one sandbox may use at most. Going over ends the code with a named
/// reason; it never hurts the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Memory of all processes and of the writable layer together.
    pub memory_bytes: u64,
    /// CPU share in thousandths of a core.
    pub cpu_millis: u32,
    pub pids: u32,
    /// Size of the writable layer.
    pub disk_bytes: u64,
    /// Files, directories and links in the writable layer.
    pub inodes: u64,
    /// Output of one call after which the call is ended.
    pub output_bytes: u64,
    /// Wall time of one call.
    pub wall: Duration,
    /// CPU time of one call, over all its processes.
    pub cpu: Option<Duration>,
    pub open_files: u64,
}

pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: GIB,
            cpu_millis: 1000,
            pids: 128,
            disk_bytes: 512 * MIB,
            inodes: 65_536,
            output_bytes: 64 * MIB,
            wall: Duration::from_secs(60),
            cpu: None,
            open_files: 1024,
        }
    }
}

/// A limit that no sandbox could work with, or that no host could keep.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{name} must be between {least} and {most}, not {asked}")]
pub struct OutOfRange {
    pub name: &'static str,
    pub asked: u64,
    pub least: u64,
    pub most: u64,
}

impl Limits {
    /// Refuses values that would make a sandbox impossible or unbounded.
    pub fn check(&self) -> Result<(), OutOfRange> {
        let within = |name, asked, least, most| {
            if (least..=most).contains(&asked) {
                Ok(())
            } else {
                Err(OutOfRange { name, asked, least, most })
            }
        };
        within("memory", self.memory_bytes, 8 * MIB, 1 << 50)?;
        within("cpu (thousandths of a core)", self.cpu_millis.into(), 10, 1_024_000)?;
        within("pids", self.pids.into(), 2, 100_000)?;
        within("disk", self.disk_bytes, MIB, 1 << 50)?;
        within("inodes", self.inodes, 64, 1 << 32)?;
        within("output", self.output_bytes, 1, 1 << 50)?;
        within("open files", self.open_files, 16, 1 << 20)?;
        let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        let year = 366 * 24 * 3600 * 1000;
        within("wall time (ms)", millis(self.wall), 1, year)?;
        if let Some(cpu) = self.cpu {
            within("CPU time (ms)", millis(cpu), 1, year)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(Limits::default().check(), Ok(()));
    }

    #[test]
    fn absurd_limits_are_refused_by_name() {
        let limits = Limits { pids: 0, ..Limits::default() };
        assert_eq!(limits.check().map_err(|e| e.name), Err("pids"));
        let limits = Limits { wall: Duration::ZERO, ..Limits::default() };
        assert_eq!(limits.check().map_err(|e| e.name), Err("wall time (ms)"));
        let limits = Limits { memory_bytes: u64::MAX, ..Limits::default() };
        assert_eq!(limits.check().map_err(|e| e.name), Err("memory"));
    }
}
