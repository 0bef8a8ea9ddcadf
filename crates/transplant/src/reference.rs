//! The process that images are told as a difference to.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;

use crate::area::{Area, areas_in_detail};
use crate::pages::Pagemap;
use crate::process::{Files, Process};
use crate::refusal::{Doing, Refusal};

/// A child of the zygote that does nothing but wait, for good.
///
/// It holds the zygote's memory as it was when the zygote was ready, so that an
/// image need not. Its whole use is that it does not run: a zygote that goes on
/// forking changes its own memory, and with it what "the same as there" means.
/// That it has not run since is checked each time.
#[derive(Debug)]
pub struct Reference {
    files: Files,
    areas: Vec<Area>,
    /// Its pages that no file has. They stay as long as it does not run.
    own: Vec<(u64, u64)>,
    memory: File,
}

/// Tells whether a process has written memory that it shared: each first
/// write to such a page is a page fault, and those are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    start_time: u64,
    minor_faults: u64,
    major_faults: u64,
}

/// More than any zygote has.
const MAPPINGS: usize = 65_536;

impl Reference {
    /// Takes a process that has come to rest: it must wait for something that
    /// never comes.
    pub fn open(process: &Process) -> Result<Self, Refusal> {
        let files = process.files()?;
        // The number of the call that it is in; a word when it is in none.
        let doing = files.read("syscall", 256)?.unwrap_or_default();
        if !doing.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(Refusal::Busy);
        }
        let areas = areas_in_detail(&files, MAPPINGS)?;
        let own = Pagemap::open(&files)?.own(u64::MAX)?;
        let memory = files.open("mem", OFlags::RDONLY)?;
        Ok(Self { files, areas, own, memory })
    }

    pub(crate) fn areas(&self) -> &[Area] {
        &self.areas
    }

    pub(crate) fn own(&self) -> &[(u64, u64)] {
        &self.own
    }

    pub(crate) fn pagemap(&self) -> Result<Pagemap, Refusal> {
        Pagemap::open(&self.files)
    }

    pub(crate) fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Refusal> {
        self.memory.read_exact_at(into, address).doing("read the reference process")
    }

    pub(crate) fn mark(&self) -> Result<Mark, Refusal> {
        let text = self.files.read("stat", 4096)?.unwrap_or_default();
        parse(&text).ok_or(Refusal::Gone)
    }
}

/// Fields 10, 12 and 22 of `stat`; the second one may hold anything, so
/// counting starts behind its last parenthesis. See proc_pid_stat(5).
fn parse(stat: &str) -> Option<Mark> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let field = |number: usize| fields.get(number - 3)?.parse().ok();
    // A zombie has a line as well, but no memory.
    if fields.first() == Some(&"Z") {
        return None;
    }
    Some(Mark { minor_faults: field(10)?, major_faults: field(12)?, start_time: field(22)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_found_behind_a_hostile_name() {
        let stat = "7 (a) R 1 (x) S 1 7 7 0 -1 4194560 111 0 222 0 1 2 0 0 20 0 1 0 333 4 5";
        let mark = Mark { start_time: 333, minor_faults: 111, major_faults: 222 };
        assert_eq!(parse(stat), Some(mark));
        assert_eq!(parse("7 (a) Z 1"), None);
    }
}
