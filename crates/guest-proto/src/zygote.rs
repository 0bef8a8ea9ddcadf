//! What the host asks of a zygote: fork an interpreter into a sandbox.

use serde::{Deserialize, Serialize};

/// How the child is confined, and where it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub user: u32,
    pub cwd: Vec<u8>,
    /// A classic BPF program, 8 bytes an instruction.
    pub seccomp: Vec<u8>,
    /// Resource number and value, soft and hard alike.
    pub rlimits: Vec<(u32, u64)>,
    /// 0: the kernel has no Landlock.
    pub landlock_abi: u32,
    /// Whether the first descriptor of the groups is a version 2 directory that
    /// the child is born into.
    pub into_cgroup: bool,
}

impl Entry {
    pub fn encode(&self) -> Vec<u8> {
        // Serialising to a growing buffer fails only for types that postcard
        // cannot express.
        postcard::to_allocvec(self).unwrap_or_default()
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match postcard::take_from_bytes(bytes) {
            Ok((entry, [])) => Some(entry),
            Ok(_) | Err(_) => None,
        }
    }
}

/// Which descriptor of a request is what.
#[derive(Debug)]
pub struct Descriptors;

impl Descriptors {
    /// A pidfd of the sandbox's first process.
    pub const TARGET: usize = 0;
    /// Where the child says that it is in, or why not.
    pub const SYNC: usize = 1;
    /// The context's own stream.
    pub const STREAM: usize = 2;
    pub const STDOUT: usize = 3;
    pub const STDERR: usize = 4;
    /// From here on: a cgroup to be born into if there is one, then files of
    /// others to which the child writes itself.
    pub const GROUPS: usize = 5;
}
