//! Memory of daemons: what an attack leaves them with.
//!
//! A daemon that has served an attacker must not stay larger for it. Allocators keep some of what
//! is freed, and first uses are paid once; so growth counts only above a floor, and only if it is
//! still there after a while.

use std::fs;
use std::time::{Duration, Instant};

use crate::processes::{Process, Processes};

/// Growth that counts, of what a daemon had before.
const PERCENT: u64 = 5;

/// Growth that does not count yet, however small the daemon is.
pub const GROWTH_FLOOR: u64 = 32 << 20;

/// How long a daemon may take to give memory back.
const PATIENCE: Duration = Duration::from_secs(5);

/// Daemons by name and process id, with the memory that each had first.
#[derive(Debug, Clone, Default)]
pub struct Resident {
    daemons: Vec<Daemon>,
}

#[derive(Debug, Clone)]
struct Daemon {
    name: String,
    pid: u32,
    before: u64,
}

impl Daemon {
    fn most(&self) -> u64 {
        self.before + (self.before * PERCENT / 100).max(GROWTH_FLOOR)
    }
}

impl Resident {
    /// This process, and the daemons that it has started: spawners and gateways.
    pub fn of_this() -> Self {
        let mut resident = Self::default();
        resident.update();
        resident
    }

    /// A daemon that is no child of this process.
    pub fn watch(&mut self, name: &str, pid: u32) {
        if let Some(before) = anonymous(pid) {
            self.daemons.push(Daemon { name: name.to_owned(), pid, before });
        }
    }

    /// Forgets daemons that are gone, and knows those that are new.
    pub fn update(&mut self) {
        self.daemons.retain(|daemon| anonymous(daemon.pid).is_some());
        for (name, pid) in daemons_here() {
            if !self.daemons.iter().any(|daemon| daemon.pid == pid) {
                self.watch(&name, pid);
            }
        }
    }

    /// Takes what each has now for what it may have.
    pub fn rebase(&mut self) {
        self.update();
        for daemon in &mut self.daemons {
            daemon.before = anonymous(daemon.pid).unwrap_or(daemon.before);
        }
    }

    /// Which daemons have grown, once they have had time to shrink again. Each is told once.
    pub async fn grown<F: Future<Output = ()>>(
        &mut self,
        sleep: impl Fn(Duration) -> F,
    ) -> Vec<String> {
        let begin = Instant::now();
        loop {
            let grown = self.above();
            if grown.is_empty() || begin.elapsed() > PATIENCE {
                if !grown.is_empty() {
                    self.rebase();
                }
                self.update();
                return grown;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn above(&self) -> Vec<String> {
        let now = |daemon: &Daemon| anonymous(daemon.pid).filter(|now| *now > daemon.most());
        let grown = self.daemons.iter().filter_map(|daemon| Some((daemon, now(daemon)?)));
        let told = grown.map(|(daemon, now)| {
            let (name, before) = (&daemon.name, daemon.before);
            format!("{name} grew from {} to {} MiB", before >> 20, now >> 20)
        });
        told.collect()
    }

    /// How large each is, for reports.
    pub fn figures(&self) -> String {
        let each = self.daemons.iter().filter_map(|daemon| {
            let now = anonymous(daemon.pid)?;
            Some(format!("{} {} -> {} MiB", daemon.name, daemon.before >> 20, now >> 20))
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// Shows that a leak would be seen.
    pub fn prove(&self) -> anyhow::Result<()> {
        let mut watching = self.clone();
        watching.rebase();
        anyhow::ensure!(watching.above().is_empty(), "growth is seen where there is none");
        let leak = std::hint::black_box(vec![1u8; usize::try_from(GROWTH_FLOOR * 2)?]);
        let found = watching.above();
        anyhow::ensure!(!found.is_empty(), "a leak of {} bytes is not seen", leak.len());
        Ok(())
    }
}

/// Memory that belongs to a process alone; pages of files come and go.
fn anonymous(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// This process and the daemons below it.
fn daemons_here() -> Vec<(String, u32)> {
    let own = std::process::id();
    let mut found = vec![("this process".to_owned(), own)];
    for process in Processes::now().iter() {
        let line = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        let name = String::from_utf8_lossy(line.split(|byte| *byte == 0).next().unwrap_or(&[]));
        if ["belljar-spawner", "belljar-gateway"].contains(&&*name) && is_below(process, own) {
            found.push((name.into_owned(), process.pid));
        }
    }
    found
}

fn is_below(process: &Process, ancestor: u32) -> bool {
    let mut at = Some(process.clone());
    while let Some(process) = at {
        if process.parent == ancestor {
            return true;
        }
        at = Process::read(process.parent).filter(|_| process.parent > 1);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "memory that is given back tells nobody")]
    async fn no_time(_: Duration) {
        std::thread::sleep(Duration::from_millis(100));
    }

    #[test]
    fn a_leak_is_seen_once_and_what_was_freed_is_not() {
        let mut looking = Box::pin(async {
            let mut resident = Resident::of_this();
            resident.prove().unwrap();
            drop(std::hint::black_box(vec![1u8; 128 << 20]));
            assert_eq!(resident.grown(no_time).await, Vec::<String>::new());
            let leak = std::hint::black_box(vec![1u8; 128 << 20]);
            assert_eq!(resident.grown(no_time).await.len(), 1);
            assert_eq!(resident.grown(no_time).await, Vec::<String>::new());
            drop(leak);
        });
        // It waits for nothing but its own sleep.
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while looking.as_mut().poll(&mut context).is_pending() {}
    }
}
