//! Covers what a procfs shows of the kernel besides processes.
//!
//! A procfs with `subset=pid` has no other names, and no name can be made in a procfs: nothing
//! could be mounted at `/proc/meminfo` then. A sandbox that is to find such files gets a whole
//! procfs, of which every name is covered that nothing else was decided about. The list is of what
//! stays, not of what is covered: what a newer kernel adds is covered too.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use crate::{Attempt, Failure};

/// Files about the machine as a whole that programs read to learn what they may use.
pub const FIGURES: [&str; 5] = ["meminfo", "cpuinfo", "stat", "uptime", "loadavg"];

/// An empty file and an empty directory, by path. Nobody may read them, and their mount is
/// read-only.
#[derive(Debug, Clone, Copy)]
pub struct Covers<'a> {
    pub file: &'a str,
    pub directory: &'a str,
}

/// What is in the place of [`FIGURES`].
#[derive(Debug, Clone, Copy)]
pub enum Figures<'a> {
    /// The kernel's own: it is not the host's.
    Kernel,
    /// Files of these names, after a path's beginning.
    Files(&'a str),
}

/// Covers every name at the root of `procfs` but processes and links. A link leads to one of
/// those, or to another name there.
pub fn cover(
    procfs: BorrowedFd<'_>,
    covers: Covers<'_>,
    figures: Figures<'_>,
) -> Result<(), Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(procfs, ".", flags, Mode::empty()).doing("open procfs")?;
    for entry in Dir::new(root).doing("list procfs")? {
        let entry = entry.doing("list procfs")?;
        let Ok(name) = entry.file_name().to_str() else {
            return Err(Failure::new("list procfs", &std::io::ErrorKind::InvalidData.into()));
        };
        let is_process = name.bytes().all(|byte| byte.is_ascii_digit());
        if is_process || matches!(name, "." | "..") {
            continue;
        }
        let is_figure = FIGURES.contains(&name);
        let figure;
        let source = match (entry.file_type(), figures) {
            (FileType::Symlink, _) => continue,
            (_, Figures::Kernel) if is_figure => continue,
            (_, Figures::Files(beginning)) if is_figure => {
                figure = format!("{beginning}{name}");
                &figure
            }
            (FileType::Directory, _) => covers.directory,
            _ => covers.file,
        };
        put_over(source, procfs, name)?;
    }
    Ok(())
}

fn put_over(source: &str, procfs: BorrowedFd<'_>, name: &str) -> Result<(), Failure> {
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, source, clone).doing(format!("copy the cover {source}"))?;
    move_mount(tree.as_fd(), "", procfs, name, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .doing(format!("cover /proc/{name}"))
}
