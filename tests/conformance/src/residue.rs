//! What is left on the host. Other engines may run beside this one, so only
//! what can be shown to be ours is counted against us.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use belljar_testkit::{OwnEngines, Process, Processes, groups_of_engine, mounts_of_engines};

use crate::fixture::Fixture;
use crate::verbs::until;

/// How long an end may take that nothing stands in the way of; then it hangs.
const HANG_LIMIT: Duration = Duration::from_secs(60);

/// Descriptors of this process, and mounts of its engines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Footprint {
    pub(crate) descriptors: Vec<String>,
    pub(crate) mounts: usize,
}

impl Footprint {
    pub(crate) fn of_this_process(state: &Path) -> anyhow::Result<Self> {
        let own_listing = format!("/proc/{}/fd", std::process::id());
        let mut descriptors: Vec<String> = fs::read_dir("/proc/self/fd")?
            .flatten()
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .map(|target| target.to_string_lossy().into_owned())
            .filter(|target| *target != own_listing)
            .map(|target| target.split(':').next().unwrap_or_default().to_owned())
            .collect();
        descriptors.sort();
        Ok(Self { descriptors, mounts: mounts_of_engines(state).len() })
    }
}

impl Footprint {
    pub(crate) fn is_within(&self, before: &Self) -> bool {
        self.descriptors.len() <= before.descriptors.len() && self.mounts <= before.mounts
    }
}

/// The engine of this process, as the host sees it.
#[derive(Debug)]
pub(crate) struct Ours {
    pub(crate) engines: OwnEngines,
    /// Directories of the engine in every cgroup hierarchy.
    groups: Vec<PathBuf>,
}

impl Ours {
    /// Finds them by a sandbox, which is ended again. Where the engine is root's, shows
    /// that leftovers would be seen.
    pub(crate) async fn find(fixture: &Fixture) -> anyhow::Result<Self> {
        let sandbox = fixture.sandbox().await?;
        let pid = sandbox.pid();
        let engines = OwnEngines::find(&fixture.state, pid);
        let groups = groups_of_engine(pid);
        sandbox.destroy().await?;
        let ours = Self { engines: engines?, groups };
        if fixture.node.engine().facts().privileged && !ours.groups.is_empty() {
            ours.engines.prove().context("leftovers would not be seen")?;
        }
        Ok(ours)
    }

    /// Waits until no sandbox of this engine is left: no cgroup, no process.
    /// `longest` is what a call may take that a case left, to its wall time.
    pub(crate) async fn sandboxes_gone(&self, longest: Duration) -> anyhow::Result<()> {
        until("no sandbox left", longest + HANG_LIMIT, async || {
            Ok((self.sandbox_groups() == 0 && self.processes().is_empty()).then_some(()))
        })
        .await
        .with_context(|| {
            format!("{} cgroups, processes {:?}", self.sandbox_groups(), self.processes())
        })
    }

    pub(crate) async fn engine_gone(&self) -> anyhow::Result<()> {
        until("engine gone", HANG_LIMIT, async || {
            let groups = self.groups.iter().filter(|dir| dir.exists()).count();
            let spawner = Process::read(self.engines.spawner());
            let lives = spawner.is_some_and(|process| process.is_alive());
            Ok((groups == 0 && !lives).then_some(()))
        })
        .await
    }

    pub(crate) fn sandbox_groups(&self) -> usize {
        self.groups.iter().map(|dir| directories_below(dir)).sum()
    }

    /// Every process of a sandbox, and every one that got out of one.
    pub(crate) fn processes(&self) -> Vec<Process> {
        self.engines.processes()
    }

    /// Namespaces that the processes of our sandboxes are in, by kind and inode.
    pub(crate) fn namespaces(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let spawner = Process::read(self.engines.spawner());
        for process in self.processes().into_iter().chain(spawner) {
            for entry in entries(Path::new(&format!("/proc/{}/ns", process.pid))) {
                if let Ok(link) = fs::read_link(entry) {
                    found.insert(link.to_string_lossy().into_owned());
                }
            }
        }
        found
    }
}

pub(crate) fn directories_below(dir: &Path) -> usize {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let dirs = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| 1 + directories_below(&entry.path())).sum()
}

/// All live processes below `root`, itself not counted.
pub(crate) fn descendants(root: u32) -> Vec<Process> {
    Processes::now().below(root)
}

/// Everything of engines in a state directory that no engine uses: their cgroups, leases
/// and working directories.
pub(crate) fn orphans(engines: &OwnEngines) -> BTreeSet<PathBuf> {
    let groups = engines.roots().iter().flat_map(|root| entries(root));
    let groups = groups.filter(|path| path.is_dir());
    let state = ["leases", "work"].map(|name| entries(&engines.state().join(name)));
    groups.chain(state.into_iter().flatten()).collect()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).collect()
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
