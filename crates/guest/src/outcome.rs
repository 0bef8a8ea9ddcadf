//! What requests answer.

use belljar_guest_proto::{Failure, Reply};
use rustix::io::Errno;

pub(crate) type Outcome = Result<Reply, Failure>;

/// Says what was attempted when the kernel refuses it.
pub(crate) trait Attempt<T> {
    fn doing(self, what: &str) -> Result<T, Failure>;
}

impl<T> Attempt<T> for Result<T, Errno> {
    fn doing(self, what: &str) -> Result<T, Failure> {
        self.map_err(|errno| Failure { doing: what.to_owned(), errno: errno.raw_os_error() })
    }
}

impl<T> Attempt<T> for std::io::Result<T> {
    fn doing(self, what: &str) -> Result<T, Failure> {
        self.map_err(|error| Failure {
            doing: what.to_owned(),
            errno: error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error()),
        })
    }
}

pub(crate) fn refuse<T>(what: &str, errno: Errno) -> Result<T, Failure> {
    Err(errno).doing(what)
}
