//! Processes of the host, by what they were given.

use std::fs;

use belljar_testkit::{OwnEngines, Processes};

/// Processes that have this somewhere in their environment and are no other engine's.
pub(crate) fn with_environment(engines: &OwnEngines, text: &str) -> Vec<u32> {
    let has = |pid: &u32| {
        let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    };
    let all = Processes::now();
    let found = all.iter().map(|process| process.pid).filter(has);
    found.filter(|pid| !engines.is_of_another(*pid)).collect()
}
