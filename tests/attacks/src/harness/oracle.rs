//! Looks at the host after every run: was anything touched, is anything left? Only what
//! this program's own engines made counts; others may run beside them.

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belljar_testkit::{CapturedLog, OwnEngines, Process, Resident};

use crate::harness::canary::Canaries;
use crate::harness::kernel_log::{KernelLog, is_trouble};
use crate::harness::stage::Trace;
use crate::harness::world::CREDENTIAL;

#[derive(Debug)]
pub(crate) struct Oracle {
    canaries: Arc<Mutex<Canaries>>,
    log: Option<KernelLog>,
    engines: Arc<OwnEngines>,
    is_spawner_gone: bool,
    mounts: Vec<String>,
    /// Processes that were told of already.
    escaped: Vec<Process>,
    descriptors: usize,
    /// The node, which is this process, its spawner and gateways.
    resident: Resident,
    /// What the engine and the gateway log.
    captured: CapturedLog,
}

/// What clean-up has not removed by then is left.
const PATIENCE: Duration = Duration::from_secs(30);

impl Oracle {
    /// Remembers how things are now, while no sandbox lives.
    pub(crate) fn new(
        canaries: Arc<Mutex<Canaries>>,
        engines: Arc<OwnEngines>,
        captured: CapturedLog,
    ) -> Self {
        let mounts = engines.mounts();
        Self {
            canaries,
            log: KernelLog::open().ok(),
            engines,
            is_spawner_gone: false,
            mounts,
            escaped: Vec::new(),
            descriptors: descriptors(),
            resident: Resident::of_this(),
            captured,
        }
    }

    /// Shows that what it looks for would be found.
    pub(crate) fn prove(&self) -> anyhow::Result<()> {
        self.resident.prove()?;
        let secret = self.canaries().secrets.provider_key.clone();
        tracing::info!(target: "belljar_attacks", secret, "planted");
        anyhow::ensure!(self.logged().len() == 1, "a secret in a log is not found");
        tracing::info!(target: "belljar_attacks", "nothing");
        anyhow::ensure!(self.logged().is_empty(), "one is found where there is none");
        Ok(())
    }

    fn canaries(&self) -> MutexGuard<'_, Canaries> {
        self.canaries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines that were logged with a secret since the last time.
    pub(crate) fn logged(&self) -> Vec<String> {
        let log = self.captured.take();
        let secrets = self.canaries().secrets.clone();
        let has = |line: &&str| {
            line.contains(CREDENTIAL) || secrets.all().iter().any(|secret| line.contains(secret))
        };
        log.lines().filter(has).map(|line| format!("a secret was logged: {line}")).collect()
    }

    /// What the daemons have kept of a run. After a control, whose attack may have grown them,
    /// that is how they are from now on.
    pub(crate) async fn grown(&mut self, is_control: bool) -> Vec<String> {
        if is_control {
            self.resident.rebase();
            return Vec::new();
        }
        self.resident.grown(tokio::time::sleep).await
    }

    /// What is wrong in a sandbox's own traces: groups and processes left.
    pub(crate) async fn residue(&self, traces: &[Trace]) -> Vec<String> {
        settled(|| {
            let processes = self.engines.processes();
            let mut left = Vec::new();
            for trace in traces {
                let groups = self.engines.groups_of(&trace.id);
                left.extend(groups.iter().map(|dir| format!("left: {}", dir.display())));
                let processes = processes.iter().filter(|process| is_of(process, trace));
                left.extend(processes.map(told));
            }
            left
        })
        .await
    }

    /// What is wrong on the host, while nothing runs.
    pub(crate) async fn host(&mut self) -> Vec<String> {
        let mut wrong = settled(|| {
            let mut wrong = Vec::new();
            let new = self.engines.mounts().into_iter();
            let new = new.filter(|mount| !self.mounts.contains(mount));
            wrong.extend(new.map(|mount| format!("left: mount {mount}")));
            wrong.extend(self.escaped().iter().map(told));
            let open = descriptors();
            if open > self.descriptors {
                wrong.push(format!("{open} descriptors where there were {}", self.descriptors));
            }
            wrong
        })
        .await;
        // What is wrong once would else be told after every later run, too.
        self.mounts = self.engines.mounts();
        self.escaped.extend(self.escaped());
        self.descriptors = self.descriptors.max(descriptors());
        let spawner = Process::read(self.engines.spawner());
        if !spawner.is_some_and(|spawner| spawner.is_spawner()) && !self.is_spawner_gone {
            wrong.push("the spawner is gone".to_owned());
            self.is_spawner_gone = true;
        }
        wrong
    }

    /// Processes that got out of the groups of their sandbox. What waits in a pool, and
    /// zygotes, are in groups.
    fn escaped(&self) -> Vec<Process> {
        let mut found = self.engines.processes();
        found.retain(|process| !process.groups().contains("/belljar"));
        found.retain(|process| !self.escaped.iter().any(|known| known.pid == process.pid));
        found
    }

    /// What attackers touched of the canaries, and what the kernel had to say.
    pub(crate) fn touched(&mut self) -> Vec<String> {
        let mut wrong = self.canaries().touched();
        let news = self.log.iter_mut().flat_map(KernelLog::news);
        wrong.extend(news.filter(|line| is_trouble(line)).map(|line| format!("kernel: {line}")));
        wrong
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

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Returns true if a process is in a sandbox's group, or has one of its user ids and is
/// in no other sandbox's group: its ids may be another's by now, one that waits in a pool.
fn is_of(process: &Process, trace: &Trace) -> bool {
    let groups = process.groups();
    let has_user = || {
        let is_its = |user: u32| trace.first_uid != 0 && user & !0xffff == trace.first_uid;
        process.user().is_some_and(is_its)
    };
    groups.contains(&trace.id) || !groups.contains("/belljar") && has_user()
}

fn told(process: &Process) -> String {
    format!("left: process {} {}", process.pid, process.name)
}
