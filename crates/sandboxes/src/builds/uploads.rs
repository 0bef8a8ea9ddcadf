//! Archives that builds copy files from, as tenants sent them.
//!
//! ```text
//! <state>/uploads/<tenant>/<hash>    complete; the hash is the sender's word
//! ```
//!
//! An address to send one to is good once and for an hour. What is sent is
//! counted from its first byte, kept to the tenant's bound by dropping what was
//! used longest ago, and looked at only when a build takes it apart. Files are
//! counted beside their bytes: an empty one takes an inode, too. Only the server may
//! read them.

mod under_way;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use crate::keys::Tenant;
use crate::private;
use crate::problem::{Kind, Problem};
use crate::secret::{Secret, hex};
use under_way::{MAX_PARTIAL_FILES, Share, UnderWay};

/// How long an address is good for.
const GOOD_FOR: Duration = Duration::from_secs(3600);
/// Addresses that a tenant may have at once.
const MOST_ADDRESSES: usize = 200;
/// Finished uploads that are kept for a tenant, however small: those of many templates.
const MAX_KEPT_FILES: usize = 1000;
/// Bytes of an upload after which older ones make room for it.
const CHECKED_EVERY: u64 = 32 << 20;

#[derive(Debug)]
pub(super) struct Uploads {
    dir: PathBuf,
    expected: Mutex<HashMap<String, Expected>>,
    under_way: Arc<UnderWay>,
}

#[derive(Debug)]
struct Expected {
    tenant: Tenant,
    hash: String,
    until: Instant,
}

/// Where a tenant may send an archive.
#[derive(Debug)]
pub struct Slot {
    /// It is there already, and need not be sent again.
    pub present: bool,
    pub address: Secret,
}

/// An archive on its way. What is not finished is removed.
#[derive(Debug)]
pub struct Upload {
    file: tokio::fs::File,
    partial: PathBuf,
    target: PathBuf,
    left: u64,
    most: u64,
    /// What the tenant may have of all, finished or not.
    kept: u64,
    /// Bytes since the last look at what others take.
    unchecked: u64,
    share: Share,
}

impl Uploads {
    pub(super) fn open(state: &Path) -> io::Result<Self> {
        let dir = state.join("uploads");
        private::make_dir(&dir)?;
        for tenant in fs::read_dir(&dir)? {
            let tenant = tenant?.path();
            private::make_dir(&tenant)?;
            for file in fs::read_dir(tenant)? {
                let path = file?.path();
                if path.extension().is_some_and(|extension| extension == "new") {
                    fs::remove_file(path)?;
                }
            }
        }
        Ok(Self { dir, expected: Mutex::default(), under_way: Arc::default() })
    }

    fn path(&self, tenant: &Tenant, hash: &str) -> PathBuf {
        // A tenant's name may hold anything; its hash is a plain name.
        let tenant = hex(&Sha256::digest(tenant.as_str()));
        self.dir.join(&tenant[..32]).join(hash)
    }

    pub(super) fn slot(&self, tenant: &Tenant, hash: &str) -> Result<Slot, Problem> {
        if hash.len() != 64 || !hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(Problem::invalid("Invalid files hash"));
        }
        let present = self.find(tenant, hash).is_some();
        let mut expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        expected.retain(|_, expected| expected.until > Instant::now());
        if expected.values().filter(|other| other.tenant == *tenant).count() >= MOST_ADDRESSES {
            let message = format!("your quota of {MOST_ADDRESSES} waiting uploads is used up");
            return Err(Problem::new(Kind::TooMany, "too_many_uploads", message));
        }
        let token =
            Secret::random().map_err(|error| Problem::internal("generate an id", &error))?;
        let until = Instant::now() + GOOD_FOR;
        let entry = Expected { tenant: tenant.clone(), hash: hash.to_owned(), until };
        expected.insert(token.expose().to_owned(), entry);
        Ok(Slot { present, address: token })
    }

    /// Opens an archive that is there, and counts it as used now.
    pub(super) fn find(&self, tenant: &Tenant, hash: &str) -> Option<File> {
        let file = File::open(self.path(tenant, hash)).ok()?;
        let _ = file.set_modified(SystemTime::now());
        Some(file)
    }

    /// Begins to take what is sent to an address, which is used up by that.
    pub(super) async fn receive(
        &self,
        token: &str,
        most: u64,
        kept: u64,
    ) -> Result<Upload, Problem> {
        let expected = {
            let mut expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
            expected.remove(token).filter(|expected| expected.until > Instant::now())
        };
        let expected = expected.ok_or_else(|| {
            let message = "the upload link was used or has expired";
            Problem::new(Kind::NotFound, "upload_not_found", message)
        })?;
        let target = self.path(&expected.tenant, &expected.hash);
        let partial = target.with_extension(format!("{}.new", &token[..16.min(token.len())]));
        let cannot = |error: io::Error| Problem::internal("store an upload", &error);
        let directory = target.parent().unwrap_or(&target);
        let share = Share::begin(&self.under_way, directory).ok_or_else(|| {
            let message = format!("{MAX_PARTIAL_FILES} of your uploads are in progress");
            Problem::new(Kind::TooMany, "too_many_uploads", message)
                .hint("wait until one of them ends")
        })?;
        private::make_dir(directory).map_err(cannot)?;
        let mut options = tokio::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&partial).await;
        let file = file.map_err(cannot)?;
        Ok(Upload { file, partial, target, left: most, most, kept, unchecked: 0, share })
    }
}

impl Upload {
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let count = bytes.len() as u64;
        if count > self.left {
            let message = format!("an upload can have at most {} bytes", self.most);
            return Err(Problem::new(Kind::Invalid, "upload_too_large", message)
                .hint("exclude large files with .dockerignore"));
        }
        if !self.share.add(count, self.kept) {
            let message = format!("your uploads can have at most {} bytes in total", self.kept);
            return Err(Problem::new(Kind::TooMany, "too_many_uploads", message)
                .hint("upload them one after the other"));
        }
        self.left -= count;
        self.unchecked += count;
        if self.unchecked >= CHECKED_EVERY.min(self.kept / 4) {
            self.unchecked = 0;
            let held = self.share.of_tenant();
            let made = make_room(&self.partial, self.kept.saturating_sub(held));
            made.map_err(|error| Problem::internal("store an upload", &error))?;
        }
        let written = self.file.write_all(bytes).await;
        written.map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Problem::new(Kind::NoSpace, "no_space", "no disk space is left for the upload")
            }
            _ => Problem::internal("store an upload", &error),
        })
    }

    /// Keeps it, now that it is complete.
    pub async fn finish(mut self) -> Result<(), Problem> {
        let cannot = |error: io::Error| Problem::internal("store an upload", &error);
        self.file.flush().await.map_err(cannot)?;
        fs::rename(&self.partial, &self.target).map_err(cannot)?;
        let (target, kept) = (self.target.clone(), self.kept);
        let others = self.share.of_others();
        // It is no longer under way.
        drop(self);
        make_room(&target, kept.saturating_sub(others)).map_err(cannot)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // Gone already if it was finished.
        let _ = fs::remove_file(&self.partial);
    }
}

/// Drops finished uploads, those that were used longest ago first, until the rest has at
/// most so many bytes and files; never `newest`.
fn make_room(newest: &Path, most_bytes: u64) -> io::Result<()> {
    let directory = newest.parent().unwrap_or(newest);
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if path.extension().is_none() {
            let metadata = entry.metadata()?;
            files.push((metadata.modified()?, metadata.len(), path));
        }
    }
    files.sort();
    let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    let mut count = files.len();
    for (_, size, path) in files {
        if (bytes > most_bytes || count > MAX_KEPT_FILES) && path != newest {
            fs::remove_file(path)?;
            bytes -= size;
            count -= 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn address(uploads: &Uploads, tenant: &Tenant, hash: &str) -> String {
        let slot = uploads.slot(tenant, hash).unwrap();
        assert!(!slot.present);
        slot.address.expose().to_owned()
    }

    #[tokio::test]
    async fn an_address_is_good_once_and_for_its_tenant() {
        let dir = tempfile::tempdir().unwrap();
        let uploads = Uploads::open(dir.path()).unwrap();
        let (one, two) = (Tenant::new("one"), Tenant::new("../two"));
        assert!(uploads.slot(&one, "../../etc/passwd").is_err());
        let token = address(&uploads, &one, HASH);
        let mut upload = uploads.receive(&token, 10, 100).await.unwrap();
        upload.write(b"content").await.unwrap();
        assert!(upload.write(b"too long").await.is_err());
        upload.finish().await.unwrap();
        assert!(uploads.receive(&token, 10, 100).await.is_err());
        assert!(uploads.slot(&one, HASH).unwrap().present);
        assert!(uploads.find(&two, HASH).is_none());
    }

    #[tokio::test]
    async fn what_was_not_finished_is_gone_and_old_ones_make_room() {
        let dir = tempfile::tempdir().unwrap();
        let uploads = Uploads::open(dir.path()).unwrap();
        let tenant = Tenant::new("one");
        let token = address(&uploads, &tenant, HASH);
        drop(uploads.receive(&token, 10, 100).await.unwrap());
        assert!(uploads.find(&tenant, HASH).is_none());
        for first in ['1', '2', '3'] {
            let hash = format!("{first}{}", &HASH[1..]);
            let token = address(&uploads, &tenant, &hash);
            let mut upload = uploads.receive(&token, 10, 10).await.unwrap();
            upload.write(b"12345").await.unwrap();
            upload.finish().await.unwrap();
        }
        let there = |first: char| uploads.find(&tenant, &format!("{first}{}", &HASH[1..]));
        assert!(there('1').is_none());
        assert!(there('2').is_some() && there('3').is_some());
    }

    #[tokio::test]
    async fn what_is_under_way_counts_and_old_ones_make_room_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let uploads = Uploads::open(dir.path()).unwrap();
        let tenant = Tenant::new("one");
        let hash = |first: char| format!("{first}{}", &HASH[1..]);
        let begin = async |first| {
            let token = address(&uploads, &tenant, &hash(first));
            uploads.receive(&token, 100, 100).await.unwrap()
        };
        let mut old = begin('0').await;
        old.write(&[0; 60]).await.unwrap();
        old.finish().await.unwrap();
        let (mut one, mut two) = (begin('1').await, begin('2').await);
        one.write(&[1; 50]).await.unwrap();
        two.write(&[2; 50]).await.unwrap();
        assert!(uploads.find(&tenant, &hash('0')).is_none(), "nothing made room");
        let mut three = begin('3').await;
        let refused = three.write(&[3; 1]).await.unwrap_err();
        assert_eq!(refused.code, "too_many_uploads");
        // Another tenant has a bound of its own, and what is given up is free again.
        let other = Tenant::new("two");
        let token = address(&uploads, &other, HASH);
        uploads.receive(&token, 100, 100).await.unwrap().write(&[4; 100]).await.unwrap();
        drop(two);
        three.write(&[3; 50]).await.unwrap();
        three.finish().await.unwrap();
        one.finish().await.unwrap();
        assert!(uploads.under_way.is_empty());
    }

    #[tokio::test]
    async fn empty_ones_make_room_too() {
        let dir = tempfile::tempdir().unwrap();
        let uploads = Uploads::open(dir.path()).unwrap();
        let tenant = Tenant::new("one");
        let begin = async |hash: &str| {
            let token = address(&uploads, &tenant, hash);
            uploads.receive(&token, 10, 100).await.unwrap()
        };
        begin(HASH).await.finish().await.unwrap();
        let oldest = uploads.path(&tenant, HASH);
        let long_ago = SystemTime::now() - Duration::from_secs(60);
        File::open(&oldest).unwrap().set_modified(long_ago).unwrap();
        let directory = oldest.parent().unwrap();
        for number in 1..MAX_KEPT_FILES {
            File::create(directory.join(format!("{number:064x}"))).unwrap();
        }
        assert_eq!(fs::read_dir(directory).unwrap().count(), MAX_KEPT_FILES);
        let newest = format!("b{}", &HASH[1..]);
        begin(&newest).await.finish().await.unwrap();
        assert_eq!(fs::read_dir(directory).unwrap().count(), MAX_KEPT_FILES);
        assert!(uploads.find(&tenant, HASH).is_none(), "the oldest made no room");
        assert!(uploads.find(&tenant, &newest).is_some());
    }

    #[tokio::test]
    async fn empty_ones_count_while_they_are_under_way() {
        let dir = tempfile::tempdir().unwrap();
        let uploads = Uploads::open(dir.path()).unwrap();
        let (one, two) = (Tenant::new("one"), Tenant::new("two"));
        let begin = async |tenant: &Tenant| {
            let token = address(&uploads, tenant, HASH);
            uploads.receive(&token, 10, 100).await
        };
        let mut begun = Vec::new();
        for _ in 0..MAX_PARTIAL_FILES {
            begun.push(begin(&one).await.unwrap());
        }
        assert_eq!(begin(&one).await.unwrap_err().code, "too_many_uploads");
        // Another tenant has a bound of its own, and one that is given up is free again.
        begin(&two).await.unwrap();
        begun.pop();
        begin(&one).await.unwrap();
        drop(begun);
        assert!(uploads.under_way.is_empty());
    }

    #[tokio::test]
    async fn only_the_server_may_read_them() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let uploads = Uploads::open(dir.path()).unwrap();
        let tenant = Tenant::new("one");
        let token = address(&uploads, &tenant, HASH);
        let mut upload = uploads.receive(&token, 10, 100).await.unwrap();
        upload.write(b"content").await.unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&upload.partial), 0o600);
        upload.finish().await.unwrap();
        let file = uploads.path(&tenant, HASH);
        assert_eq!(mode(&file), 0o600);
        assert_eq!(mode(file.parent().unwrap()), 0o700);
        assert_eq!(mode(&dir.path().join("uploads")), 0o700);
    }
}
