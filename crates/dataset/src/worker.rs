//! Describing in a process of its own that can reach nothing else.
//!
//! ```text
//!   whoever asks                            worker: the same executable again
//!     │  names; open files (SCM_RIGHTS)        │
//!     ├───────── socket, descriptor 0 ────────►│ takes them, seals itself, and only
//!     │                                        │ then looks at the first byte
//!     │◄──────── pipe, descriptor 1 ───────────┤ lines of JSON: progress, the answer
//! ```
//!
//! The worker is believed only so far as its answer parses and is not endless.

mod answer;
mod ask;
mod sorted;

pub use answer::hook;
pub use ask::{WorkerError, describe_sealed};
pub use sorted::{Sorted, describe_those_that_can_be};

use serde::{Deserialize, Serialize};

use crate::describe::Description;
use crate::read::ReadError;

/// The worker's own name, by which the executable knows what it is.
pub const PROCESS: &str = "belljar-describe";

/// How many files fit into one request: the kernel passes at most 253.
pub const MOST_FILES: usize = 128;

#[derive(Debug, Serialize, Deserialize)]
struct Request {
    names: Vec<String>,
    threads: usize,
}

/// The kind of reason for which a file is not described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// There is nothing in it, or nothing but a header.
    Empty,
    /// It cannot be unpacked.
    Packed,
    /// An Excel file that is none, or an old one.
    Excel,
    Other,
}

impl From<&ReadError> for Refusal {
    fn from(error: &ReadError) -> Self {
        match error {
            ReadError::Empty { .. } | ReadError::HeaderOnly { .. } => Self::Empty,
            ReadError::Unpack { .. } => Self::Packed,
            ReadError::Excel { .. } => Self::Excel,
            ReadError::Foreign { what, .. } if what.contains("Excel") => Self::Excel,
            _ => Self::Other,
        }
    }
}

/// A line of the worker's.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// Bytes read so far, of all files and passes together.
    Passed(u64),
    Done(Box<Description>),
    Failed(Failure),
}

#[derive(Debug, Serialize, Deserialize)]
struct Failure {
    refusal: Refusal,
    what: String,
    causes: Vec<String>,
}
