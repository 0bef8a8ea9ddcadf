//! What can go wrong with files.

use std::io;
use std::path::{Path, PathBuf};

use belljar_domain::Sequence;

use crate::error::{Failure, ReadError};

#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("cannot {attempt} `{}`", path.display())]
    Io { attempt: &'static str, path: PathBuf, source: io::Error },
    #[error("`{}` cannot be understood", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
    #[error("an event cannot be written as JSON")]
    Unwritable { source: serde_json::Error },
    #[error("event {0} was damaged")]
    Damaged(Sequence),
}

pub(super) fn at<'a>(
    attempt: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> Trouble + 'a {
    move |source| Trouble::Io { attempt, path: path.to_owned(), source }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        Self::new(trouble)
    }
}

impl From<Trouble> for ReadError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Damaged(seq) => Self::Damaged(seq),
            trouble => Self::Failed(trouble.into()),
        }
    }
}

/// For the operations that say no more than that it failed.
macro_rules! fails {
    ($($error:ty),*) => {
        $(impl From<Trouble> for $error {
            fn from(trouble: Trouble) -> Self {
                Self::Failed(trouble.into())
            }
        })*
    };
}

fails!(
    crate::error::AppendError,
    crate::error::BlobError,
    crate::error::ClaimError,
    crate::error::CreateError,
    crate::error::LeaseError,
    crate::error::RequestError
);
