//! The limit of open files: each request that waits for an answer is a descriptor or two.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises this process's limit as far as it may. Processes that are started inherit it.
pub(crate) fn raise_limit() {
    let mut limits = getrlimit(Resource::Nofile);
    limits.current = limits.maximum;
    let _ = setrlimit(Resource::Nofile, limits);
}
