//! A ledger in a directory, for a server that is alone and for `belljar ask`.
//!
//! ```text
//! <root>/<digest of the tenant's name>/<day>.jsonl
//! ```
//!
//! A batch is written whole or not at all, so a caller may write it again after a failure. A
//! source that was written twice all the same is read once: its charge is of one day, and so in
//! one file.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use belljar_objects::Digest;
use futures_util::future::BoxFuture;

use super::sum::Summer;
use super::{LedgerEntry, LedgerStore, UsagePage, UsageQuery, day, day_of};
use crate::error::Failure;
use crate::lines::LineFile;

/// A ledger in a directory; cheap to clone.
#[derive(Debug, Clone)]
pub struct LedgerDirectory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    /// One writer at a time.
    writing: Mutex<()>,
}

impl LedgerDirectory {
    /// The directory is made with its first charge.
    pub fn new(root: PathBuf) -> Self {
        Self(Arc::new(Inner { root, writing: Mutex::default() }))
    }

    /// Writes charges, and waits until they are on the disk.
    pub fn put(&self, entries: &[LedgerEntry]) -> io::Result<()> {
        let mut by_file: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        for entry in entries {
            let path = self.0.folder(&entry.tenant).join(format!("{}.jsonl", day(entry.began)));
            let text = by_file.entry(path).or_default();
            serde_json::to_writer(&mut *text, entry)?;
            text.push(b'\n');
        }
        let _one = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        by_file.iter().try_for_each(|(path, text)| append(path, text))
    }
}

impl Inner {
    fn folder(&self, tenant: &str) -> PathBuf {
        self.root.join(Digest::of(tenant.as_bytes()).to_string())
    }

    fn usage(&self, query: &UsageQuery) -> io::Result<UsagePage> {
        let folders = match &query.tenant {
            Some(tenant) => vec![self.folder(tenant)],
            None => entries(&self.root)?,
        };
        let (first, last) = (day_of(query.from), day_of(query.to));
        let mut summer = Summer::new(query);
        for folder in folders {
            for path in entries(&folder)? {
                let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
                if (first.as_str()..=last.as_str()).contains(&name) {
                    read(&path, |entry| summer.add(&entry))?;
                }
            }
        }
        Ok(summer.page())
    }
}

/// Appends lines, all or none of them.
fn append(path: &Path, lines: &[u8]) -> io::Result<()> {
    let mut open = LineFile::open(path)?;
    let mut text = Vec::with_capacity(lines.len() + 1);
    if open.is_torn {
        text.push(b'\n');
    }
    text.extend_from_slice(lines);
    let written = open.file.write_all(&text).and_then(|()| open.file.sync_data());
    if written.is_err() {
        open.file.set_len(open.length)?;
    }
    written
}

/// Reads the charges of a day, each source once.
fn read(path: &Path, mut each: impl FnMut(LedgerEntry)) -> io::Result<()> {
    let mut seen = HashSet::new();
    for line in BufReader::new(File::open(path)?).split(b'\n') {
        // A line that was cut off is the last one of a process that died.
        let Ok(entry) = serde_json::from_slice::<LedgerEntry>(&line?) else { continue };
        if seen.insert(entry.source.clone()) {
            each(entry);
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        found => found?.map(|entry| Ok(entry?.path())).collect(),
    }
}

impl LedgerStore for LedgerDirectory {
    fn usage<'a>(&'a self, query: &'a UsageQuery) -> BoxFuture<'a, Result<UsagePage, Failure>> {
        let (inner, query) = (self.0.clone(), query.clone());
        let done = tokio::task::spawn_blocking(move || inner.usage(&query));
        Box::pin(async move { done.await.map_err(Failure::new)?.map_err(Failure::new) })
    }
}

#[cfg(test)]
mod tests {
    use belljar_domain::{RunId, SandboxId};
    use time::OffsetDateTime;

    use super::super::{Account, Amounts, UsageKey};
    use super::*;

    const DAY: u64 = 86_400_000_000;

    fn entry(source: u64) -> LedgerEntry {
        let run = RunId::from_bits([u8::try_from(source % 3).unwrap(); 16]);
        let accounts = [Account::Models, Account::Egress, Account::Sandboxes];
        LedgerEntry {
            source: format!("row:{source}"),
            tenant: if source.is_multiple_of(4) { "bob" } else { "ann" }.to_owned(),
            account: accounts[usize::try_from(source % 3).unwrap()],
            sandbox: Some(SandboxId::from_random([2; 16])),
            run: (!source.is_multiple_of(5)).then_some(run),
            turn: Some(1),
            call: None,
            operation: (!source.is_multiple_of(2)).then(|| format!("op-{}", source % 7)),
            model: source.is_multiple_of(3).then(|| "m".to_owned()),
            began: source % 11 * DAY,
            amounts: Amounts {
                egress_bytes: source,
                sandbox_ms: source * 2,
                nano_dollars: source * 3,
                ..Amounts::default()
            },
        }
    }

    fn query(tenant: Option<&str>, by: &[UsageKey]) -> UsageQuery {
        UsageQuery {
            tenant: tenant.map(str::to_owned),
            from: OffsetDateTime::UNIX_EPOCH,
            to: OffsetDateTime::UNIX_EPOCH + time::Duration::days(30),
            run: None,
            by: by.to_vec(),
            limit: 1000,
            after: 0,
        }
    }

    #[tokio::test]
    async fn sums_of_every_grouping_are_the_total_and_a_source_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = LedgerDirectory::new(folder.path().join("ledger"));
        let all: Vec<_> = (1..=200).map(entry).collect();
        ledger.put(&all).unwrap();
        ledger.put(&all[50..90]).unwrap();
        let want: u64 = (1..=200).sum();
        for bits in 0..1_usize << UsageKey::ALL.len() {
            let keys = UsageKey::ALL.iter().enumerate();
            let by: Vec<_> =
                keys.filter(|(at, _)| (bits >> at) & 1 == 1).map(|(_, key)| *key).collect();
            let page = ledger.usage(&query(None, &by)).await.unwrap();
            assert_eq!((page.total.charges, page.is_cut), (200, false), "{by:?}");
            assert_eq!(page.total.amounts.egress_bytes, want, "{by:?}");
            assert_eq!(page.total.amounts.nano_dollars, want * 3, "{by:?}");
            let (mut charges, mut sum) = (0, Amounts::default());
            for group in &page.groups {
                charges += group.charges;
                sum.add(&group.amounts);
            }
            assert_eq!((charges, sum), (200, page.total.amounts), "{by:?}");
        }
        let of_bob = ledger.usage(&query(Some("bob"), &[UsageKey::Tenant])).await.unwrap();
        assert_eq!((of_bob.groups.len(), of_bob.total.charges), (1, 50));
        assert_eq!(of_bob.groups[0].name.tenant.as_deref(), Some("bob"));
    }

    #[tokio::test]
    async fn pages_and_times_are_exact_and_a_torn_line_spoils_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = LedgerDirectory::new(folder.path().to_owned());
        ledger.put(&(1..=10).map(entry).collect::<Vec<_>>()).unwrap();
        let mut by_day = query(None, &[UsageKey::Day]);
        by_day.limit = 4;
        let page = ledger.usage(&by_day).await.unwrap();
        assert_eq!((page.groups.len(), page.is_cut), (4, true));
        assert_eq!(page.groups[0].name.day.as_deref(), Some("1970-01-02"));
        by_day.after = 8;
        let page = ledger.usage(&by_day).await.unwrap();
        assert_eq!((page.groups.len(), page.is_cut, page.total.charges), (2, false, 10));
        // From the beginning of the third day to the beginning of the fifth.
        let from = OffsetDateTime::UNIX_EPOCH + time::Duration::days(2);
        let some = UsageQuery { from, to: from + time::Duration::days(2), ..query(None, &[]) };
        assert_eq!(ledger.usage(&some).await.unwrap().total.charges, 2);
        let path = ledger.0.folder("ann").join("1970-01-03.jsonl");
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() - 3]).unwrap();
        ledger.put(&[LedgerEntry { source: "row:x".to_owned(), ..entry(13) }]).unwrap();
        let total = ledger.usage(&query(None, &[])).await.unwrap().total;
        assert_eq!(total.charges, 10, "one was cut off, and one was added");
    }
}
