//! What the host sees of sandboxes and of itself.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_node::Sandbox;
use belljar_testkit::{OwnEngines, Process, groups_of_sandbox};

/// The control groups of one sandbox, one in each hierarchy.
#[derive(Debug)]
pub(crate) struct Groups(Vec<PathBuf>);

impl Groups {
    pub(crate) fn of(sandbox: &Sandbox) -> Self {
        Self(groups_of_sandbox(sandbox.id().as_str()))
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

/// The pids of our sandboxes' processes whose name is `name`.
pub(crate) fn named(engines: &OwnEngines, name: &str) -> Vec<u32> {
    let found = engines.processes().into_iter().filter(|process| process.name == name);
    found.map(|process| process.pid).collect()
}

/// The groups of a process, one line for each hierarchy.
pub(crate) fn groups_of_process(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default()
}

/// Whether a process is there and not merely a zombie.
pub(crate) fn lives(pid: u32) -> bool {
    Process::read(pid).is_some_and(|process| process.is_alive())
}

/// Sends SIGKILL to one process that the caller knows to be its own.
pub(crate) fn kill(pid: u32) -> anyhow::Result<()> {
    let script = "kill -9 \"$0\"";
    let status = Command::new("/bin/sh").args(["-c", script, &pid.to_string()]).status();
    anyhow::ensure!(status.context("cannot run a shell")?.success(), "cannot kill {pid}");
    Ok(())
}

/// How much longer the host may take to run a program while an attack goes on, beside
/// what it took before.
pub(crate) const SLOWER_START: u32 = 100;

/// The time that the host takes to run a trivial program: the median of some tries, so
/// that it does not matter if one of them had to wait for a core.
pub(crate) async fn usual_start() -> anyhow::Result<Duration> {
    const TRIES: usize = 21;
    let measure = || -> anyhow::Result<Duration> {
        let mut times = Vec::new();
        for _ in 0..TRIES {
            let begin = Instant::now();
            let status = Command::new("/bin/true").stdin(Stdio::null()).status()?;
            anyhow::ensure!(status.success(), "the host's own program failed");
            times.push(begin.elapsed());
        }
        times.sort();
        Ok(times[TRIES / 2])
    };
    tokio::task::spawn_blocking(measure).await?.context("the host cannot start a program")
}

/// System V segments in the host's own namespace that a sandbox has made: by the user id
/// of their creator, which programs of the host never have.
pub(crate) fn segments() -> usize {
    const FIRST_USER: u32 = 0x1000_0000;
    let text = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let mut lines = text.lines();
    let mut columns = lines.next().unwrap_or_default().split_whitespace();
    let Some(at) = columns.position(|column| column == "cuid") else { return 0 };
    let creator = |line: &str| line.split_whitespace().nth(at)?.parse::<u32>().ok();
    lines.filter_map(creator).filter(|user| *user >= FIRST_USER).count()
}

/// Objects of one kind that the kernel keeps, for whomever.
pub(crate) fn slab(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/slabinfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.split_whitespace().next()?.parse().ok()
}
