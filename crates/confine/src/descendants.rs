//! The processes below another, and their end, where neither a namespace nor a cgroup holds them.
//!
//! ```text
//! stop     all that run, until a pass finds none that is new
//! kill     all of them
//! again    until two passes in a row find nothing
//! ```
//!
//! A killed process leaves room for another to be forked; a stopped one forks no more. So the passes
//! catch up with code that forks. They need a subreaper above: an orphan must not leave the tree.
//!
//! Invariant: a signal goes to the process that was seen, never to another that has its pid since
//! then.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
use rustix::process::{Signal, pidfd_send_signal};
use rustix::thread::{Timespec, nanosleep};

/// Passes that only stop, before the processes that they found are killed.
const STOP_PASSES: usize = 64;
/// Passes in a row that must find nothing. While a pass reads, an orphan may move to a parent
/// whose children were read before.
const QUIET_PASSES: usize = 2;
const SHORTEST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// A process for as long as it is not reaped: its pid and its start.
type Key = (u32, u64);

/// Lists the pids of `root` and of all processes below it, as `proc` shows them. A process that
/// ends meanwhile is left out.
pub fn with_descendants(proc: impl AsFd, root: u32) -> Vec<u32> {
    let mut seen = BTreeSet::from([root]);
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        next += 1;
        for child in children(proc.as_fd(), pid) {
            if seen.insert(child) {
                found.push(child);
            }
        }
    }
    found
}

/// Lists the children of a process, those of all its threads.
pub fn children(proc: impl AsFd, pid: u32) -> Vec<u32> {
    let Ok(tasks) = directory(proc, &format!("{pid}/task")) else { return Vec::new() };
    let mut found = Vec::new();
    for task in numbers(&tasks) {
        let text = read(&tasks, &format!("{task}/children")).unwrap_or_default();
        found.extend(text.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    found
}

/// Opens the procfs of this process.
pub fn open_proc() -> io::Result<OwnedFd> {
    directory(CWD, "/proc")
}

/// Ends all processes that `list` names, and those that it names later, until it names no live
/// one. `list` also reaps, where that is the caller's to do. `false`: some are left after `longest`.
pub fn end(
    proc: impl AsFd,
    longest: Duration,
    mut list: impl FnMut() -> io::Result<Vec<u32>>,
) -> io::Result<bool> {
    let start = Instant::now();
    let (mut quiet, mut pause) = (0, SHORTEST_PAUSE);
    loop {
        let stopped = stop_all(proc.as_fd(), || start.elapsed() > longest, &mut list)?;
        if stopped.is_empty() {
            quiet += 1;
            if quiet == QUIET_PASSES {
                return Ok(true);
            }
            continue;
        }
        quiet = 0;
        for key in stopped {
            signal(proc.as_fd(), key, Signal::KILL);
        }
        if start.elapsed() > longest {
            return Ok(false);
        }
        let time = Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
        // Woken early by a signal, the next pass only comes sooner.
        let _ = nanosleep(&time);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Stops what runs, until a pass finds none that is new, or it is late.
fn stop_all(
    proc: impl AsFd,
    is_late: impl Fn() -> bool,
    list: &mut impl FnMut() -> io::Result<Vec<u32>>,
) -> io::Result<BTreeSet<Key>> {
    let mut stopped = BTreeSet::new();
    for _ in 0..STOP_PASSES {
        let alive = list()?.into_iter().filter_map(|pid| alive(proc.as_fd(), pid));
        let new: Vec<Key> = alive.filter(|key| !stopped.contains(key)).collect();
        if new.is_empty() {
            break;
        }
        for key in new {
            signal(proc.as_fd(), key, Signal::STOP);
            stopped.insert(key);
        }
        if is_late() {
            break;
        }
    }
    Ok(stopped)
}

/// Signals a process, unless it is gone.
fn signal(proc: impl AsFd, (pid, started): Key, signal: Signal) {
    // A directory of procfs stands for its process: what is read in it is of the process that gets
    // the signal.
    let Ok(process) = directory(proc, &pid.to_string()) else { return };
    let found = read(&process, "stat").ok().and_then(|text| started_if_alive(&text));
    if found == Some(started) {
        let _ = pidfd_send_signal(&process, signal);
    }
}

fn alive(proc: impl AsFd, pid: u32) -> Option<Key> {
    let text = read(proc, &format!("{pid}/stat")).ok()?;
    Some((pid, started_if_alive(&text)?))
}

/// Reads the start of a process from its `stat`. `None`: it is a zombie, and no other thread of it
/// runs. A name may hold any byte, so fields are counted from its end.
fn started_if_alive(text: &str) -> Option<u64> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    // proc(5) counts from 1: the state is the third, the number of threads the 20th, the start the
    // 22nd. The state is that of the first thread, which may end before others.
    let threads: u64 = fields.nth(16)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    (!matches!(state, "Z" | "X") || threads > 1).then_some(started)
}

fn directory(at: impl AsFd, path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(at, path, flags, Mode::empty())?)
}

/// Reads a file of procfs to its end: a list of children can be long.
fn read(at: impl AsFd, path: &str) -> io::Result<String> {
    let file = openat(at, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = Vec::new();
    let mut room = [0; 4096];
    loop {
        match rustix::io::read(&file, &mut room)? {
            0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
            count => text.extend_from_slice(&room[..count]),
        }
    }
}

fn numbers(dir: impl AsFd) -> Vec<u32> {
    let Ok(entries) = Dir::read_from(dir) else { return Vec::new() };
    let number = |name: &CStr| name.to_str().ok()?.parse().ok();
    entries.filter_map(|entry| number(entry.ok()?.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A shell that prints a line once it has started what it starts.
    fn shell(script: &str) -> Child {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child
    }

    fn below(root: u32) -> Vec<u32> {
        let mut found = with_descendants(open_proc().unwrap(), root);
        found.retain(|&pid| pid != root);
        found
    }

    #[test]
    fn the_whole_tree_ends_and_its_root_does_not() {
        let mut child =
            shell("sh -c 'sleep 60 & sleep 60 & wait' & sleep 60 & echo; wait; read end");
        let proc = open_proc().unwrap();
        let list = || Ok(below(child.id()));
        assert!(end(&proc, Duration::from_secs(30), list).unwrap());
        assert!(alive(&proc, child.id()).is_some(), "the root was killed");
        assert!(below(child.id()).iter().all(|&pid| alive(&proc, pid).is_none()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_cannot_be_ended_in_time_is_told() {
        let mut child = shell("echo; exec sleep 60");
        let proc = open_proc().unwrap();
        // Without any time, it is not known that the kill has worked.
        let list = || Ok(vec![child.id()]);
        assert!(!end(&proc, Duration::ZERO, list).unwrap());
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_process_with_the_same_pid_is_left_alone() {
        let mut child = shell("echo; exec sleep 60");
        let proc = open_proc().unwrap();
        let (pid, started) = alive(&proc, child.id()).unwrap();
        signal(&proc, (pid, started + 1), Signal::KILL);
        assert!(alive(&proc, pid).is_some());
        signal(&proc, (pid, started), Signal::KILL);
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn zombies_are_not_alive_whatever_their_names() {
        let stat = |state: &str, threads: u32| {
            format!(
                "7 (a) Z 9) {state} 1 7 7 0 -1 4 100 0 0 0 11 22 33 44 20 0 {threads} 0 777 1000 25"
            )
        };
        assert_eq!(started_if_alive(&stat("T", 1)), Some(777));
        assert_eq!(started_if_alive(&stat("Z", 1)), None);
        assert_eq!(started_if_alive(&stat("X", 0)), None);
        // Its first thread has ended, another one runs.
        assert_eq!(started_if_alive(&stat("Z", 2)), Some(777));
        assert_eq!(started_if_alive("7 (a"), None);
    }
}
