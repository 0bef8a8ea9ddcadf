//! What a process held, as of one moment.

use std::ffi::CString;
use std::sync::Arc;

use belljar_sys::ptrace::Registers;

use crate::memory::{Memory, Missing};
use crate::reference::Mark;

/// What a process held, as of one moment, told as a difference to the
/// [`Reference`](crate::Reference) that it was taken with.
///
/// Cheap to keep: memory that did not change between two images of a process is
/// in one file that both refer to.
#[derive(Debug)]
pub struct Image {
    /// Files that content is in.
    pub(crate) memories: Vec<Arc<Memory>>,
    /// In order of address, without overlaps.
    pub(crate) mappings: Vec<Mapping>,
    /// Where the kernel's own mappings are; they cannot be moved there.
    pub(crate) kernel: Vec<(u64, u64)>,
    pub(crate) state: State,
    pub(crate) mark: Mark,
    pub(crate) taken: u64,
}

/// What is asked of a process before it is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How much one image may take of memory, beyond what it shares.
    pub bytes: u64,
    /// How many mappings it may have.
    pub mappings: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 4 << 30, mappings: 8192 }
    }
}

/// What the kernel keeps for a process besides its memory.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) registers: Registers,
    pub(crate) extended: Vec<u8>,
    pub(crate) mask: u64,
    /// Where the heap ends.
    pub(crate) heap_end: u64,
    pub(crate) actions: Vec<Action>,
    pub(crate) alternate_stack: [u8; 24],
    pub(crate) umask: u64,
    /// The working directory, by its name inside.
    pub(crate) directory: Option<CString>,
    /// The thread's own number, as it sees it.
    pub(crate) thread: u32,
}

/// What a process does at a signal, in the kernel's own form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Action {
    pub(crate) signal: u64,
    pub(crate) bytes: [u8; 32],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) access: u64,
    pub(crate) base: Base,
    pub(crate) is_stack: bool,
    /// Empty in every child, like after fork(2).
    pub(crate) is_wiped: bool,
    /// What to make of pages that cannot be read while they are taken.
    pub(crate) missing: Missing,
    /// What differs from the base, in order of address.
    pub(crate) runs: Vec<Run>,
}

/// What a mapping holds where no run says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// The same as the reference has there.
    Reference,
    Zeros,
    /// A file of the image, by its place in [`Image::memories`].
    Memory {
        index: usize,
        offset: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) content: Content,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Memory {
        index: usize,
        offset: u64,
    },
    /// Never written, or given back: zeros, or what the mapped file has.
    Untouched,
}

/// Runs of at least this size are mapped rather than copied.
pub(crate) const LARGE: u64 = 64 << 10;

impl Run {
    pub(crate) fn size(&self) -> u64 {
        self.end - self.start
    }

    /// Whether it is worth a mapping of its own.
    pub(crate) fn is_large(&self) -> bool {
        self.size() >= LARGE
    }
}

impl Image {
    /// How many bytes were copied for this image; the rest it shares.
    pub fn taken_bytes(&self) -> u64 {
        self.taken
    }

    /// How many bytes the files have that this image refers to.
    pub fn held_bytes(&self) -> u64 {
        self.memories.iter().map(|memory| memory.size()).sum()
    }
}
