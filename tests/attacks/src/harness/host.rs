//! What the host sees of sandboxes and of itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_node::Sandbox;

use crate::harness::oracle::{group_roots, groups_of, processes};

/// The control groups of one sandbox, one in each hierarchy.
#[derive(Debug)]
pub(crate) struct Groups(Vec<PathBuf>);

impl Groups {
    pub(crate) fn of(sandbox: &Sandbox) -> Self {
        Self(group_roots().iter().flat_map(|root| groups_of(root, sandbox.id().as_str())).collect())
    }

    /// A counter of the sandbox, in whichever hierarchy it is.
    pub(crate) fn number(&self, file: &str) -> Option<u64> {
        let text = self.0.iter().find_map(|dir| fs::read_to_string(dir.join(file)).ok())?;
        text.trim().parse().ok()
    }

    /// The host's pids of a call's processes.
    pub(crate) fn members(&self, call: u32) -> Vec<u32> {
        let lists = self.0.iter().map(|dir| dir.join(format!("c{call}/cgroup.procs")));
        let text: String = lists.filter_map(|list| fs::read_to_string(list).ok()).collect();
        let mut pids: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        pids.sort_unstable();
        pids.dedup();
        // A process of another pid namespace shows as 0.
        pids.retain(|&pid| pid != 0);
        pids
    }

    /// The host's pids of the zygotes of the sandbox's engine.
    pub(crate) fn zygotes(&self) -> Vec<u32> {
        let engines = self.0.iter().filter_map(|dir| dir.parent()?.parent());
        let families = engines.filter_map(|engine| fs::read_dir(engine).ok()).flatten().flatten();
        let lists = families.map(|family| family.path().join("z/cgroup.procs"));
        let text: String = lists.filter_map(|list| fs::read_to_string(list).ok()).collect();
        let mut pids: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// How many groups there are now, calls' included.
    pub(crate) fn count() -> usize {
        group_roots().iter().map(|root| dirs_below(root)).sum()
    }
}

fn dirs_below(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    dirs.map(|path| 1 + dirs_below(&path)).sum()
}

/// Memory of a process that is in use now.
pub(crate) fn resident(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

pub(crate) fn own_resident() -> u64 {
    resident(std::process::id())
}

pub(crate) fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// The pids of processes whose name is `name`.
pub(crate) fn named(name: &str) -> Vec<u32> {
    let comm = |pid| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    processes().filter(|&pid| comm(pid).trim() == name).collect()
}

/// The groups of a process, one line for each hierarchy.
pub(crate) fn groups_of_process(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default()
}

/// Whether a process is there and not merely a zombie.
pub(crate) fn lives(pid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Sends SIGKILL to one process that the caller knows to be its own.
pub(crate) fn kill(pid: u32) -> anyhow::Result<()> {
    let script = "kill -9 \"$0\"";
    let status = Command::new("/bin/sh").args(["-c", script, &pid.to_string()]).status();
    anyhow::ensure!(status.context("cannot run a shell")?.success(), "cannot kill {pid}");
    Ok(())
}

/// The longest that the host takes to run a trivial program, of a few tries.
pub(crate) async fn slowest_start(tries: u32) -> anyhow::Result<Duration> {
    let measure = move || -> anyhow::Result<Duration> {
        let mut slowest = Duration::ZERO;
        for _ in 0..tries {
            let begin = Instant::now();
            let status = Command::new("/bin/true").stdin(Stdio::null()).status()?;
            anyhow::ensure!(status.success(), "the host's own program failed");
            slowest = slowest.max(begin.elapsed());
        }
        Ok(slowest)
    };
    tokio::task::spawn_blocking(measure).await?.context("the host cannot start a program")
}

/// System V segments of the host's own namespace.
pub(crate) fn segments() -> usize {
    fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default().lines().count()
}

/// Objects of one kind that the kernel keeps.
pub(crate) fn slab(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/slabinfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.split_whitespace().next()?.parse().ok()
}
