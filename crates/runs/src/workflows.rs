//! The data of runs, as the files that steps of workflows pass on.

use std::io::Read as _;
use std::time::Duration;

use belljar_workflow::{FileError, FileStore, MAX_FILE_BYTES};
use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::data::{Data, PutError};

/// Attempts while other uploads of the tenant are under way, and the time between two.
const PUT_ATTEMPTS: u32 = 100;
const PUT_PAUSE: Duration = Duration::from_millis(100);

/// Files of workflows: those that the tenant uploaded, and those that steps made.
#[derive(Debug, Clone)]
pub struct WorkflowFiles(Data);

impl WorkflowFiles {
    pub fn new(data: Data) -> Self {
        Self(data)
    }

    async fn keep(&self, tenant: &str, content: &Bytes) -> Result<String, PutError> {
        let mut attempts = 1;
        loop {
            match self.0.put(tenant, &content[..]).await {
                Ok(kept) => return Ok(kept.sha256.to_string()),
                Err(PutError::TooManyUploads(_)) if attempts < PUT_ATTEMPTS => attempts += 1,
                Err(error) => return Err(error),
            }
            tokio::time::sleep(PUT_PAUSE).await;
        }
    }

    async fn read(&self, tenant: &str, sha256: &str) -> Result<Bytes, String> {
        let digest = sha256.parse().map_err(|_| format!("`{sha256}` is not a SHA-256"))?;
        let opened = self.0.open(tenant, &digest).await;
        let file = opened.map_err(|error| error.to_string())?;
        let file = file.ok_or_else(|| format!("you have no data {sha256}"))?;
        let read = tokio::task::spawn_blocking(move || {
            let mut content = Vec::new();
            file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut content)?;
            Ok::<_, std::io::Error>(content)
        });
        let content = read.await.map_err(|error| error.to_string())?;
        let content = content.map_err(|error| error.to_string())?;
        match content.len() > MAX_FILE_BYTES {
            true => Err(format!("the file is longer than {MAX_FILE_BYTES} bytes")),
            false => Ok(content.into()),
        }
    }
}

impl FileStore for WorkflowFiles {
    fn put<'a>(
        &'a self,
        tenant: &'a str,
        content: Bytes,
    ) -> BoxFuture<'a, Result<String, FileError>> {
        Box::pin(async move {
            self.keep(tenant, &content).await.map_err(|error| FileError(error.to_string()))
        })
    }

    fn get<'a>(
        &'a self,
        tenant: &'a str,
        sha256: &'a str,
    ) -> BoxFuture<'a, Result<Bytes, FileError>> {
        Box::pin(async move { self.read(tenant, sha256).await.map_err(FileError) })
    }
}
