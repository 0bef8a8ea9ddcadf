//! Processes of the host, as `/proc` shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

/// A process in `/proc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    /// That of its first thread, which may end before others.
    pub state: char,
    pub threads: u64,
    pub name: String,
}

impl Process {
    pub fn read(pid: u32) -> Option<Self> {
        Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    pub(crate) fn parse(pid: u32, stat: &str) -> Option<Self> {
        // The name may hold anything, parentheses and spaces too.
        let (front, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        Some(Self {
            pid,
            state: fields.next()?.chars().next()?,
            parent: fields.next()?.parse().ok()?,
            // proc(5): the parent is the fourth field, this is the 20th.
            threads: fields.nth(15)?.parse().ok()?,
            name: front.split_once('(')?.1.to_owned(),
        })
    }

    /// Returns true unless it is a zombie that runs no code, in no other thread either.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X') || self.threads > 1
    }

    /// The CPU time that it has used so far, in the kernel too: proc(5).
    pub fn cpu(&self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        cpu_ticks(&stat).map(|ticks| Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
    }

    /// The host's user id that it has now.
    pub fn user(&self) -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// Its cgroups, one line for each hierarchy: cgroups(7).
    pub fn groups(&self) -> String {
        fs::read_to_string(format!("/proc/{}/cgroup", self.pid)).unwrap_or_default()
    }

    /// Returns true if it makes the sandboxes of an engine.
    pub fn is_spawner(&self) -> bool {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        line.starts_with(b"belljar-spawner\0")
    }
}

/// What Linux tells programs, whatever it counts in itself.
const TICKS_PER_SECOND: u64 = 100;

fn cpu_ticks(stat: &str) -> Option<u64> {
    // The 14th and 15th field; the name, which is the second, may hold spaces.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// All processes of the host at one moment.
#[derive(Debug, Clone, Default)]
pub struct Processes(BTreeMap<u32, Process>);

impl Processes {
    pub fn now() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Self(pids.filter_map(|pid| Some((pid, Process::read(pid)?))).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Process> {
        self.0.values()
    }

    /// Returns all live processes below `root`, itself not counted.
    pub fn below(&self, root: u32) -> Vec<Process> {
        let mut family = BTreeSet::from([root]);
        loop {
            let is_new = |process: &&Process| {
                family.contains(&process.parent) && !family.contains(&process.pid)
            };
            let more: Vec<u32> = self.iter().filter(is_new).map(|process| process.pid).collect();
            if more.is_empty() {
                break;
            }
            family.extend(more);
        }
        family.remove(&root);
        let found = self.iter().filter(|process| family.contains(&process.pid));
        found.filter(|process| process.is_alive()).cloned().collect()
    }

    /// Returns a process, its parent, and so on.
    pub fn line_of(&self, pid: u32) -> impl Iterator<Item = &Process> {
        // Parents are read one after the other and may form a ring, if pids are reused.
        std::iter::successors(self.0.get(&pid), |process| self.0.get(&process.parent)).take(100)
    }
}

impl FromIterator<Process> for Processes {
    fn from_iter<T: IntoIterator<Item = Process>>(processes: T) -> Self {
        Self(processes.into_iter().map(|process| (process.pid, process)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, state: char) -> Process {
        Process { pid, parent, state, threads: 1, name: String::new() }
    }

    #[test]
    fn names_may_hold_anything() {
        let stat = "7 (a) b (c) S 3 7 7 0 -1 4194560 600 0 1 0 120 30 4 5 20 0 2 0 77";
        let read = Process::parse(7, stat).unwrap();
        let name = "a) b (c".to_owned();
        assert_eq!(read, Process { pid: 7, parent: 3, state: 'S', threads: 2, name });
        assert!(read.is_alive());
    }

    #[test]
    fn a_process_lives_while_a_thread_of_it_runs() {
        let is_alive = |state, threads| Process { threads, ..process(7, 3, state) }.is_alive();
        assert!(is_alive('S', 1) && is_alive('Z', 2));
        assert!(!is_alive('Z', 1) && !is_alive('X', 0));
    }

    #[test]
    fn cpu_time_is_that_of_user_and_kernel() {
        let stat = "7 (a b) S 3 7 7 0 -1 4194560 600 0 1 0 120 30 4 5 20 0 1 0 77";
        assert_eq!(cpu_ticks(stat), Some(150));
        assert!(Process::read(std::process::id()).unwrap().cpu().is_some());
    }

    #[test]
    fn families_are_followed_both_ways() {
        let all = [(1, 0, 'S'), (5, 1, 'S'), (9, 5, 'S'), (3, 9, 'S'), (4, 9, 'Z'), (8, 1, 'S')];
        let all: Processes = all.into_iter().map(|(a, b, c)| process(a, b, c)).collect();
        let below: Vec<u32> = all.below(5).iter().map(|process| process.pid).collect();
        assert_eq!(below, [3, 9]);
        let line: Vec<u32> = all.line_of(3).map(|process| process.pid).collect();
        assert_eq!(line, [3, 9, 5, 1]);
    }

    #[test]
    fn a_ring_of_parents_ends() {
        let ring: Processes = [process(2, 3, 'S'), process(3, 2, 'S')].into_iter().collect();
        assert_eq!(ring.line_of(2).count(), 100);
    }

    #[test]
    fn this_process_is_there() {
        let own = std::process::id();
        let all = Processes::now();
        assert!(all.line_of(own).next().is_some_and(Process::is_alive));
        assert!(all.line_of(own).next().unwrap().user().is_some());
    }
}
