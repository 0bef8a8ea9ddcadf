//! What can go wrong, by operation.

use std::error::Error;

use belljar_domain::{Generation, Sequence};
use belljar_objects::Digest;

/// The place where events are kept did not do what it was asked. Whether the
/// change was made is not known; it may be asked for again under the same key.
#[derive(Debug, thiserror::Error)]
#[error("the journal did not do what it was asked")]
pub struct Failure(#[source] Box<dyn Error + Send + Sync>);

impl Failure {
    pub fn new(cause: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(cause))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("there is no such event of such a run to fork from")]
    NoParent,
    /// Somebody else's, so not even that may be said.
    #[error("the id cannot be used")]
    Taken,
    #[error("there is no such tenant")]
    NoTenant,
    #[error("the tenant has {unfinished} unfinished runs; {most} are allowed")]
    TooManyUnfinished { most: u64, unfinished: u64 },
    #[error("the first event is longer than is kept")]
    TooLarge,
    #[error(transparent)]
    Failed(#[from] Failure),
}

#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error("there is no such run")]
    NoRun,
    #[error("the run is over")]
    Finished,
    #[error("`{owner}` has the run")]
    Held { owner: String },
    #[error("the run was worked on by a newer version, and only such a one can go on")]
    Newer,
    #[error(transparent)]
    Failed(#[from] Failure),
}

#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Stop, and touch nothing that belongs to the run.
    #[error("another worker has the run, as generation {current}")]
    Fenced { current: Generation },
    #[error("there is no such run")]
    NoRun,
    #[error(transparent)]
    Failed(#[from] Failure),
}

#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Stop, and touch nothing that belongs to the run.
    #[error("another worker has the run, as generation {current}")]
    Fenced { current: Generation },
    #[error("there is no such run")]
    NoRun,
    #[error("the run is over")]
    Finished,
    /// Read on from there, and decide anew.
    #[error("the run has gone on to event {head} since the writer looked")]
    Unseen { head: Sequence },
    #[error("`{0}` can only be written by who has seen everything before it")]
    Blind(String),
    #[error("`{0}` is not for the holder of a lease to write")]
    NotYours(String),
    #[error("the event is longer than is kept")]
    TooLarge,
    #[error(transparent)]
    Failed(#[from] Failure),
}

#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("there is no such run")]
    NoRun,
    #[error("the run is over")]
    Finished,
    #[error("the request is longer than is kept")]
    TooLarge,
    #[error(transparent)]
    Failed(#[from] Failure),
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("there is no such run")]
    NoRun,
    #[error("event {0} was damaged")]
    Damaged(Sequence),
    #[error(transparent)]
    Failed(#[from] Failure),
}

#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error("there is no such run")]
    NoRun,
    #[error("the run has no blob {0}")]
    NoBlob(Digest),
    #[error("the blob {0} was damaged")]
    Damaged(Digest),
    #[error("the blob is longer than is kept")]
    TooLarge,
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// A blob that is written with an event fails as the event does.
impl From<BlobError> for AppendError {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::NoRun => Self::NoRun,
            BlobError::TooLarge => Self::TooLarge,
            BlobError::Failed(failure) => Self::Failed(failure),
            error @ (BlobError::NoBlob(_) | BlobError::Damaged(_)) => Failure::new(error).into(),
        }
    }
}
