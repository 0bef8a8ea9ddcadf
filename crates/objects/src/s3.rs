//! Objects in a bucket of S3, or of whatever speaks its protocol and honours
//! `If-Match` and `If-None-Match` on writes.
//!
//! A blob is seen when its upload is completed, which is one step of the server.
//! Parts of an upload that broke off with its process are seen by nobody, but paid
//! for: a rule of the bucket should drop them after a day.

mod http;

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, Error, ObjectMeta, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions,
    RetryConfig, UpdateVersion, WriteMultipart,
};
use tokio::io::AsyncReadExt as _;

use crate::digest::Digest;
use crate::error::{ObjectsError, OpenError};
use crate::{BlobFacts, Expected, MOST_RECORD_BYTES, Version, spool};

/// Of an upload; S3 takes 10,000 of them and none below 5 MiB but the last.
const PART: usize = 8 << 20;
/// Parts on their way at once.
const AT_ONCE: usize = 3;

#[derive(Debug)]
pub(crate) struct S3 {
    bucket: AmazonS3,
    prefix: String,
}

impl S3 {
    pub(crate) fn open(
        bucket: &str,
        prefix: &str,
        settings: Option<&Path>,
    ) -> Result<Self, OpenError> {
        let mut builder = AmazonS3Builder::from_env();
        for (key, value) in settings.map(read_settings).transpose()?.unwrap_or_default() {
            builder = builder.with_config(key, value);
        }
        // An endpoint says itself whether it wants TLS.
        let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
        if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
            builder = builder.with_allow_http(true);
        }
        let retry = RetryConfig {
            backoff: BackoffConfig {
                max_backoff: Duration::from_secs(2),
                ..BackoffConfig::default()
            },
            max_retries: 4,
            retry_timeout: Duration::from_secs(60),
        };
        let bucket = builder
            .with_bucket_name(bucket)
            .with_retry(retry)
            .with_http_connector(http::Connector::new()?)
            .build();
        let bucket = bucket.map_err(|error| OpenError::S3(Box::new(error)))?;
        Ok(Self { bucket, prefix: prefix.to_owned() })
    }

    fn key(&self, name: &str) -> Key {
        Key::from(format!("{}/{name}", self.prefix))
    }

    fn blob(&self, digest: &Digest) -> Key {
        self.key(&format!("blobs/{digest}"))
    }

    fn record(&self, name: &str) -> Key {
        self.key(&format!("records/{name}"))
    }

    pub(crate) async fn put_blob(
        &self,
        content: File,
        digest: &Digest,
    ) -> Result<(), ObjectsError> {
        let key = self.blob(digest);
        let mut content = tokio::fs::File::from_std(content);
        let first = part(&mut content).await?;
        if first.len() < PART {
            return self.bucket.put(&key, first.into()).await.map(drop).map_err(on("write", &key));
        }
        let upload = self.bucket.put_multipart(&key).await.map_err(on("write", &key))?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART);
        let mut next = first;
        while !next.is_empty() {
            if let Err(error) = upload.wait_for_capacity(AT_ONCE).await {
                let _ = upload.abort().await;
                return Err(on("write", &key)(error));
            }
            upload.put(next);
            next = match part(&mut content).await {
                Ok(next) => next,
                Err(error) => {
                    let _ = upload.abort().await;
                    return Err(error);
                }
            };
        }
        // Aborts by itself where it fails.
        upload.finish().await.map(drop).map_err(on("write", &key))
    }

    pub(crate) async fn get_blob(
        &self,
        digest: &Digest,
        scratch: &Path,
    ) -> Result<(File, Digest), ObjectsError> {
        let key = self.blob(digest);
        match self.bucket.get(&key).await {
            Ok(found) => spool::receive_stream(scratch, found.into_stream(), &key).await,
            Err(Error::NotFound { .. }) => Err(ObjectsError::NoBlob(*digest)),
            Err(error) => Err(on("read", &key)(error)),
        }
    }

    pub(crate) async fn find_blob(
        &self,
        digest: &Digest,
    ) -> Result<Option<BlobFacts>, ObjectsError> {
        let key = self.blob(digest);
        match self.bucket.head(&key).await {
            Ok(about) => Ok(Some(facts(*digest, &about))),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(on("look at", &key)(error)),
        }
    }

    pub(crate) async fn list_blobs(&self) -> Result<Vec<BlobFacts>, ObjectsError> {
        let key = self.key("blobs");
        let listed = self.bucket.list(Some(&key)).try_filter_map(async |about| {
            let digest = about.location.filename().and_then(|name| name.parse().ok());
            Ok(digest.map(|digest| facts(digest, &about)))
        });
        listed.try_collect().await.map_err(on("list", &key))
    }

    pub(crate) async fn delete_blob(&self, digest: &Digest) -> Result<(), ObjectsError> {
        self.delete(&self.blob(digest)).await
    }

    pub(crate) async fn put_record(
        &self,
        name: &str,
        content: Vec<u8>,
        expected: &Expected,
    ) -> Result<Version, ObjectsError> {
        let key = self.record(name);
        let mode = match expected {
            Expected::Absent => PutMode::Create,
            Expected::Is(version) => {
                PutMode::Update(UpdateVersion { e_tag: Some(version.0.clone()), version: None })
            }
        };
        let options = PutOptions { mode, ..PutOptions::default() };
        match self.bucket.put_opts(&key, content.into(), options).await {
            Ok(put) => named(put.e_tag, &key),
            Err(
                Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotFound { .. },
            ) => Err(ObjectsError::Conflict(name.to_owned())),
            Err(error) => Err(on("write", &key)(error)),
        }
    }

    pub(crate) async fn get_record(
        &self,
        name: &str,
    ) -> Result<Option<(Vec<u8>, Version)>, ObjectsError> {
        let key = self.record(name);
        let found = match self.bucket.get(&key).await {
            Ok(found) => found,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(on("read", &key)(error)),
        };
        if found.meta.size > MOST_RECORD_BYTES as u64 {
            return Err(ObjectsError::TooLong(name.to_owned()));
        }
        let version = named(found.meta.e_tag.clone(), &key)?;
        let content = found.bytes().await.map_err(on("read", &key))?;
        Ok(Some((content.into(), version)))
    }

    pub(crate) async fn list_records(
        &self,
        prefix: &str,
    ) -> Result<Vec<(String, Version)>, ObjectsError> {
        let (key, above) = (self.record(prefix), self.key("records"));
        let mut listed = self.bucket.list(Some(&key));
        let mut found = Vec::new();
        while let Some(about) = listed.next().await {
            let about = about.map_err(on("list", &key))?;
            let Some(parts) = about.location.prefix_match(&above) else { continue };
            let parts: Vec<_> = parts.map(|part| part.as_ref().to_owned()).collect();
            found.push((parts.join("/"), named(about.e_tag, &key)?));
        }
        Ok(found)
    }

    pub(crate) async fn delete_record(&self, name: &str) -> Result<(), ObjectsError> {
        self.delete(&self.record(name)).await
    }

    async fn delete(&self, key: &Key) -> Result<(), ObjectsError> {
        match self.bucket.delete(key).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(on("remove", key)(error)),
        }
    }
}

/// The next part of a file; shorter only at its end.
async fn part(content: &mut tokio::fs::File) -> Result<Bytes, ObjectsError> {
    let mut part = Vec::with_capacity(PART);
    let read = content.take(PART as u64).read_to_end(&mut part).await;
    read.map_err(ObjectsError::Broken)?;
    Ok(part.into())
}

fn facts(digest: Digest, about: &ObjectMeta) -> BlobFacts {
    BlobFacts { digest, bytes: about.size, modified: SystemTime::from(about.last_modified) }
}

fn named(tag: Option<String>, key: &Key) -> Result<Version, ObjectsError> {
    let untagged = || {
        let source = io::Error::other("the server named no version of it");
        ObjectsError::Bucket {
            action: "tell versions of",
            name: key.to_string(),
            source: Box::new(Error::Generic { store: "S3", source: source.into() }),
        }
    };
    tag.map(Version).ok_or_else(untagged)
}

fn on(action: &'static str, key: &Key) -> impl FnOnce(Error) -> ObjectsError {
    let name = key.to_string();
    move |source| ObjectsError::Bucket { action, name, source: Box::new(source) }
}

/// Lines like `AWS_ENDPOINT_URL=...`, empty ones and `#` comments.
fn read_settings(path: &Path) -> Result<Vec<(AmazonS3ConfigKey, String)>, OpenError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| OpenError::Settings { path: path.to_owned(), source })?;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = || OpenError::Line { path: path.to_owned(), line: number + 1 };
        let (name, value) = line.split_once('=').ok_or_else(wrong)?;
        let name = name.trim().to_ascii_lowercase();
        let key = name.starts_with("aws_").then(|| name.parse().ok()).flatten();
        found.push((key.ok_or_else(wrong)?, value.trim().to_owned()));
    }
    Ok(found)
}
