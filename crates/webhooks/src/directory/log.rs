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
    /// Bytes up to the end of the last write that succeeded.
    length: u64,
    /// A write failed, and its remains could not be cut off.
    is_torn: bool,
}

impl Log {
    /// Reads all lines, and the time of the last write. The last line may be the remains of a write
    /// that was not acknowledged. Other lines that cannot be read are skipped and logged.
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
        let mut all = text.split_inclusive(|byte| *byte == b'\n').enumerate().peekable();
        while let Some((number, line)) = all.next() {
            let is_last = all.peek().is_none();
            match serde_json::from_slice(line) {
                Ok(read) if line.ends_with(b"\n") => lines.push(read),
                _ if is_last => tracing::info!("the last line of the log of webhooks was cut off"),
                // Every line but the last one ends.
                Ok(_) => {}
                Err(error) => tracing::error!(
                    path = %path.display(),
                    line = number + 1,
                    %error,
                    "skipped a damaged line of the log of webhooks"
                ),
            }
        }
        Ok((lines, Some(written.into())))
    }

    /// Replaces the log by these lines, in one step.
    pub(super) fn write_anew(root: &Path, lines: &[Line]) -> io::Result<Self> {
        let (log, synced) = Self::replace(root, lines)?;
        synced.map(|()| log)
    }

    /// The second result is that of the directory's write: by then, the new log is in its place.
    fn replace(root: &Path, lines: &[Line]) -> io::Result<(Self, io::Result<()>)> {
        let mut fresh = tempfile::NamedTempFile::new_in(root)?;
        fresh.write_all(&text(lines)?)?;
        fresh.as_file().sync_all()?;
        let file = OpenOptions::new().append(true).open(fresh.path())?;
        let length = file.metadata()?.len();
        let path = path(root);
        fresh.persist(&path).map_err(|error| error.error)?;
        let synced = File::open(root).and_then(|root| root.sync_all());
        Ok((Self { path, file, lines: lines.len(), length, is_torn: false }, synced))
    }

    /// Replaces this log by these lines.
    pub(super) fn rewrite(&mut self, lines: &[Line]) -> io::Result<()> {
        let root = self.path.parent().unwrap_or(Path::new("."));
        let (log, synced) = Self::replace(root, lines)?;
        *self = log;
        synced
    }

    /// Writes lines through to the disk, all or none of them.
    pub(super) fn append(&mut self, lines: &[Line]) -> io::Result<()> {
        let text = text(lines)?;
        if self.is_torn {
            self.file.set_len(self.length)?;
            self.is_torn = false;
        }
        let written = self.file.write_all(&text).and_then(|()| self.file.sync_data());
        if written.is_err() {
            self.is_torn = self.file.set_len(self.length).is_err();
            return written;
        }
        self.length += text.len() as u64;
        self.lines += lines.len();
        Ok(())
    }

    pub(super) fn lines(&self) -> usize {
        self.lines
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

#[cfg(test)]
mod tests {
    use super::*;

    fn removed(id: &str) -> Line {
        Line::Removed(id.to_owned())
    }

    fn read(root: &Path) -> Vec<String> {
        let (lines, _) = Log::read(root).unwrap();
        let id = |line| match line {
            Line::Removed(id) => id,
            other => panic!("{other:?}"),
        };
        lines.into_iter().map(id).collect()
    }

    /// The remains of a write that failed are cut off before the next write.
    #[test]
    fn a_partial_write_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let mut log = Log::write_anew(root.path(), &[removed("one")]).unwrap();
        // A full disk: a part of the line is written, and nothing can be changed after that.
        let mut file = OpenOptions::new().append(true).open(path(root.path())).unwrap();
        file.write_all(b"{\"removed\":\"tw").unwrap();
        let good = std::mem::replace(&mut log.file, File::open(path(root.path())).unwrap());
        assert!(log.append(&[removed("two")]).is_err());
        assert!(log.is_torn);
        assert_eq!(log.lines(), 1);
        log.file = good;
        log.append(&[removed("three")]).unwrap();
        assert_eq!(read(root.path()), ["one", "three"]);
    }

    #[test]
    fn damaged_lines_do_not_keep_a_server_from_starting() {
        let root = tempfile::tempdir().unwrap();
        let damaged: &[u8] =
            b"{\"removed\":\"a\"}\nno JSON\n\n{\"removed\":\"b\"}\n{\"removed\":\"c\"}";
        fs::write(path(root.path()), damaged).unwrap();
        assert_eq!(read(root.path()), ["a", "b"]);
        fs::write(path(root.path()), b"{\"removed\":\"a\"}\n\xff\xff\n").unwrap();
        assert_eq!(read(root.path()), ["a"]);
    }
}
