//! Why a process was not copied.

use std::io;

/// Why a process was not copied, in words for whoever asked for it.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("the process is gone")]
    Gone,
    #[error("the process is busy: it does not wait for its next message")]
    Busy,
    /// It has been killed: it could neither be stopped nor be let go.
    #[error("the process did not stop in time, and was ended")]
    Stuck,
    #[error("the process has {0} threads; only a single thread can be copied")]
    Threads(usize),
    #[error("the process shares memory that it can write: {0}")]
    SharedMemory(String),
    #[error("the process has more open than its streams and its control socket: {}", .0.join(", "))]
    Descriptors(Vec<String>),
    #[error("the process holds more than {limit} bytes of its own")]
    TooLarge { limit: u64 },
    #[error("the process has more than {limit} mappings")]
    TooManyMappings { limit: usize },
    #[error("the process has memory that cannot be read, at {address:#x}")]
    Unreadable { address: u64 },
    #[error("the waiting process cannot be given a stack as deep")]
    Stack,
    #[error("the two processes do not come from the same zygote: {0}")]
    Layout(String),
    #[error("the reference process has run since the image was made")]
    ReferenceRan,
    #[error("the process was not allowed to call {call}")]
    Call { call: &'static str, source: io::Error },
    #[error("cannot {doing}")]
    System { doing: &'static str, source: io::Error },
}

/// Gives an error of the system the name of what was attempted.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T, Refusal>;
}

const ESRCH: i32 = 3;

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, doing: &'static str) -> Result<T, Refusal> {
        self.map_err(|error| {
            let source = error.into();
            // Procfs and ptrace answer this for a process that has ended.
            if source.raw_os_error() == Some(ESRCH) {
                return Refusal::Gone;
            }
            Refusal::System { doing, source }
        })
    }
}
