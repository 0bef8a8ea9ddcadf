//! What is left on the host. Other engines may run beside this one, so only
//! what can be shown to be ours is counted against us.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::fixture::Fixture;
use crate::verbs::until;

/// Where the engine keeps its state when it runs as root.
const STATE: &str = "/run/belljar";

/// Descriptors and mounts of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Footprint {
    pub(crate) descriptors: Vec<String>,
    pub(crate) mounts: usize,
}

impl Footprint {
    pub(crate) fn of_this_process() -> anyhow::Result<Self> {
        let own_listing = format!("/proc/{}/fd", std::process::id());
        let mut descriptors: Vec<String> = fs::read_dir("/proc/self/fd")?
            .flatten()
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .map(|target| target.to_string_lossy().into_owned())
            .filter(|target| *target != own_listing)
            .map(|target| target.split(':').next().unwrap_or_default().to_owned())
            .collect();
        descriptors.sort();
        Ok(Self { descriptors, mounts: mounts()? })
    }
}

impl Footprint {
    pub(crate) fn is_within(&self, before: &Self) -> bool {
        self.descriptors.len() <= before.descriptors.len() && self.mounts <= before.mounts
    }
}

pub(crate) fn mounts() -> anyhow::Result<usize> {
    Ok(fs::read_to_string("/proc/self/mountinfo")?.lines().count())
}

/// The engine of this process, as the host sees it.
#[derive(Debug)]
pub(crate) struct Ours {
    /// Directories of the engine in every cgroup hierarchy.
    groups: Vec<PathBuf>,
    pub(crate) spawner: u32,
}

impl Ours {
    /// Finds them by a sandbox, which is ended again.
    pub(crate) async fn find(fixture: &Fixture) -> anyhow::Result<Self> {
        let sandbox = fixture.sandbox().await?;
        let pid = sandbox.pid();
        let spawner = Process::read(pid).context("look at the guest")?.parent;
        let groups = engine_of(pid).map(|engine| engine_dirs(&engine)).unwrap_or_default();
        sandbox.destroy().await?;
        Ok(Self { groups, spawner })
    }

    /// Waits until no sandbox of this engine is left: no cgroup, no process.
    /// `longest` is what a call may take that a case left, to its wall time.
    pub(crate) async fn sandboxes_gone(&self, longest: Duration) -> anyhow::Result<()> {
        until("no sandbox left", longest + Duration::from_secs(5), async || {
            Ok((self.sandbox_groups() == 0 && self.processes()?.is_empty()).then_some(()))
        })
        .await
        .with_context(|| {
            format!("{} cgroups, processes {:?}", self.sandbox_groups(), self.processes())
        })
    }

    pub(crate) async fn engine_gone(&self) -> anyhow::Result<()> {
        until("engine gone", Duration::from_secs(5), async || {
            let groups = self.groups.iter().filter(|dir| dir.exists()).count();
            let spawner = Process::read(self.spawner).is_some_and(|process| process.is_alive());
            Ok((groups == 0 && !spawner).then_some(()))
        })
        .await
    }

    pub(crate) fn sandbox_groups(&self) -> usize {
        self.groups.iter().map(|dir| directories_below(dir)).sum()
    }

    /// Every process that the spawner has made and that is not gone.
    pub(crate) fn processes(&self) -> anyhow::Result<Vec<Process>> {
        Ok(descendants(self.spawner))
    }
}

pub(crate) fn directories_below(dir: &Path) -> usize {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let dirs = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| 1 + directories_below(&entry.path())).sum()
}

/// The name of the engine (`e7`) whose cgroup a process is in.
pub(crate) fn engine_of(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let engine = text.lines().find_map(|line| line.split("/belljar/").nth(1))?;
    Some(engine.split('/').next()?.to_owned())
}

fn cgroup_roots() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let is_cgroup = |line: &&str| line.contains(" - cgroup");
    let root = |line: &str| line.split(' ').nth(4).map(PathBuf::from);
    text.lines().filter(is_cgroup).filter_map(root).collect()
}

pub(crate) fn engine_dirs(engine: &str) -> Vec<PathBuf> {
    cgroup_roots().iter().map(|root| root.join("belljar").join(engine)).collect()
}

/// What of engines is there without an owner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Orphans {
    pub(crate) groups: Vec<PathBuf>,
    pub(crate) leases: Vec<PathBuf>,
    pub(crate) work: Vec<PathBuf>,
}

impl Orphans {
    /// Looks for cgroups and leases of engines that nobody holds the lock of,
    /// and for working directories that no sandbox of any engine has.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let locked = locked_inodes()?;
        let leases = Path::new(STATE).join("leases");
        let is_held = |number: &str| {
            fs::metadata(leases.join(number)).is_ok_and(|file| locked.contains(&file.ino()))
        };
        let mut found = Self::default();
        let mut sandboxes = BTreeSet::new();
        for root in cgroup_roots() {
            for engine in entries(&root.join("belljar")) {
                let Some(number) = name(&engine).strip_prefix('e').map(str::to_owned) else {
                    continue;
                };
                if is_held(&number) {
                    sandboxes.extend(entries(&engine).iter().map(|dir| name(dir).to_owned()));
                } else if engine.is_dir() {
                    found.groups.push(engine);
                }
            }
        }
        found.leases = entries(&leases);
        found.leases.retain(|lease| !is_held(name(lease)));
        found.work = entries(&Path::new(STATE).join("work"));
        // Named after their sandbox, whatever stands before it.
        found.work.retain(|work| !sandboxes.iter().any(|id| name(work).ends_with(id.as_str())));
        Ok(found)
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.groups, &self.leases, &self.work].into_iter().flatten()
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).collect()
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Inodes of files that some process holds a lock on.
fn locked_inodes() -> anyhow::Result<BTreeSet<u64>> {
    let text = fs::read_to_string("/proc/locks")?;
    let inode = |line: &str| line.split_whitespace().nth(5)?.rsplit(':').next()?.parse().ok();
    Ok(text.lines().filter_map(inode).collect())
}

/// A process in `/proc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) state: char,
    pub(crate) name: String,
}

impl Process {
    pub(crate) fn read(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may hold anything, parentheses and spaces too.
        let (front, rest) = text.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        Some(Self {
            pid,
            state: fields.next()?.chars().next()?,
            parent: fields.next()?.parse().ok()?,
            name: front.split_once('(')?.1.to_owned(),
        })
    }

    /// A zombie runs no code; it only waits for its parent to look.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }

    pub(crate) fn all() -> Vec<Self> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(Self::read).collect()
    }
}

/// All live processes below `root`, itself not counted.
pub(crate) fn descendants(root: u32) -> Vec<Process> {
    let all = Process::all();
    let mut family = BTreeSet::from([root]);
    loop {
        let more: Vec<u32> = all
            .iter()
            .filter(|process| family.contains(&process.parent) && !family.contains(&process.pid))
            .map(|process| process.pid)
            .collect();
        if more.is_empty() {
            break;
        }
        family.extend(more);
    }
    family.remove(&root);
    all.into_iter().filter(|process| family.contains(&process.pid) && process.is_alive()).collect()
}

/// Namespaces that live processes of the host are in, by kind and inode.
pub(crate) fn namespaces() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for process in Process::all() {
        for entry in entries(Path::new(&format!("/proc/{}/ns", process.pid))) {
            if let Ok(link) = fs::read_link(entry) {
                found.insert(link.to_string_lossy().into_owned());
            }
        }
    }
    found
}

/// Descriptors that a process has open.
pub(crate) fn descriptor_count(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Resident memory of a process, in KiB.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Fails unless `ensure` holds for every named pair of counts.
pub(crate) fn no_growth(counts: &[(&str, usize, usize)]) -> anyhow::Result<()> {
    let grown: Vec<_> = counts.iter().filter(|(_, before, after)| after > before).collect();
    ensure!(grown.is_empty(), "grown: {grown:?}");
    Ok(())
}

/// What engines keep in the state directory: leases, working directories and
/// whatever stands beside them. What is in a working directory is its own.
pub(crate) fn state_entries() -> usize {
    let top = entries(Path::new(STATE));
    top.len() + top.iter().map(|dir| entries(dir).len()).sum::<usize>()
}
