//! Why a step failed.

use std::io;

use serde::{Deserialize, Serialize};

/// Why a sandbox did not start: the step and the kernel's answer. It crosses
/// two process boundaries, so it is plain data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub doing: String,
    pub errno: i32,
}

impl Failure {
    pub fn new(doing: impl Into<String>, error: &io::Error) -> Self {
        const EINVAL: i32 = 22;
        Self { doing: doing.into(), errno: error.raw_os_error().unwrap_or(EINVAL) }
    }
}

/// Says what was attempted when it fails.
pub trait Attempt<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, Failure>;
}

impl<T> Attempt<T> for io::Result<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(what, &error))
    }
}

impl<T> Attempt<T> for rustix::io::Result<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|errno| Failure::new(what, &errno.into()))
    }
}
