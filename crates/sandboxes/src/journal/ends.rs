//! Ends on record. The file only grows, and gives way to a new one when it is
//! large; the newest ends of each tenant are in memory, so that whoever asks for
//! them costs nothing.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use belljar_domain::SandboxId;

use super::Ended;
use crate::keys::Tenant;
use crate::list::LONGEST_PAGE;

#[derive(Debug)]
pub(super) struct Ends {
    path: PathBuf,
    /// What a file becomes that was large enough; the one before is forgotten.
    old: PathBuf,
    largest: u64,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    bytes: u64,
    /// The last line may be half there: the disk was full.
    torn: bool,
    /// The newest last.
    newest: HashMap<Tenant, VecDeque<Ended>>,
}

/// Some 70,000 ends.
const LARGEST: u64 = 16 << 20;

impl Ends {
    pub(super) fn open(state: &Path) -> io::Result<Self> {
        Self::bounded(state, LARGEST)
    }

    pub(super) fn bounded(state: &Path, largest: u64) -> io::Result<Self> {
        let (path, old) = (state.join("ended.jsonl"), state.join("ended.old.jsonl"));
        let mut newest = HashMap::new();
        let mut whole = true;
        for path in [&old, &path] {
            let text = match fs::read(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                read => read?,
            };
            whole = text.last().is_none_or(|byte| *byte == b'\n');
            let lines = text.split(|byte| *byte == b'\n');
            for ended in lines.filter_map(|line| serde_json::from_slice(line).ok()) {
                remember(&mut newest, ended);
            }
        }
        let file = open(&path)?;
        let bytes = file.metadata()?.len();
        let inner = Inner { file, bytes, torn: !whole, newest };
        Ok(Self { path, old, largest, inner: Mutex::new(inner) })
    }

    /// Answers whose end is not remembered any more instead.
    pub(super) fn add(&self, ended: Ended) -> io::Result<Option<SandboxId>> {
        let mut inner = self.lock();
        // What follows half a line is a line of its own.
        let mut line = if inner.torn { vec![b'\n'] } else { Vec::new() };
        serde_json::to_writer(&mut line, &ended)?;
        line.push(b'\n');
        if inner.bytes > self.largest {
            fs::rename(&self.path, &self.old)?;
            (inner.file, inner.bytes) = (open(&self.path)?, 0);
        }
        inner.torn = true;
        inner.file.write_all(&line)?;
        inner.torn = false;
        inner.bytes += u64::try_from(line.len()).unwrap_or(u64::MAX);
        Ok(remember(&mut inner.newest, ended))
    }

    /// Whether anybody's end is this one.
    pub(super) fn remembers(&self, id: &SandboxId) -> bool {
        self.lock().newest.values().flatten().any(|ended| ended.id == *id)
    }

    /// Whether this end is among the newest.
    pub(super) fn knows(&self, tenant: &Tenant, id: &SandboxId) -> bool {
        self.find(tenant, id).is_some()
    }

    /// The end of this sandbox, if it is among the newest.
    pub(super) fn find(&self, tenant: &Tenant, id: &SandboxId) -> Option<Ended> {
        let inner = self.lock();
        inner.newest.get(tenant)?.iter().find(|ended| ended.id == *id).cloned()
    }

    /// Newest first.
    pub(super) fn newest(&self, tenant: &Tenant, most: usize) -> Vec<Ended> {
        let inner = self.lock();
        let ends = inner.newest.get(tenant).into_iter().flatten();
        ends.rev().take(most).cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Answers which one had to make room.
fn remember(newest: &mut HashMap<Tenant, VecDeque<Ended>>, ended: Ended) -> Option<SandboxId> {
    let ends = newest.entry(ended.tenant.clone()).or_default();
    let forgotten = if ends.len() >= LONGEST_PAGE { ends.pop_front() } else { None };
    ends.push_back(ended);
    forgotten.map(|ended| ended.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use belljar_domain::EndReason;

    fn end(tenant: &str, number: u8) -> Ended {
        Ended {
            id: SandboxId::from_random([number; 16]),
            tenant: Tenant::new(tenant),
            template: "base".into(),
            started_at: now(),
            ended_at: now(),
            reason: EndReason::Killed,
            tier: belljar_domain::Tier::Jail,
        }
    }

    fn ids(ends: &Ends, tenant: &str) -> Vec<SandboxId> {
        ends.newest(&Tenant::new(tenant), 10).into_iter().map(|ended| ended.id).collect()
    }

    fn id(number: u8) -> SandboxId {
        SandboxId::from_random([number; 16])
    }

    #[test]
    fn ends_are_there_after_a_restart_and_each_tenant_sees_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let ends = Ends::open(dir.path()).unwrap();
        for (tenant, number) in [("a", 1), ("b", 2), ("a", 3)] {
            ends.add(end(tenant, number)).unwrap();
        }
        for ends in [ends, Ends::open(dir.path()).unwrap()] {
            assert_eq!(ids(&ends, "a"), [id(3), id(1)]);
            assert_eq!(ids(&ends, "b"), [id(2)]);
            assert_eq!(ends.newest(&Tenant::new("a"), 1).len(), 1);
            assert!(ends.knows(&Tenant::new("a"), &id(1)));
            assert!(!ends.knows(&Tenant::new("b"), &id(1)));
        }
    }

    #[test]
    fn half_a_line_spoils_no_other() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("ended.jsonl"), b"{\"id\":").unwrap();
        Ends::open(dir.path()).unwrap().add(end("a", 1)).unwrap();
        assert_eq!(ids(&Ends::open(dir.path()).unwrap(), "a"), [id(1)]);
    }

    #[test]
    fn the_record_does_not_grow_without_bound() {
        let dir = tempfile::tempdir().unwrap();
        let ends = Ends::bounded(dir.path(), 1000).unwrap();
        for number in 0..100 {
            ends.add(end("a", number)).unwrap();
        }
        let files = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap());
        let sizes: Vec<_> = files.map(|entry| entry.metadata().unwrap().len()).collect();
        assert_eq!(sizes.len(), 2);
        assert!(sizes.iter().all(|size| *size < 2000), "{sizes:?}");
        assert_eq!(ids(&Ends::bounded(dir.path(), 1000).unwrap(), "a")[0], id(99));
    }
}
