//! The log of a server's webhooks: lines of JSON.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::shelf::{DeliveryRecord, Webhook};
use crate::sign::Secret;

/// A webhook with its secrets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredWebhook {
    pub(super) webhook: Webhook,
    pub(super) secret: Secret,
    #[serde(default)]
    pub(super) previous: Option<PreviousSecret>,
}

/// A secret that was replaced and is still valid.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PreviousSecret {
    pub(super) secret: Secret,
    #[serde(with = "time::serde::rfc3339")]
    pub(super) until: OffsetDateTime,
}

/// A message to one webhook.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredDelivery {
    pub(super) number: u64,
    pub(super) webhook: String,
    pub(super) record: DeliveryRecord,
    pub(super) body: String,
    /// The end, if it is over.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub(super) ended_at: Option<OffsetDateTime>,
}

/// A line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    Webhook(StoredWebhook),
    Removed(String),
    Delivery(StoredDelivery),
}

#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    lines: usize,
}

impl Log {
    /// Reads all lines up to the first that is torn, and the time of the last write.
    pub(super) fn read(root: &Path) -> io::Result<(Vec<Line>, Option<OffsetDateTime>)> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        let path = path(root);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), None)),
            Err(error) => return Err(error),
        };
        let written = fs::metadata(&path)?.modified()?;
        let mut lines = Vec::new();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            // The last write was cut off: it was not acknowledged.
            if !line.ends_with(b"\n") {
                break;
            }
            let read = serde_json::from_slice(line);
            lines.push(read.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?);
        }
        Ok((lines, Some(written.into())))
    }

    /// Replaces the log by these lines, in one step.
    pub(super) fn write_anew(root: &Path, lines: &[Line]) -> io::Result<Self> {
        let mut fresh = tempfile::NamedTempFile::new_in(root)?;
        fresh.write_all(&text(lines)?)?;
        fresh.as_file().sync_all()?;
        let path = path(root);
        fresh.persist(&path).map_err(|error| error.error)?;
        File::open(root)?.sync_all()?;
        let file = OpenOptions::new().append(true).open(&path)?;
        Ok(Self { path, file, lines: lines.len() })
    }

    pub(super) fn append(&mut self, lines: &[Line]) -> io::Result<()> {
        self.file.write_all(&text(lines)?)?;
        self.lines += lines.len();
        self.file.sync_data()
    }

    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    pub(super) fn root(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }
}

fn path(root: &Path) -> PathBuf {
    root.join("webhooks.jsonl")
}

fn text(lines: &[Line]) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
    }
    Ok(text)
}
