//! This machine, read from `/proc` and the cgroup trees.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::case::HANG_LIMIT;
use crate::evidence::{Host, Inhabitant};

/// When a process began, in ticks; a later one with its number began later.
pub(crate) fn start_of(pid: u32) -> Option<u64> {
    stat(pid).filter(|(state, ..)| state != "Z").map(|(_, _, start)| start)
}

/// State, parent, start.
fn stat(pid: u32) -> Option<(String, u32, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<_> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.first()?.to_string(), fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?))
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Kills a process, if it is the one that began then, and waits. Answers whether
/// it is still there.
pub(crate) fn end(pid: u32, start: u64) -> bool {
    let began = Instant::now();
    while start_of(pid) == Some(start) {
        if began.elapsed() > HANG_LIMIT {
            return true;
        }
        signal(pid, Signal::CONT);
        signal(pid, Signal::KILL);
        nap();
    }
    false
}

#[expect(clippy::disallowed_methods, reason = "nobody tells when a process has ended")]
fn nap() {
    std::thread::sleep(Duration::from_millis(10));
}

/// The processes below one, with their starts.
pub(crate) fn below(root: u32) -> Vec<(u32, u64)> {
    let all: Vec<_> = pids().filter_map(|pid| stat(pid).map(|stat| (pid, stat))).collect();
    let (mut found, mut front) = (Vec::new(), vec![root]);
    while let Some(parent) = front.pop() {
        for (pid, (state, of, start)) in &all {
            if *of == parent && state != "Z" {
                found.push((*pid, *start));
                front.push(*pid);
            }
        }
    }
    found
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

pub(crate) fn command(pid: u32) -> String {
    let read = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let first = read.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(first).into_owned()
}

pub(crate) fn descriptors(pid: u32) -> u64 {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |entries| entries.count() as u64)
}

/// Resident memory, in KiB.
pub(crate) fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// What an engine with this state directory calls its cgroups. The engine is built
/// with the same compiler, whose hasher is always seeded alike.
pub(crate) fn groups_of(state: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    state.as_os_str().hash(&mut hasher);
    format!("belljar-{:016x}", hasher.finish())
}

/// The roots of all cgroup hierarchies.
fn hierarchies() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let lines = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (place, kind) = (fields.nth(1)?, fields.next()?);
        matches!(kind, "cgroup" | "cgroup2").then(|| PathBuf::from(place))
    });
    lines.collect()
}

fn trees(groups: &str) -> Vec<PathBuf> {
    hierarchies().iter().map(|root| root.join(groups)).filter(|path| path.exists()).collect()
}

/// Whether any is left. Only for those of engines that are dead.
pub(crate) fn remove_groups(groups: &str) -> bool {
    let began = Instant::now();
    loop {
        let trees = trees(groups);
        for tree in &trees {
            for place in walk(tree).into_iter().rev() {
                for pid in members(&place) {
                    signal(pid, Signal::KILL);
                }
                let _ = fs::remove_dir(place);
            }
        }
        let left = trees.iter().any(|tree| tree.exists());
        if !left || began.elapsed() > HANG_LIMIT {
            return left;
        }
        nap();
    }
}

/// A directory and all below, each before what is in it.
fn walk(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    let mut next = 0;
    while let Some(place) = found.get(next).cloned() {
        next += 1;
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.push(entry.path());
            }
        }
    }
    found
}

fn members(group: &Path) -> Vec<u32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn is_id(name: &str) -> bool {
    name.len() == 26 && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'))
}

/// The processes of every sandbox of an engine, by the sandbox's cgroup.
pub(crate) fn inhabited(state: &Path) -> Vec<(String, Vec<u32>)> {
    let groups = groups_of(state);
    let mut found: std::collections::BTreeMap<String, BTreeSet<u32>> = Default::default();
    for tree in trees(&groups) {
        for place in walk(&tree) {
            let below = place.strip_prefix(&tree).unwrap_or(&place);
            let name = below.iter().filter_map(|part| part.to_str()).find(|part| is_id(part));
            if let Some(name) = name {
                found.entry(name.to_owned()).or_default().extend(members(&place));
            }
        }
    }
    found.into_iter().map(|(id, pids)| (id, pids.into_iter().collect())).collect()
}

/// What is there of an engine. `pid`: its daemon, if it should run.
pub(crate) fn look(name: &str, state: &Path, daemon: Option<u32>) -> Host {
    let mut host = Host { name: name.to_owned(), ..Host::default() };
    host.is_served = daemon.is_some_and(|pid| start_of(pid).is_some());
    for (id, pids) in inhabited(state) {
        let alive: Vec<_> = pids.into_iter().filter(|pid| start_of(*pid).is_some()).collect();
        host.inhabitants.extend(alive.iter().filter_map(|pid| inhabitant(*pid, &id)));
        if alive.is_empty() {
            host.empty.insert(id)
        } else {
            host.live.insert(id)
        };
    }
    let place = state.display().to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let ours = mounts.lines().filter(|line| line.contains(&place));
    host.rubbish.extend(ours.map(|line| format!("a mount is left: {line}")));
    for entry in fs::read_dir(state.join("work")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let of = name.split_once('-').map_or("", |(_, id)| id);
        if !host.live.contains(of) {
            host.rubbish.push(format!("a work directory is left: {name}"));
        }
    }
    let engines: BTreeSet<_> = trees(&groups_of(state))
        .iter()
        .flat_map(|tree| fs::read_dir(tree).into_iter().flatten().flatten())
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    if engines.len() > usize::from(host.is_served) {
        host.rubbish.push(format!("cgroups of dead engines are left: {engines:?}"));
    }
    host
}

/// Namespaces that no sandbox shares with the host.
const OWN: [&str; 6] = ["user", "mnt", "pid", "net", "ipc", "uts"];

fn inhabitant(pid: u32, sandbox: &str) -> Option<Inhabitant> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u32>().ok()
    };
    let namespace = |pid: &str, name: &str| fs::read_link(format!("/proc/{pid}/ns/{name}")).ok();
    let number = pid.to_string();
    let shared = OWN.iter().filter(|name| {
        let (theirs, ours) = (namespace(&number, name), namespace("1", name));
        theirs.is_some() && theirs == ours
    });
    Some(Inhabitant {
        pid,
        sandbox: sandbox.to_owned(),
        shared: shared.map(|name| (*name).to_owned()).collect(),
        has_filter: field("Seccomp:") == Some(2),
        has_no_new_privileges: field("NoNewPrivs:") == Some(1),
        is_root: field("Uid:") == Some(0),
    })
}
