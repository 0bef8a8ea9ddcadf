//! Processes of the host, by who their parents are and what they were given.

use std::collections::BTreeSet;
use std::fs;

use crate::harness::oracle::processes;

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

/// Everything below a process, itself not counted.
pub(crate) fn below(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> =
        processes().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut family = BTreeSet::from([root]);
    loop {
        let is_new = |(pid, above): &&(u32, u32)| family.contains(above) && !family.contains(pid);
        let more: Vec<u32> = parents.iter().filter(is_new).map(|(pid, _)| *pid).collect();
        if more.is_empty() {
            break;
        }
        family.extend(more);
    }
    family.remove(&root);
    family.into_iter().collect()
}

/// Processes that have this somewhere in their environment.
pub(crate) fn with_environment(text: &str) -> Vec<u32> {
    let has = |pid: &u32| {
        let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    };
    processes().filter(has).collect()
}
