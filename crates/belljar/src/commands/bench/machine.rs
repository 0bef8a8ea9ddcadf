//! What the kernel says about this machine and about our own processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

/// Bytes that could still be used without swapping.
pub(super) fn available() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    kilobytes(&text, "MemAvailable:").context("/proc/meminfo has no MemAvailable")
}

/// The share of memory that a process has, as the kernel divides shared pages.
pub(super) fn proportional(pid: u32) -> Option<u64> {
    kilobytes(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?, "Pss:")
}

/// Memory that a process has in RAM, shared or not.
pub(super) fn resident(pid: u32) -> Option<u64> {
    kilobytes(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS:")
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|count| count * 1024)
}

/// Time that all cores together did anything at all.
pub(super) fn busy() -> anyhow::Result<Duration> {
    of_all_cores(BUSY)
}

/// Time that cores had something to do and were not given by the host.
pub(super) fn stolen() -> anyhow::Result<Duration> {
    of_all_cores(STOLEN)
}

/// Which of: user nice system idle iowait irq softirq steal; what comes after is
/// counted in these.
const BUSY: &[usize] = &[0, 1, 2, 5, 6];
const STOLEN: &[usize] = &[7];

fn of_all_cores(which: &[usize]) -> anyhow::Result<Duration> {
    let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let ticks = ticks(&text, which).context("/proc/stat has no line for all cores")?;
    Ok(ticks_to_time(ticks))
}

fn ticks(stat: &str, which: &[usize]) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|n| n.parse().ok()).collect();
    which.iter().map(|&index| ticks.get(index).copied()).sum()
}

/// A process, as `/proc/<pid>/stat` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    parent: u32,
    /// Ticks of it and of its children that have ended and were waited for.
    ticks: u64,
}

fn parse_process(stat: &str) -> Option<Process> {
    // The name may hold anything, closing brackets included.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let parent = u32::try_from(number(1)?).ok()?;
    let ticks = [11, 12, 13, 14].into_iter().map(number).sum::<Option<u64>>()?;
    Some(Process { parent, ticks })
}

/// This process and everything below it.
#[derive(Debug)]
pub(super) struct Family(BTreeMap<u32, Process>);

/// Every process of the host.
fn all() -> anyhow::Result<BTreeMap<u32, Process>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc").context("cannot read /proc")? {
        let name = entry.context("cannot read /proc")?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // It may have ended meanwhile.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        all.extend(parse_process(&stat).map(|process| (pid, process)));
    }
    Ok(all)
}

/// The pids of the host.
pub(super) fn processes() -> Vec<u32> {
    all().unwrap_or_default().into_keys().collect()
}

/// The pids of a process and of everything below it.
pub(super) fn below(pid: u32) -> BTreeSet<u32> {
    Family::below(pid, &all().unwrap_or_default()).0.into_keys().collect()
}

impl Family {
    pub(super) fn now() -> anyhow::Result<Self> {
        Ok(Self::below(std::process::id(), &all()?))
    }

    fn below(root: u32, all: &BTreeMap<u32, Process>) -> Self {
        let mut found = BTreeMap::new();
        let mut next = vec![root];
        while let Some(pid) = next.pop() {
            let Some(process) = all.get(&pid) else { continue };
            if found.insert(pid, *process).is_none() {
                let children = all.iter().filter(|(_, child)| child.parent == pid);
                next.extend(children.map(|(pid, _)| *pid));
            }
        }
        Self(found)
    }

    /// How many there are besides this one.
    pub(super) fn others(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    /// Time on the CPU of all of them, and of those that have ended.
    pub(super) fn cpu(&self) -> Duration {
        ticks_to_time(self.0.values().map(|process| process.ticks).sum())
    }
}

/// Time on the CPU of a process and of everything below it.
pub(super) fn cpu_of(pid: u32) -> Duration {
    Family::below(pid, &all().unwrap_or_default()).cpu()
}

/// Time on the CPU of this process alone.
pub(super) fn own_cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    ticks_to_time(own_ticks(&stat).unwrap_or(0))
}

/// Time on the CPU of a process alone, without anything below it.
pub(super) fn cpu_alone(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    ticks_to_time(own_ticks(&stat).unwrap_or(0))
}

/// The pids of a process's own children.
pub(super) fn children(pid: u32) -> Vec<u32> {
    let all = all().unwrap_or_default();
    all.into_iter().filter(|(_, process)| process.parent == pid).map(|(pid, _)| pid).collect()
}

/// What a process is called.
pub(super) fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

fn own_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields = rest.split(' ').skip(11).take(2);
    fields.map(|field| field.parse::<u64>().ok()).sum()
}

fn ticks_to_time(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_millis(ticks * 1000 / per_second)
}

/// The cgroup directories of the engine that made a process: all that is below
/// `belljar*/e<number>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EngineGroups {
    /// Below each hierarchy's root.
    name: PathBuf,
}

const GROUPS: &str = "/sys/fs/cgroup";

impl EngineGroups {
    pub(super) fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        let mut names = paths.filter_map(|path| {
            let start = path.find("/belljar")? + 1;
            let mut parts = path[start..].split('/');
            Some(Path::new(parts.next()?).join(parts.next()?))
        });
        names.next().map(|name| Self { name })
    }

    /// Groups that exist now, in whatever hierarchy, each named once.
    pub(super) fn existing(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let sites = fs::read_dir(GROUPS).into_iter().flatten().flatten();
        let sites = sites.map(|entry| entry.path()).filter(|path| path.is_dir());
        for site in sites.chain([PathBuf::from(GROUPS)]) {
            let top = site.join(&self.name);
            if top.is_dir() {
                collect(&top, &top, &mut found);
            }
        }
        found
    }

    /// Bytes that the kernel charges to everything of the engine, its own
    /// structures included; neighbours make no difference to it.
    pub(super) fn charged(&self) -> Option<u64> {
        let places = ["memory/", ""].map(|site| Path::new(GROUPS).join(site).join(&self.name));
        let files = places.iter().flat_map(|place| {
            ["memory.usage_in_bytes", "memory.current"].map(|name| place.join(name))
        });
        let mut texts = files.filter_map(|file| fs::read_to_string(file).ok());
        texts.next()?.trim().parse().ok()
    }

    /// Time on the CPU that the kernel charges to everything of the engine, what
    /// has ended included.
    pub(super) fn cpu(&self) -> Option<Duration> {
        let sites = fs::read_dir(GROUPS).into_iter().flatten().flatten();
        let mut files = sites.map(|entry| entry.path().join(&self.name).join("cpuacct.usage"));
        if let Some(text) = files.find_map(|file| fs::read_to_string(file).ok()) {
            return text.trim().parse().ok().map(Duration::from_nanos);
        }
        let text = fs::read_to_string(Path::new(GROUPS).join(&self.name).join("cpu.stat")).ok()?;
        let micros = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        micros.trim().parse().ok().map(Duration::from_micros)
    }

    /// The number of the zygote that was started last.
    pub(super) fn newest_zygote(&self) -> u32 {
        let groups = self.existing();
        let names = groups.iter().filter_map(|name| name.to_str()?.strip_prefix('z'));
        names.filter_map(|number| number.parse().ok()).max().unwrap_or(0)
    }

    /// The pids of zygotes that live now.
    pub(super) fn zygotes(&self) -> Vec<u32> {
        let groups = self.existing();
        let zygotes = groups.iter().filter(|name| name.ends_with("z"));
        let mut pids = BTreeSet::new();
        for name in zygotes {
            let sites = fs::read_dir(GROUPS).into_iter().flatten().flatten();
            let sites = sites.map(|entry| entry.path()).chain([PathBuf::from(GROUPS)]);
            for site in sites {
                let procs = site.join(&self.name).join(name).join("cgroup.procs");
                let text = fs::read_to_string(procs).unwrap_or_default();
                pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
            }
        }
        pids.into_iter().collect()
    }
}

fn collect(top: &Path, dir: &Path, found: &mut BTreeSet<PathBuf>) {
    found.extend(dir.strip_prefix(top).ok().map(Path::to_owned));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(top, &entry.path(), found);
        }
    }
}

/// How many mounts this process sees.
pub(super) fn mounts() -> anyhow::Result<usize> {
    let text = fs::read_to_string("/proc/self/mountinfo").context("cannot read mountinfo")?;
    Ok(text.lines().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let stat = "7 (a) b) S 3 7 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 5 6 7";
        assert_eq!(parse_process(stat), Some(Process { parent: 3, ticks: 100 }));
        assert_eq!(own_ticks(stat), Some(30));
        assert_eq!(parse_process(""), None);
    }

    #[test]
    fn a_family_is_what_is_below() {
        let process = |parent| Process { parent, ticks: 1 };
        let all =
            BTreeMap::from([(1, process(0)), (2, process(1)), (3, process(2)), (4, process(1))]);
        let family = Family::below(2, &all);
        assert_eq!((family.others(), family.0.keys().copied().collect()), (1, vec![2, 3]));
    }

    #[test]
    fn busy_is_everything_but_idle_and_stolen_is_the_hosts() {
        let stat = "cpu  1 2 4 100 200 8 16 999 0 0\ncpu0 9";
        assert_eq!((ticks(stat, BUSY), ticks(stat, STOLEN)), (Some(31), Some(999)));
        assert_eq!(ticks("cpu  1 2 4", STOLEN), None);
    }

    #[test]
    fn the_groups_of_an_engine_are_found_from_a_process() {
        let text = "4:memory:/belljar/e3/z0/sb_1/c1\n2:cpuacct:/belljar/e3/z0/sb_1/c1\n0::/\n";
        let groups = EngineGroups::parse(text).unwrap();
        assert_eq!(groups.name, Path::new("belljar/e3"));
        assert_eq!(EngineGroups::parse("0::/user.slice\n"), None);
    }

    #[test]
    fn sizes_are_read_from_kilobytes() {
        assert_eq!(kilobytes("A: 1 kB\nPss:   12 kB\n", "Pss:"), Some(12 << 10));
    }
}
