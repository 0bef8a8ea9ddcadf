//! What this process and the two that belong to it use, from `/proc`.

use std::collections::BTreeMap;
use std::fs;

use super::metrics;
use crate::start::Role;

/// Names under which this executable starts itself again.
const OWN: [(&str, &str); 2] = [("belljar-spawner", "spawner"), ("belljar-gateway", "gateway")];

/// CPU time that was counted already, by process.
pub(super) struct Processes {
    role: Role,
    ticks_a_second: f64,
    page: u64,
    counted: BTreeMap<u32, u64>,
}

/// What one process has used so far.
#[derive(Debug, PartialEq, Eq)]
struct Used {
    ticks: u64,
    pages: u64,
}

impl Processes {
    pub(super) fn new(role: Role) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a hundred")]
        let ticks_a_second = rustix::param::clock_ticks_per_second() as f64;
        let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
        Self { role, ticks_a_second, page, counted: BTreeMap::new() }
    }

    pub(super) fn look(&mut self) {
        let own = (std::process::id(), self.role.as_str());
        let children = children().into_iter().filter_map(|pid| Some((pid, name(pid)?)));
        let mut now = BTreeMap::new();
        for (pid, name) in std::iter::once(own).chain(children) {
            let Some(used) = fs::read_to_string(format!("/proc/{pid}/stat")).ok() else { continue };
            let Some(used) = read(&used) else { continue };
            let before = self.counted.get(&pid).copied().unwrap_or(0);
            #[expect(clippy::cast_precision_loss, reason = "ticks of a process, not of a century")]
            let seconds = used.ticks.saturating_sub(before) as f64 / self.ticks_a_second;
            metrics().process_cpu_seconds.at([name.into()]).inc_by(seconds);
            let bytes = i64::try_from(used.pages * self.page).unwrap_or(i64::MAX);
            metrics().process_resident_bytes.at([name.into()]).set(bytes);
            now.insert(pid, used.ticks);
        }
        self.counted = now;
    }
}

/// Processes that this one started and that still run.
fn children() -> Vec<u32> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).ok();
    let lists = tasks.flatten().filter_map(of_task);
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
        })
        .collect()
}

/// What a process of ours is there for; `None` for others.
fn name(pid: u32) -> Option<&'static str> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let first = line.split(|byte| *byte == 0).next()?;
    OWN.iter().find(|(known, _)| known.as_bytes() == first).map(|(_, name)| *name)
}

/// From `/proc/<pid>/stat`; the name in it, in brackets, may hold anything.
fn read(stat: &str) -> Option<Used> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
    // proc_pid_stat(5) counts from 1, and two fields are before the bracket.
    Some(Used { ticks: number(11)? + number(12)?, pages: number(21)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_confuse() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 1 0 0 0 30 12 5 6 20 0 1 0 99 4096 55 0";
        assert_eq!(read(stat), Some(Used { ticks: 42, pages: 55 }));
        assert_eq!(read("7 (a"), None);
    }

    #[test]
    fn this_process_is_read() {
        let own = fs::read_to_string("/proc/self/stat").unwrap();
        assert!(read(&own).unwrap().pages > 0);
    }
}
