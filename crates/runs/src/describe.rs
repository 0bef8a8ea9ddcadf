//! Describes files that a tenant uploaded, without their rows.

use std::thread;

use belljar_dataset::Description;
use belljar_dataset::worker::{WorkerError, describe_sealed};
use belljar_objects::{Digest, Expected, Objects, ObjectsError};
use tokio::task::JoinError;

use crate::Runs;
use crate::data::{Belongings, KeptError, description_record};

/// The name of the file in its description. It has none until a run gives it one.
const NAME: &str = "data";

/// Why a file is not described.
#[derive(Debug, thiserror::Error)]
pub enum DescribeError {
    #[error("you have no data {0}")]
    NoData(Digest),
    /// It is no data file, or a damaged one.
    #[error("the file cannot be described: {0}")]
    Refused(WorkerError),
    #[error("this server does not describe files")]
    NoReader,
    #[error("cannot read the file in a process of its own")]
    Reader(#[source] WorkerError),
    #[error("the description task panicked")]
    Panicked(#[source] JoinError),
    #[error(transparent)]
    Kept(#[from] KeptError),
}

impl From<ObjectsError> for DescribeError {
    fn from(error: ObjectsError) -> Self {
        KeptError::from(error).into()
    }
}

impl From<WorkerError> for DescribeError {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Refused { .. } | WorkerError::Died(_) | WorkerError::Answer(_) => {
                Self::Refused(error)
            }
            WorkerError::TooMany(_) | WorkerError::Start(_) | WorkerError::Hand(_) => {
                Self::Reader(error)
            }
        }
    }
}

impl Runs {
    /// Describes a file of a tenant's. The file is read once: its description is kept, too.
    pub async fn describe(
        &self,
        tenant: &str,
        sha256: &Digest,
    ) -> Result<Description, DescribeError> {
        let Belongings { files, plans } = self.data().of(tenant)?;
        if files.find_blob(sha256).await?.is_none() {
            return Err(DescribeError::NoData(*sha256));
        }
        let record = description_record(sha256);
        if let Some((known, _)) = plans.get_record(&record).await?
            && let Ok(description) = serde_json::from_slice(&known)
        {
            return Ok(description);
        }
        let describer = self.0.parts.describer.clone().ok_or(DescribeError::NoReader)?;
        let permit = self.0.reading.clone().acquire_owned().await;
        let file = match files.get_blob(sha256).await {
            Err(ObjectsError::NoBlob(_)) => return Err(DescribeError::NoData(*sha256)),
            file => file?,
        };
        let described = tokio::task::spawn_blocking(move || {
            // The client may have left: the process takes a core until it ends.
            let _permit = permit;
            let threads = thread::available_parallelism().map_or(1, Into::into);
            describe_sealed(&describer, &[(NAME.to_owned(), file)], threads, |_| {})
        });
        let description = described.await.map_err(DescribeError::Panicked)??;
        keep(&plans, &record, &description).await;
        Ok(description)
    }
}

/// Keeps a description. If it is not kept, the file is read again for the next request.
async fn keep(plans: &Objects, record: &str, description: &Description) {
    let Ok(text) = serde_json::to_vec(description) else { return };
    match plans.put_record(record, text, &Expected::Absent).await {
        // Another request has kept it meanwhile, or it is longer than a record may be.
        Ok(_) | Err(ObjectsError::Conflict(_) | ObjectsError::TooLong(_)) => {}
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot keep the description of a file");
        }
    }
}
