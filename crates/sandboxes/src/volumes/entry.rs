//! What is told of a file in a volume.

use std::os::fd::AsFd;

use rustix::fs::{FileType, Stat, fstat, readlinkat};

use super::tree::{Path, refused};
use crate::clock::Moment;
use crate::problem::Problem;

/// A file, directory or link of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeEntry {
    pub name: String,
    /// From the root of the volume.
    pub path: String,
    pub kind: VolumeEntryKind,
    pub size: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub accessed_at: Moment,
    pub modified_at: Moment,
    pub changed_at: Moment,
    /// Where a link leads, as it says itself.
    pub target: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeEntryKind {
    File,
    Directory,
    Symlink,
    Other,
}

pub(super) fn entry(path: &Path, found: impl AsFd) -> Result<VolumeEntry, Problem> {
    let cannot = |errno| refused(errno, &path.shown());
    let stat = fstat(&found).map_err(cannot)?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => VolumeEntryKind::File,
        FileType::Directory => VolumeEntryKind::Directory,
        FileType::Symlink => VolumeEntryKind::Symlink,
        _ => VolumeEntryKind::Other,
    };
    let target = match kind {
        VolumeEntryKind::Symlink => {
            let target = readlinkat(&found, "", Vec::new()).map_err(cannot)?;
            Some(target.to_string_lossy().into_owned())
        }
        _ => None,
    };
    let [accessed_at, modified_at, changed_at] = times(&stat);
    Ok(VolumeEntry {
        name: path.0.last().cloned().unwrap_or_else(|| "/".to_owned()),
        path: path.shown(),
        kind,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        accessed_at,
        modified_at,
        changed_at,
        target,
    })
}

fn times(stat: &Stat) -> [Moment; 3] {
    let pairs = [
        (stat.st_atime, stat.st_atime_nsec),
        (stat.st_mtime, stat.st_mtime_nsec),
        (stat.st_ctime, stat.st_ctime_nsec),
    ];
    pairs.map(|(seconds, nanos)| {
        let whole = Moment::from_unix(seconds).unwrap_or_else(crate::clock::now);
        whole.plus(std::time::Duration::from_micros(nanos / 1000))
    })
}
