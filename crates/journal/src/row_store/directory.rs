//! Rows in a directory, for a server that is alone and for `belljar ask`.
//!
//! ```text
//! <root>/<digest of the tenant's name>/<run>.jsonl
//! ```
//!
//! Only rows of runs that the journal has are kept here: a run is named by the caller of a
//! sandbox, and names that are made up must not become files. A file is appended to and never
//! rewritten; a row that was written twice is read once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use belljar_domain::rows::{AttributedRow, RowBody};
use belljar_domain::{Attribution, RunId};
use belljar_objects::Digest;
use futures_util::future::BoxFuture;
use time::OffsetDateTime;

use super::{Charged, FoundRow, FoundRows, MostRows, RowStore, StoredRows};
use crate::directory::path_of;
use crate::error::Failure;
use crate::journal::Address;
use crate::ledger::{self, Account, LedgerDirectory};
use crate::lines::LineFile;

/// Maximum size of the file of one run. Later rows are not kept.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Rows in a directory; cheap to clone.
#[derive(Debug, Clone)]
pub struct RowDirectory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    /// The directory of the journal.
    runs: PathBuf,
    ledger: LedgerDirectory,
    /// One writer at a time.
    writing: Mutex<()>,
}

impl RowDirectory {
    /// Rows of the runs of the [`Directory`](crate::Directory) at `runs`. The directory `root` is
    /// made with its first row. Rows of no run are not kept, and charged to the ledger like all.
    pub fn new(root: PathBuf, runs: PathBuf, ledger: LedgerDirectory) -> Self {
        Self(Arc::new(Inner { root, runs, ledger, writing: Mutex::default() }))
    }

    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Failure>> {
        let inner = self.0.clone();
        let done = tokio::task::spawn_blocking(move || work(&inner));
        Box::pin(async move { done.await.map_err(Failure::new)?.map_err(Failure::new) })
    }
}

impl Inner {
    fn path(&self, tenant: &str, run: &RunId) -> PathBuf {
        let tenant = Digest::of(tenant.as_bytes()).to_string();
        self.root.join(tenant).join(format!("{run}.jsonl"))
    }

    fn put(&self, rows: &[AttributedRow]) -> io::Result<StoredRows> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut by_file: BTreeMap<PathBuf, Vec<&AttributedRow>> = BTreeMap::new();
        for row in rows {
            // The end of a sandbox is charged, and nothing else.
            if let RowBody::Call(_) | RowBody::Connection(_) = row.body
                && let Some(Attribution { run, .. }) = &row.attribution
                && self.has_run(&row.tenant, run)
            {
                by_file.entry(self.path(&row.tenant, run)).or_default().push(row);
            }
        }
        let mut stored = StoredRows::default();
        for (path, rows) in by_file {
            append(&path, &rows, &mut stored)?;
        }
        // Last: rows that are written again are read once.
        stored.charged = self.charge(rows)?;
        Ok(stored)
    }

    fn has_run(&self, tenant: &str, run: &RunId) -> bool {
        path_of(&self.runs, tenant, run).is_dir()
    }

    /// Charges for rows. A run that the journal does not have is no run to charge.
    fn charge(&self, rows: &[AttributedRow]) -> io::Result<Charged> {
        let mut entries = ledger::charges(rows);
        for entry in &mut entries {
            if !entry.run.as_ref().is_some_and(|run| self.has_run(&entry.tenant, run)) {
                (entry.run, entry.turn, entry.call) = (None, None, None);
            }
        }
        self.ledger.put(&entries)?;
        let sum = |account: Account| {
            let of_account = entries.iter().filter(|entry| entry.account == account);
            of_account.map(|entry| entry.amounts.nano_dollars).fold(0, u64::saturating_add)
        };
        Ok(Charged { models: sum(Account::Models), egress: sum(Account::Egress) })
    }

    /// Of too many, those that were stored first.
    fn of_turn(&self, run: &Address, turn: u32, most: MostRows) -> io::Result<FoundRows> {
        let file = match File::open(self.path(&run.tenant, &run.run)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(FoundRows::default());
            }
            file => file?,
        };
        let (mut found, mut seen, mut bytes) = (FoundRows::default(), BTreeSet::new(), 0);
        for line in BufReader::new(file).split(b'\n') {
            // A line that was cut off is the last one of a process that died.
            let line = line?;
            let Ok(row) = serde_json::from_slice::<AttributedRow>(&line) else { continue };
            let is_of_turn = row.attribution.as_ref().is_some_and(|it| it.turn == turn);
            if is_of_turn && seen.insert(row.id.clone()) {
                if found.rows.len() >= most.rows || bytes >= most.bytes {
                    found.is_cut = true;
                    break;
                }
                bytes += line.len();
                found.rows.push(FoundRow { row, is_of_node: false });
            }
        }
        found.rows.sort_by_key(|found| found.row.began);
        Ok(found)
    }

    fn forget(&self, before: SystemTime) -> io::Result<()> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        for tenant in entries(&self.root)? {
            for path in entries(&tenant)? {
                if fs::metadata(&path)?.modified()? < before {
                    fs::remove_file(&path)?;
                }
            }
        }
        Ok(())
    }
}

fn append(path: &Path, rows: &[&AttributedRow], stored: &mut StoredRows) -> io::Result<()> {
    let LineFile { mut file, length, is_torn } = LineFile::open(path)?;
    // A line that was cut off spoils no other.
    let mut text = if is_torn { vec![b'\n'] } else { Vec::new() };
    for row in rows {
        let before = text.len();
        serde_json::to_writer(&mut text, row)?;
        text.push(b'\n');
        if length.saturating_add(text.len() as u64) > MAX_FILE_BYTES {
            text.truncate(before);
            break;
        }
        match row.body {
            RowBody::Call(_) => stored.calls += 1,
            RowBody::Connection(_) => stored.connections += 1,
            RowBody::Sandbox(_) => {}
        }
    }
    file.write_all(&text)?;
    file.sync_data()
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        found => found?.map(|entry| Ok(entry?.path())).collect(),
    }
}

impl RowStore for RowDirectory {
    fn put<'a>(&'a self, rows: &'a [AttributedRow]) -> BoxFuture<'a, Result<StoredRows, Failure>> {
        let rows = rows.to_vec();
        self.blocking(move |inner| inner.put(&rows))
    }

    fn of_turn<'a>(
        &'a self,
        run: &'a Address,
        turn: u32,
        most: MostRows,
    ) -> BoxFuture<'a, Result<FoundRows, Failure>> {
        let run = run.clone();
        self.blocking(move |inner| inner.of_turn(&run, turn, most))
    }

    fn forget(&self, before: OffsetDateTime) -> BoxFuture<'_, Result<(), Failure>> {
        self.blocking(move |inner| inner.forget(before.into()))
    }
}

#[cfg(test)]
mod tests {
    use belljar_domain::network::{Bytes, Charge, Decision, Kind, Reason};
    use belljar_domain::rows::{CallKind, CallRow, ConnectionRow};
    use belljar_domain::{EndReason, SandboxId};

    use super::*;
    use crate::ledger::{LedgerStore as _, UsageKey, UsageQuery};

    fn run(tenant: &str) -> Address {
        Address { tenant: tenant.to_owned(), run: RunId::from_bits([1; 16]) }
    }

    fn row(id: &str, turn: Option<u32>, began: u64) -> AttributedRow {
        let call = CallRow {
            number: 1,
            kind: CallKind::Cell,
            is_ok: true,
            reason: EndReason::Done,
            exit_code: None,
            cpu_micros: 2,
            peak_bytes: None,
            output_bytes: 3,
            files: Vec::new(),
            is_cut: false,
        };
        let run = run("ann").run;
        AttributedRow {
            id: id.to_owned(),
            tenant: "ann".to_owned(),
            sandbox: SandboxId::from_random([2; 16]),
            attribution: turn.map(|turn| Attribution { run, turn, call: None }),
            began,
            micros: 1,
            body: RowBody::Call(call),
        }
    }

    /// A store beside a journal that has the run of `ann`.
    fn store(folder: &Path) -> RowDirectory {
        let runs = folder.join("runs");
        fs::create_dir_all(path_of(&runs, "ann", &run("ann").run)).unwrap();
        RowDirectory::new(folder.join("rows"), runs, LedgerDirectory::new(folder.join("ledger")))
    }

    const MOST: MostRows = MostRows { rows: 100, bytes: 100_000 };

    async fn found(rows: &RowDirectory, tenant: &str, turn: u32) -> Vec<String> {
        let found = rows.of_turn(&run(tenant), turn, MOST).await.unwrap();
        assert!(!found.is_cut);
        found.rows.into_iter().map(|found| found.row.id).collect()
    }

    #[tokio::test]
    async fn rows_are_a_turns_own_once_and_outlive_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let rows = store(folder.path());
        assert!(found(&rows, "ann", 1).await.is_empty());
        let batch = [row("b", Some(1), 2), row("a", Some(1), 1), row("c", Some(2), 3)];
        assert_eq!(rows.put(&batch).await.unwrap().calls, 3);
        rows.put(&batch).await.unwrap();
        // Of no run: not kept here.
        assert_eq!(rows.put(&[row("d", None, 4)]).await.unwrap(), StoredRows::default());
        assert_eq!(found(&rows, "ann", 1).await, ["a", "b"]);
        assert_eq!(found(&rows, "ann", 2).await, ["c"]);
        assert!(found(&rows, "bob", 1).await.is_empty());
        for most in [MostRows { rows: 1, ..MOST }, MostRows { bytes: 1, ..MOST }] {
            let first = rows.of_turn(&run("ann"), 1, most).await.unwrap();
            assert_eq!((first.rows.len(), first.is_cut), (1, true), "{most:?}");
        }
        let path = rows.0.path("ann", &run("ann").run);
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() - 5]).unwrap();
        rows.put(&[row("e", Some(2), 5)]).await.unwrap();
        assert_eq!(found(&rows, "ann", 2).await, ["c", "e"]);
    }

    fn connection(id: &str, turn: Option<u32>, charge: Option<Charge>) -> AttributedRow {
        let connection = ConnectionRow {
            sequence: 1,
            kind: if charge.is_some() { Kind::Operation } else { Kind::Connection },
            decision: Decision::Allowed,
            reason: Reason::Open,
            host: None,
            port: None,
            operation: charge.is_some().then(|| "llm".to_owned()),
            method: None,
            path: None,
            status: None,
            bytes: Bytes { out: 10, into: 20 },
            charge,
            is_late: false,
        };
        AttributedRow { body: RowBody::Connection(connection), ..row(id, turn, 1) }
    }

    #[tokio::test]
    async fn rows_are_charged_once_with_and_without_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let rows = store(folder.path());
        let free = Charge { model: "m".to_owned(), output: 7, ..Charge::default() };
        let paid = Charge { nano_dollars: 9, estimated: true, ..free.clone() };
        let batch = [
            connection("a", Some(1), Some(paid)),
            connection("b", None, Some(free)),
            connection("c", Some(1), None),
            connection("d", Some(1), None),
            row("e", Some(1), 1),
        ];
        let stored = rows.put(&batch).await.unwrap();
        assert_eq!(stored.charged, Charged { models: 9, egress: 0 });
        rows.put(&batch).await.unwrap();
        let mut query = UsageQuery {
            tenant: Some("ann".to_owned()),
            from: OffsetDateTime::UNIX_EPOCH,
            to: OffsetDateTime::now_utc(),
            run: None,
            by: vec![UsageKey::Account],
            limit: 10,
            after: 0,
        };
        let page = rows.0.ledger.usage(&query).await.unwrap();
        let seen: Vec<_> = page
            .groups
            .iter()
            .map(|group| (group.name.account.as_deref(), group.charges, group.amounts))
            .map(|(account, charges, it)| {
                (account, charges, it.tokens.output, it.egress_bytes, it.estimated_nano_dollars)
            })
            .collect();
        // The answer without a price is there too, and the bytes of one call are one charge.
        assert_eq!(seen, [(Some("egress"), 1, 0, 20, 0), (Some("models"), 2, 14, 20, 9)]);
        assert_eq!(page.total.amounts.nano_dollars, 9);
        query.run = Some(run("ann").run);
        assert_eq!(rows.0.ledger.usage(&query).await.unwrap().total.charges, 2);
    }

    #[tokio::test]
    async fn rows_of_runs_that_the_journal_does_not_have_become_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let rows = store(folder.path());
        let unknown = RunId::from_bits([7; 16]);
        let attribution = Some(Attribution { run: unknown, turn: 1, call: None });
        let made_up = AttributedRow { attribution, ..row("a", Some(1), 1) };
        let foreign = AttributedRow { tenant: "bob".to_owned(), ..row("b", Some(1), 1) };
        let none = StoredRows::default();
        assert_eq!(rows.put(&[made_up, foreign]).await.unwrap(), none);
        assert!(!folder.path().join("rows").exists());
        assert_eq!(rows.put(&[row("c", Some(1), 1)]).await.unwrap().calls, 1);
    }

    #[tokio::test]
    async fn old_rows_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let rows = store(folder.path());
        rows.put(&[row("a", Some(1), 1)]).await.unwrap();
        let now = OffsetDateTime::now_utc();
        rows.forget(now - time::Duration::HOUR).await.unwrap();
        assert_eq!(found(&rows, "ann", 1).await, ["a"]);
        rows.forget(now + time::Duration::HOUR).await.unwrap();
        assert!(found(&rows, "ann", 1).await.is_empty());
    }
}
