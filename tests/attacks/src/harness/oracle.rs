//! Looks at the host after every run: was anything touched, is anything left?

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::harness::canary::Canaries;
use crate::harness::kernel_log::{KernelLog, is_trouble};
use crate::harness::stage::Trace;

#[derive(Debug)]
pub(crate) struct Oracle {
    canaries: Arc<Mutex<Canaries>>,
    log: Option<KernelLog>,
    spawner: Option<u32>,
    mounts: Vec<String>,
    descriptors: usize,
    groups: Vec<PathBuf>,
}

/// How long clean-up that has begun may take.
const PATIENCE: Duration = Duration::from_secs(3);

impl Oracle {
    /// Remembers how things are now, while no sandbox lives.
    pub(crate) fn new(canaries: Arc<Mutex<Canaries>>) -> Self {
        Self {
            canaries,
            log: KernelLog::open().ok(),
            spawner: spawner(),
            mounts: mounts(),
            descriptors: descriptors(),
            groups: group_roots(),
        }
    }

    /// What is wrong in a sandbox's own traces: groups and processes left.
    pub(crate) async fn residue(&self, traces: &[Trace]) -> Vec<String> {
        settled(|| {
            let mut left = Vec::new();
            for trace in traces {
                left.extend(self.groups_of(trace));
                left.extend(processes_of(trace));
            }
            left
        })
        .await
    }

    /// What is wrong on the host, while nothing runs.
    pub(crate) async fn host(&mut self) -> Vec<String> {
        let mut wrong = settled(|| {
            let mut wrong = Vec::new();
            let new = mounts().into_iter().filter(|mount| !self.mounts.contains(mount));
            wrong.extend(new.map(|mount| format!("left: mount {mount}")));
            let open = descriptors();
            if open > self.descriptors {
                wrong.push(format!("{open} descriptors where there were {}", self.descriptors));
            }
            wrong
        })
        .await;
        // What is wrong once would else be told after every later run, too.
        self.mounts = mounts();
        self.descriptors = self.descriptors.max(descriptors());
        if spawner() != self.spawner {
            wrong.push("the spawner is not the same process any more".to_owned());
            self.spawner = spawner();
        }
        wrong
    }

    /// What attackers touched of the canaries, and what the kernel had to say.
    pub(crate) fn touched(&mut self) -> Vec<String> {
        let mut canaries = self.canaries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wrong = canaries.touched();
        let news = self.log.iter_mut().flat_map(KernelLog::news);
        wrong.extend(news.filter(|line| is_trouble(line)).map(|line| format!("kernel: {line}")));
        wrong
    }

    fn groups_of(&self, trace: &Trace) -> Vec<String> {
        let dirs = self.groups.iter().flat_map(|root| groups_of(root, &trace.id));
        dirs.map(|dir| format!("left: {}", dir.display())).collect()
    }
}

/// Asks until nothing is wrong or patience ends.
async fn settled(mut look: impl FnMut() -> Vec<String>) -> Vec<String> {
    let begin = Instant::now();
    loop {
        let wrong = look();
        if wrong.is_empty() || begin.elapsed() > PATIENCE {
            return wrong;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Where sandboxes have their groups, one directory for each hierarchy.
pub(crate) fn group_roots() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let of_cgroups = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (target, kind) = (fields.next()?, fields.next()?);
        kind.starts_with("cgroup").then(|| PathBuf::from(target).join("belljar"))
    };
    mounts.lines().filter_map(of_cgroups).collect()
}

/// The groups of a sandbox in one hierarchy: its engine's, or its zygote's.
pub(crate) fn groups_of(root: &Path, id: &str) -> Vec<PathBuf> {
    let below = |dir: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    };
    let engines = below(root);
    let zygotes = engines.iter().flat_map(|engine| below(engine));
    let owners = engines.iter().cloned().chain(zygotes);
    owners.map(|owner| owner.join(id)).filter(|dir| dir.exists()).collect()
}

/// The mounts of the host that carry our name; strangers mount as they like.
fn mounts() -> Vec<String> {
    let all = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    all.lines().filter(|line| line.contains("belljar")).map(str::to_owned).collect()
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

pub(crate) fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn status(pid: u32, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// Processes with a user id of the sandbox.
fn processes_of(trace: &Trace) -> Vec<String> {
    let is_its = |uid: u32| trace.first_uid != 0 && uid & !0xffff == trace.first_uid;
    let uid_of = |pid| status(pid, "Uid")?.split_whitespace().next()?.parse().ok();
    // Its ids may be another's by now, one that waits in a pool.
    let is_anothers = |pid| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        groups.contains("/belljar/") && !groups.contains(&trace.id)
    };
    let left = processes().filter(|&pid| uid_of(pid).is_some_and(is_its) && !is_anothers(pid));
    left.map(|pid| format!("left: process {pid} {}", status(pid, "Name").unwrap_or_default()))
        .collect()
}

/// The pid of this process's spawner.
pub(crate) fn spawner() -> Option<u32> {
    let own = std::process::id().to_string();
    processes().find(|&pid| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.starts_with(b"belljar-spawner\0") && status(pid, "PPid").as_deref() == Some(&*own)
    })
}
