//! Files that tenants brought for their runs.
//!
//! Every tenant has a place of its own, in which a file's name is its digest. So what
//! somebody may use is what lies there: nothing is shared with other tenants, and how
//! long an upload takes tells nobody what others have.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use belljar_agent::{DataError, Depot, Item};
use belljar_dataset::VERSION;
use belljar_domain::data::{PLANNED, UPLOADED};
use belljar_objects::{BlobFacts, Digest, Objects, ObjectsError, OpenError, Place};
use futures_util::future::BoxFuture;
use tempfile::NamedTempFile;
use time::OffsetDateTime;
use tokio::io::{AsyncRead, ReadBuf};

/// How much a tenant may bring.
#[derive(Debug, Clone, Copy)]
pub struct DataLimits {
    pub file_bytes: u64,
    /// Of all files of a tenant together.
    pub tenant_bytes: u64,
    pub files: usize,
    /// Uploads of one tenant at the same time, to this process.
    pub uploads: usize,
}

impl Default for DataLimits {
    fn default() -> Self {
        Self { file_bytes: 1 << 30, tenant_bytes: 10 << 30, files: 1000, uploads: 4 }
    }
}

/// Where data is kept; cheap to clone.
#[derive(Debug, Clone)]
pub struct Data {
    place: Place,
    scratch: PathBuf,
    limits: DataLimits,
    /// How many uploads each tenant has going.
    uploading: Arc<Mutex<HashMap<String, usize>>>,
}

/// A file that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub sha256: Digest,
    pub bytes: u64,
    pub kept_at: OffsetDateTime,
}

/// Why what is kept cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    #[error("cannot open the place of data")]
    Open(#[from] OpenError),
    #[error("cannot use the place of data")]
    Objects(#[from] ObjectsError),
}

/// Why a file was not kept.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    #[error("the file is longer than {0} bytes")]
    TooLong(u64),
    #[error("all your files together would be more than {0} bytes")]
    Quota(u64),
    #[error("you have {0} files already")]
    TooMany(usize),
    #[error("{0} of your uploads are under way already")]
    TooManyUploads(usize),
    #[error("the file did not arrive as a whole")]
    BrokeOff(#[source] io::Error),
    #[error(transparent)]
    Kept(#[from] KeptError),
}

/// What one tenant has.
#[derive(Debug)]
pub(crate) struct Belongings {
    pub(crate) files: Objects,
    /// What was said of them, and made of them to fit, for runs. Nobody asked for that
    /// to be kept, so it is not listed, nor counted.
    pub(crate) plans: Objects,
}

impl Data {
    /// Files on their way are spooled to `scratch`.
    pub fn new(place: Place, scratch: PathBuf, limits: DataLimits) -> Self {
        Self { place, scratch, limits, uploading: Arc::default() }
    }

    pub fn limits(&self) -> &DataLimits {
        &self.limits
    }

    pub(crate) fn of(&self, tenant: &str) -> Result<Belongings, KeptError> {
        let place = self.place.of_tenant(tenant);
        let open = |part: &str| Objects::open(&place.below(part), &self.scratch);
        Ok(Belongings { files: open(UPLOADED)?, plans: open(PLANNED)? })
    }

    /// Keeps a file; the same one again is one file.
    pub async fn put(
        &self,
        tenant: &str,
        content: impl AsyncRead + Send + Unpin,
    ) -> Result<Kept, PutError> {
        let _uploading = Uploading::begin(self, tenant)?;
        let files = self.of(tenant)?.files;
        let before = files.list_blobs().await.map_err(KeptError::from)?;
        if before.len() >= self.limits.files {
            return Err(PutError::TooMany(self.limits.files));
        }
        let room = self.limits.tenant_bytes.saturating_sub(total(&before));
        let most = self.limits.file_bytes.min(room);
        let content = Bounded { content, left: most };
        let put = files.put_blob(content).await.map_err(|error| match error {
            ObjectsError::Broken(error) if is_too_long(&error) && most < self.limits.file_bytes => {
                PutError::Quota(self.limits.tenant_bytes)
            }
            ObjectsError::Broken(error) if is_too_long(&error) => PutError::TooLong(most),
            ObjectsError::Broken(error) => PutError::BrokeOff(error),
            error => KeptError::from(error).into(),
        })?;
        // Others may have come meanwhile: who does not fit any more goes.
        let now = files.list_blobs().await.map_err(KeptError::from)?;
        let is_new = !before.iter().any(|blob| blob.digest == put);
        if is_new && total(&now) > self.limits.tenant_bytes {
            files.delete_blob(&put).await.map_err(KeptError::from)?;
            return Err(PutError::Quota(self.limits.tenant_bytes));
        }
        let found = now.iter().find(|blob| blob.digest == put).map(kept);
        found.ok_or_else(|| KeptError::from(ObjectsError::NoBlob(put)).into())
    }

    /// Opens a file; none: the tenant has no such one.
    pub async fn open(&self, tenant: &str, sha256: &Digest) -> Result<Option<File>, KeptError> {
        let files = self.of(tenant)?.files;
        match files.find_blob(sha256).await? {
            Some(_) => Ok(Some(files.get_blob(sha256).await?)),
            None => Ok(None),
        }
    }

    /// All that a tenant has, newest first.
    pub async fn list(&self, tenant: &str) -> Result<Vec<Kept>, KeptError> {
        let mut all: Vec<_> = self.of(tenant)?.files.list_blobs().await?.iter().map(kept).collect();
        all.sort_by_key(|file| (std::cmp::Reverse(file.kept_at), file.sha256));
        Ok(all)
    }

    /// Removes a file; answers whether there was one. Runs that have still to read it
    /// fail.
    pub async fn delete(&self, tenant: &str, sha256: &Digest) -> Result<bool, KeptError> {
        let Belongings { files, plans } = self.of(tenant)?;
        let is_there = files.find_blob(sha256).await?.is_some();
        files.delete_blob(sha256).await?;
        plans.delete_record(&description_record(sha256)).await?;
        Ok(is_there)
    }
}

/// The record among a tenant's plans that has the description of a file.
pub(crate) fn description_record(sha256: &Digest) -> String {
    format!("descriptions/{VERSION}/{sha256}")
}

fn total(blobs: &[BlobFacts]) -> u64 {
    blobs.iter().fold(0, |sum: u64, blob| sum.saturating_add(blob.bytes))
}

fn kept(blob: &BlobFacts) -> Kept {
    Kept { sha256: blob.digest, bytes: blob.bytes, kept_at: blob.modified.into() }
}

impl Depot for Belongings {
    fn open<'a>(&'a self, item: &'a Item) -> BoxFuture<'a, Result<File, DataError>> {
        Box::pin(async move {
            match self.files.open(item).await {
                Err(DataError::Changed(_)) => self.plans.open(item).await,
                found => found,
            }
        })
    }

    fn fresh(&self, name: &str) -> Result<NamedTempFile, DataError> {
        self.plans.fresh(name)
    }

    fn take<'a>(
        &'a self,
        name: &'a str,
        fresh: NamedTempFile,
    ) -> BoxFuture<'a, Result<Item, DataError>> {
        self.plans.take(name, fresh)
    }
}

/// One upload of a tenant, counted for as long as it lasts.
struct Uploading<'d> {
    data: &'d Data,
    tenant: String,
}

impl<'d> Uploading<'d> {
    fn begin(data: &'d Data, tenant: &str) -> Result<Self, PutError> {
        let mut all = data.uploading.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(tenant.to_owned()).or_default();
        if *count >= data.limits.uploads {
            return Err(PutError::TooManyUploads(data.limits.uploads));
        }
        *count += 1;
        Ok(Self { data, tenant: tenant.to_owned() })
    }
}

impl Drop for Uploading<'_> {
    fn drop(&mut self) {
        let mut all = self.data.uploading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.tenant);
            }
        }
    }
}

/// Fails when there is more than so much.
struct Bounded<R> {
    content: R,
    left: u64,
}

fn is_too_long(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::FileTooLarge
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.content).poll_read(cx, buffer))?;
        let read = (buffer.filled().len() - before) as u64;
        let Some(left) = this.left.checked_sub(read) else {
            return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
        };
        this.left = left;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use belljar_agent::{Plan, Room};
    use belljar_journal::event::Brought;

    use super::*;

    fn data(directory: &std::path::Path, limits: DataLimits) -> Data {
        let place = Place::Directory(directory.join("objects"));
        Data::new(place, directory.join("scratch"), limits)
    }

    #[tokio::test]
    async fn a_file_is_its_tenants_alone() {
        let directory = tempfile::tempdir().unwrap();
        let data = data(directory.path(), DataLimits::default());
        let put = data.put("one", &b"x\n1\n"[..]).await.unwrap();
        assert_eq!((put.sha256, put.bytes), (Digest::of(b"x\n1\n"), 4));
        assert_eq!(data.put("one", &b"x\n1\n"[..]).await.unwrap().sha256, put.sha256);
        assert_eq!(data.list("one").await.unwrap().len(), 1);
        assert_eq!(data.list("../one").await.unwrap(), []);
        let item = Item { name: "a.csv".into(), fingerprint: put.sha256, bytes: 4 };
        assert!(data.of("one").unwrap().open(&item).await.is_ok());
        assert!(data.of("two").unwrap().open(&item).await.is_err());
        assert!(!data.delete("two", &put.sha256).await.unwrap());
        assert!(data.delete("one", &put.sha256).await.unwrap());
        assert_eq!(data.list("one").await.unwrap(), []);
    }

    #[tokio::test]
    async fn what_is_made_of_a_file_to_fit_is_its_tenants_and_not_listed() {
        let directory = tempfile::tempdir().unwrap();
        let data = data(directory.path(), DataLimits::default());
        let lines: String = (0..40_000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
        let put = data.put("one", lines.as_bytes()).await.unwrap();
        let item = Item::new("n.jsonl", put.sha256, put.bytes).unwrap();
        let (memory_bytes, disk_bytes) = (2 << 20, 64 << 10);
        let room = Room { memory_bytes, disk_bytes, data: Brought::Copied };
        let belongings = data.of("one").unwrap();
        let plan = Plan::new(vec![item], room, None, &belongings).await.unwrap();
        let sample = plan.items().next().unwrap();
        assert_eq!(sample.name, "n.sample.jsonl");
        // By whoever works on the run, which may be another process.
        let file = data.of("one").unwrap().open(sample).await.unwrap();
        let text = io::read_to_string(file).unwrap();
        assert_eq!(
            (text.len() as u64, Digest::of(text.as_bytes())),
            (sample.bytes, sample.fingerprint)
        );
        assert!(text.lines().count() > 100 && text.lines().all(|line| lines.contains(line)));
        assert!(data.of("two").unwrap().open(sample).await.is_err());
        assert_eq!(data.list("one").await.unwrap(), [put]);
    }

    #[tokio::test]
    async fn more_than_a_tenant_may_have_is_not_kept() {
        let directory = tempfile::tempdir().unwrap();
        let limits = DataLimits { file_bytes: 6, tenant_bytes: 10, files: 3, uploads: 4 };
        let data = data(directory.path(), limits);
        assert!(matches!(data.put("one", &b"1234567"[..]).await, Err(PutError::TooLong(6))));
        data.put("one", &b"123456"[..]).await.unwrap();
        assert!(matches!(data.put("one", &b"12345"[..]).await, Err(PutError::Quota(10))));
        data.put("one", &b"1234"[..]).await.unwrap();
        data.put("one", &b""[..]).await.unwrap();
        assert!(matches!(data.put("one", &b""[..]).await, Err(PutError::TooMany(3))));
        data.put("two", &b"123456"[..]).await.unwrap();
        let held: Vec<_> = (0..4).map(|_| Uploading::begin(&data, "one").unwrap()).collect();
        assert!(matches!(data.put("one", &b""[..]).await, Err(PutError::TooManyUploads(4))));
        drop(held);
        assert!(data.uploading.lock().unwrap().is_empty());
    }
}
