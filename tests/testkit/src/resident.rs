//! Memory of daemons: what an attack leaves them with.
//!
//! A daemon that has served an attacker must not stay larger for it. Allocators keep some of what
//! is freed, and first uses are paid once; so growth counts only above a floor, and only if it is
//! still there once the daemon has nothing left to do. That is no question of time: a host that
//! gives no cores delays the daemon and its observer alike, so looks are counted.

use std::fs;
use std::time::Duration;

use crate::processes::{Process, Processes};

/// Growth that counts, of what a daemon had before.
const PERCENT: u64 = 5;

/// Growth that does not count yet, however small the daemon is.
pub const GROWTH_FLOOR: u64 = 32 << 20;

/// Looks in a row at which a daemon is at rest and gives nothing back, after which it has grown.
const LOOKS_AT_REST: u32 = 50;

/// Looks after which one has grown that is never at rest.
const MAX_LOOKS: u32 = 1200;

const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// The least that a daemon gives back, if it still does.
const GIVEN_BACK: u64 = 1 << 20;

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

    /// Which daemons have grown, once they have given back what they can. Each is told once.
    pub async fn grown<F: Future<Output = ()>>(
        &mut self,
        sleep: impl Fn(Duration) -> F,
    ) -> Vec<String> {
        let mut looks = Looks::default();
        loop {
            let above = self.above();
            let bytes = above.iter().map(|(_, now)| now).sum::<u64>();
            let are_at_rest = above.iter().all(|(daemon, _)| is_at_rest(daemon.pid));
            if above.is_empty() || looks.are_enough(bytes, are_at_rest) {
                let told = above.iter().map(|(daemon, now)| {
                    let (name, before) = (&daemon.name, daemon.before);
                    format!("{name} grew from {} to {} MiB", before >> 20, now >> 20)
                });
                let told: Vec<_> = told.collect();
                if !told.is_empty() {
                    self.rebase();
                }
                self.update();
                return told;
            }
            sleep(BETWEEN_LOOKS).await;
        }
    }

    /// The daemons that have more than they may, with what they have.
    fn above(&self) -> Vec<(Daemon, u64)> {
        let now = |daemon: &Daemon| anonymous(daemon.pid).filter(|now| *now > daemon.most());
        self.daemons.iter().filter_map(|daemon| Some((daemon.clone(), now(daemon)?))).collect()
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

/// Looks at daemons that have more than they may.
#[derive(Debug, Default)]
struct Looks {
    /// The least that they had.
    least: Option<u64>,
    at_rest: u32,
    all: u32,
}

impl Looks {
    /// Counts one. Returns true if they will give nothing back any more.
    fn are_enough(&mut self, bytes: u64, are_at_rest: bool) -> bool {
        let has_shrunk = self.least.is_none_or(|least| bytes + GIVEN_BACK <= least);
        if has_shrunk {
            self.least = Some(bytes);
        }
        self.at_rest = if has_shrunk || !are_at_rest { 0 } else { self.at_rest + 1 };
        self.all += 1;
        self.at_rest >= LOOKS_AT_REST || self.all >= MAX_LOOKS
    }
}

/// Returns true if no thread of a process runs, or would if it had a core. The one that asks does
/// not count.
fn is_at_rest(pid: u32) -> bool {
    let asks = fs::read_link("/proc/thread-self").unwrap_or_default();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.map(|thread| thread.path()).filter(|thread| !thread.ends_with(&asks)).all(|thread| {
        let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
        Process::parse(pid, &stat).is_none_or(|thread| !matches!(thread.state, 'R' | 'D'))
    })
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
        std::thread::sleep(Duration::from_millis(10));
    }

    #[test]
    fn what_is_still_given_back_is_waited_for_however_long_it_takes() {
        let mut looks = Looks::default();
        for left in (0..500).rev() {
            assert!(!looks.are_enough(left * GIVEN_BACK, true), "{left}");
        }
        for _ in 1..LOOKS_AT_REST {
            assert!(!looks.are_enough(0, true));
        }
        assert!(looks.are_enough(0, true));
    }

    #[test]
    fn a_daemon_at_work_is_waited_for_but_not_for_ever() {
        let mut looks = Looks::default();
        for look in 1..MAX_LOOKS {
            // At rest now and then.
            assert!(!looks.are_enough(1000, look % LOOKS_AT_REST != 0), "{look}");
        }
        assert!(looks.are_enough(1000, false));
    }

    #[test]
    fn a_process_that_waits_is_at_rest_and_one_that_computes_is_not() {
        let run =
            |script: &str| std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        let until = |pid: u32, is_so: bool| {
            while is_at_rest(pid) != is_so {
                std::thread::yield_now();
            }
        };
        for (script, is_so) in [("exec sleep 600", true), ("while :; do :; done", false)] {
            let mut child = run(script);
            until(child.id(), is_so);
            child.kill().unwrap();
            child.wait().unwrap();
        }
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
