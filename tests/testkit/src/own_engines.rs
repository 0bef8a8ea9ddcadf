//! The traces that this program's own engines leave on the host.
//!
//! Other engines may run on the same host. Their state directories differ, and so do the
//! trees of their cgroups; but user ids are leased per state directory, so sandboxes of
//! two engines may have the same ones. A process is attributed by descent from this
//! program first, then by its cgroup, and by its user id only if nothing shows that it
//! is another engine's.

mod planted;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use crate::{Process, Processes};

/// User ids that sandboxes have, as the engine leases them: crates/engine/src/state.rs.
const FIRST_USER: u32 = 0x1000_0000;
const USERS_PER_LEASE: u32 = 0x10_0000;

/// The engines of this program: all that have their state in one directory.
#[derive(Debug, Clone)]
pub struct OwnEngines {
    state: PathBuf,
    /// The tree of their cgroups below the root of every hierarchy, as in `/belljar/e0`.
    tree: String,
    /// The directories of that tree, one for each hierarchy.
    roots: Vec<PathBuf>,
    /// The process that makes the sandboxes of the engine that was found.
    spawner: u32,
}

/// The engine that a process belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Own,
    Other,
    Unknown,
}

impl OwnEngines {
    /// Finds the traces of the engine in `state`, by the first process of a sandbox that
    /// it has made.
    pub fn find(state: &Path, pid: u32) -> anyhow::Result<Self> {
        let process = Process::read(pid).with_context(|| format!("no process {pid}"))?;
        let tree = process.groups().lines().find_map(engine_tree);
        let tree = tree.unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let roots = if tree.is_empty() { Vec::new() } else { hierarchies(&mounts) };
        let roots = roots.iter().map(|root| root.join(&tree[1..])).collect();
        let all = Processes::now();
        let spawner = all.line_of(pid).find(|above| above.is_spawner());
        let spawner = spawner.with_context(|| format!("process {pid} has no spawner"))?.pid;
        let found = Self { state: state.to_owned(), tree, roots, spawner };
        if let Some(user) = process.user().filter(|user| *user >= FIRST_USER) {
            let leased = found.leased_users().iter().any(|range| range.contains(&user));
            ensure!(leased, "user id {user} is not of a lease in {}", state.display());
        }
        Ok(found)
    }

    pub fn state(&self) -> &Path {
        &self.state
    }

    pub fn spawner(&self) -> u32 {
        self.spawner
    }

    /// The directories of these engines' cgroups, one for each hierarchy.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// The cgroups of a sandbox: its engine's, or its zygote's.
    pub fn groups_of(&self, id: &str) -> Vec<PathBuf> {
        groups_below(&self.roots, id)
    }

    /// Counts the cgroups of these engines, calls' included.
    pub fn count_groups(&self) -> usize {
        self.roots.iter().map(|root| count_directories(root)).sum()
    }

    /// Counts what the engines keep in their state directory: leases, working directories
    /// and whatever stands beside them. What is in a working directory is its own.
    pub fn count_state(&self) -> usize {
        let entries = |dir: &Path| fs::read_dir(dir).map_or(0, Iterator::count);
        let top = directories(&self.state);
        entries(&self.state) + top.iter().map(|dir| entries(dir)).sum::<usize>()
    }

    /// All processes that are or were in a sandbox of these engines.
    pub fn processes(&self) -> Vec<Process> {
        let all = Processes::now();
        let (users, spawners) = (self.leased_users(), spawners(&all));
        let is_sandboxed = |process: &&Process| {
            let leased = || process.user().is_some_and(|user| has(&users, user));
            match self.owner_of(&all, &spawners, process) {
                Owner::Own => !spawners.contains(&process.pid),
                Owner::Unknown => leased(),
                Owner::Other => false,
            }
        };
        let mut found: Vec<Process> = all.iter().filter(is_sandboxed).cloned().collect();
        found.retain(Process::is_alive);
        found
    }

    /// Returns true if a process shows that it is another engine's.
    pub fn is_of_another(&self, pid: u32) -> bool {
        let all = Processes::now();
        let owner = |process| self.owner_of(&all, &spawners(&all), process);
        all.line_of(pid).next().map(owner) == Some(Owner::Other)
    }

    fn owner_of(&self, all: &Processes, spawners: &BTreeSet<u32>, process: &Process) -> Owner {
        let own = std::process::id();
        let descends = |spawner: &Process| all.line_of(spawner.pid).any(|above| above.pid == own);
        let spawner = all.line_of(process.pid).find(|above| spawners.contains(&above.pid));
        if spawner.is_some_and(descends) {
            return Owner::Own;
        }
        let trees: BTreeSet<String> = process.groups().lines().filter_map(engine_tree).collect();
        if !self.tree.is_empty() && trees.contains(&self.tree) {
            Owner::Own
        } else if spawner.is_some() || !trees.is_empty() {
            Owner::Other
        } else {
            Owner::Unknown
        }
    }

    /// User ids that these engines' sandboxes may have.
    fn leased_users(&self) -> Vec<std::ops::Range<u32>> {
        let entries = fs::read_dir(self.state.join("leases")).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let range = |number: u32| {
            let first = FIRST_USER.checked_add(number.checked_mul(USERS_PER_LEASE)?)?;
            Some(first..first.checked_add(USERS_PER_LEASE)?)
        };
        numbers.filter_map(range).collect()
    }

    pub fn mounts(&self) -> Vec<String> {
        mounts_of_engines(&self.state)
    }
}

/// The mounts of the engines in a state directory. They make all of theirs in namespaces
/// of their own, so that each one that this program sees was left behind, or got out.
pub fn mounts_of_engines(state: &Path) -> Vec<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    own_mounts(&text, state)
}

/// The cgroups of the engine that a process is a sandbox's of, one for each hierarchy.
pub fn groups_of_engine(pid: u32) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let groups = Process::read(pid).map(|process| process.groups()).unwrap_or_default();
    let Some((tree, engine)) = groups.lines().find_map(engine_of) else { return Vec::new() };
    hierarchies(&mounts).iter().map(|root| root.join(&tree[1..]).join(&engine)).collect()
}

/// The processes that make sandboxes, of all engines on the host.
fn spawners(all: &Processes) -> BTreeSet<u32> {
    all.iter().filter(|process| process.is_spawner()).map(|process| process.pid).collect()
}

/// The cgroups of a sandbox, whichever engine has made it: ids are random.
pub fn groups_of_sandbox(id: &str) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let trees = hierarchies(&mounts).into_iter().flat_map(|root| directories(&root));
    let is_tree =
        |dir: &PathBuf| dir.file_name().and_then(|name| name.to_str()).is_some_and(is_tree);
    groups_below(&trees.filter(is_tree).collect::<Vec<_>>(), id)
}

fn groups_below(trees: &[PathBuf], id: &str) -> Vec<PathBuf> {
    let engines: Vec<_> = trees.iter().flat_map(|tree| directories(tree)).collect();
    let zygotes = engines.iter().flat_map(|engine| directories(engine));
    let owners = engines.iter().cloned().chain(zygotes);
    owners.map(|owner| owner.join(id)).filter(|dir| dir.exists()).collect()
}

fn has(ranges: &[std::ops::Range<u32>], user: u32) -> bool {
    ranges.iter().any(|range| range.contains(&user))
}

/// The lines that name the state directory, or are called as sandboxes' mounts are.
fn own_mounts(mountinfo: &str, state: &Path) -> Vec<String> {
    let state = state.display().to_string();
    let is_own = |line: &&str| {
        let source = line.split_once(" - ").and_then(|(_, rest)| rest.split(' ').nth(1));
        line.contains(&state) || source == Some("belljar")
    };
    mountinfo.lines().filter(is_own).map(str::to_owned).collect()
}

/// The tree of engines' cgroups that a line of `/proc/<pid>/cgroup` leads into.
fn engine_tree(line: &str) -> Option<String> {
    engine_of(line).map(|(tree, _)| tree)
}

/// That tree, and the name of the engine in it.
fn engine_of(line: &str) -> Option<(String, String)> {
    let path = line.splitn(3, ':').nth(2)?;
    let parts: Vec<&str> = path.split('/').collect();
    let is_engine = |name: &str| {
        let number = name.strip_prefix('e').unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let at = parts.windows(2).position(|pair| is_tree(pair[0]) && is_engine(pair[1]))?;
    Some((parts[..=at].join("/"), parts[at + 1].to_owned()))
}

fn is_tree(name: &str) -> bool {
    name == "belljar" || name.starts_with("belljar-")
}

/// The roots of all cgroup hierarchies, from `/proc/self/mountinfo`.
fn hierarchies(mountinfo: &str) -> Vec<PathBuf> {
    let is_cgroup = |line: &&str| line.contains(" - cgroup");
    let root = |line: &str| line.split(' ').nth(4).map(PathBuf::from);
    mountinfo.lines().filter(is_cgroup).filter_map(root).collect()
}

fn directories(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter(is_dir).map(|entry| entry.path()).collect()
}

fn count_directories(dir: &Path) -> usize {
    directories(dir).iter().map(|dir| 1 + count_directories(dir)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_of_engines_are_told_from_other_groups() {
        let tree = |line| engine_tree(line);
        assert_eq!(tree("4:memory:/belljar/e0/abc/c1").as_deref(), Some("/belljar"));
        let apart = "0::/belljar-00112233aabbccdd/e12";
        assert_eq!(tree(apart).as_deref(), Some("/belljar-00112233aabbccdd"));
        let delegated = "0::/user.slice/unit.service/belljar/e3/z1/abc";
        assert_eq!(tree(delegated).as_deref(), Some("/user.slice/unit.service/belljar"));
        for other in
            ["0::/", "0::/belljar", "4:pids:/system.slice/belljar.service", "0::/belljar/x"]
        {
            assert_eq!(tree(other), None, "{other}");
        }
    }

    #[test]
    fn mounts_are_own_by_directory_or_name() {
        let state = Path::new("/tmp/own");
        let lines = [
            "30 1 0:5 / /tmp/own/base rw - tmpfs tmpfs rw",
            "31 1 0:6 / /mnt rw - tmpfs belljar rw",
            "32 1 0:7 / /tmp/other/base rw - tmpfs tmpfs rw",
            "33 1 0:8 / /root/.cache/belljar/disk rw - ext4 /dev/loop0 rw",
        ];
        let found = own_mounts(&lines.join("\n"), state);
        assert_eq!(found, lines[..2]);
    }

    #[test]
    fn leases_say_which_user_ids_are_ours() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("leases")).unwrap();
        for number in ["0", "2", "9999999"] {
            fs::write(dir.path().join("leases").join(number), "").unwrap();
        }
        let state = dir.path().to_owned();
        let own = OwnEngines { state, tree: String::new(), roots: Vec::new(), spawner: 0 };
        let users = own.leased_users();
        assert!(has(&users, 0x1000_0000) && has(&users, 0x1020_ffff));
        assert!(!has(&users, 0x1010_0000) && !has(&users, 1000));
    }
}
