//! A machine's own disk: a sparse file in memory with an empty file system.
//!
//! The host never mounts one, because code wrote it: making it is all that is
//! done outside. It is made once for each size and copied for each machine, of
//! which only what is not empty costs anything.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use belljar_domain::Limits;
use rustix::fs::{MemfdFlags, SeekFrom, ftruncate, memfd_create};

/// What an inode takes of the disk, and the tables besides.
const INODE_BYTES: u64 = 256;
const TABLES: u64 = 4 << 20;

/// The size of the file, so that about as much as the limit says can be used.
pub(crate) fn size(limits: &Limits) -> u64 {
    let tables = inodes(limits).saturating_mul(INODE_BYTES) + TABLES + limits.disk_bytes / 128;
    limits.disk_bytes.saturating_add(tables).next_multiple_of(1 << 20)
}

/// More than one for each block cannot be had.
fn inodes(limits: &Limits) -> u64 {
    limits.inodes.clamp(64, (limits.disk_bytes / 4096).max(64))
}

/// An empty disk of this size, below `dir`.
pub(crate) fn empty(dir: &Path, limits: &Limits) -> io::Result<PathBuf> {
    let (bytes, inodes) = (size(limits), inodes(limits));
    let path = dir.join(format!("disk-{bytes}-{inodes}"));
    if path.is_file() {
        return Ok(path);
    }
    let work = dir.join(format!("disk-{bytes}-{inodes}.{}", std::process::id()));
    let made = format(&work, bytes, inodes).and_then(|()| fs::rename(work.join("disk"), &path));
    let _ = fs::remove_dir_all(&work);
    made.map(|()| path)
}

fn format(work: &Path, bytes: u64, inodes: u64) -> io::Result<()> {
    for name in ["files/upper", "files/work"] {
        fs::create_dir_all(work.join(name))?;
    }
    // The mode of `/`: as in `/tmp`, every user makes names there and removes their own.
    fs::set_permissions(work.join("files/upper"), fs::Permissions::from_mode(0o1777))?;
    let disk = work.join("disk");
    let run = |program: &str| {
        Command::new(program)
            .args(["-q", "-F", "-t", "ext4", "-m", "0", "-b", "4096", "-I", "256"])
            .args(["-O", "^has_journal,^resize_inode", "-E", "root_owner=0:0,lazy_itable_init=1"])
            .arg("-N")
            .arg(inodes.to_string())
            .arg("-d")
            .arg(work.join("files"))
            .arg(&disk)
            .arg(format!("{}k", bytes / 1024))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()
    };
    // Where it is installed, which is not on everybody's path.
    let output = ["/usr/sbin/mke2fs", "/sbin/mke2fs", "mke2fs"]
        .into_iter()
        .map(run)
        .find(|ran| !matches!(ran, Err(e) if e.kind() == io::ErrorKind::NotFound))
        .unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()));
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other("`mke2fs` is not installed (e2fsprogs)"),
        _ => error,
    })?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let words: String = words.trim().chars().take(500).collect();
    Err(io::Error::other(format!("mke2fs failed: {words}")))
}

/// An empty file in memory. Whoever fills it is charged for it.
pub(crate) fn in_memory() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC;
    let memfd = memfd_create("belljar-disk", flags | MemfdFlags::NOEXEC_SEAL)
        .or_else(|_| memfd_create("belljar-disk", flags))?;
    Ok(memfd)
}

/// Copies what is not empty of one file to the other, which becomes as long.
pub(crate) fn copy(from: impl AsFd, to: impl AsFd) -> io::Result<()> {
    use rustix::io::Errno;
    let length = u64::try_from(rustix::fs::fstat(&from)?.st_size).unwrap_or(0);
    ftruncate(&to, length)?;
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < length {
        let start = match rustix::fs::seek(&from, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            // No holes here: everything is content.
            Err(Errno::INVAL) => at,
            Err(errno) => return Err(errno.into()),
        };
        let end = rustix::fs::seek(&from, SeekFrom::Hole(start)).unwrap_or(length);
        at = start;
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
            let count = rustix::io::pread(&from, &mut buffer[..wanted], at)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut rest = &buffer[..count];
            while !rest.is_empty() {
                let written = rustix::io::pwrite(&to, rest, at)?;
                rest = &rest[written..];
                at += written as u64;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(file: &OwnedFd) -> i64 {
        rustix::fs::fstat(file).unwrap().st_blocks
    }

    #[test]
    fn a_copy_is_as_sparse_as_what_it_copies() {
        let (from, to) = (in_memory().unwrap(), in_memory().unwrap());
        ftruncate(&from, 64 << 20).unwrap();
        rustix::io::pwrite(&from, b"middle", 20 << 20).unwrap();
        rustix::io::pwrite(&from, b"end", (64 << 20) - 3).unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(blocks(&from), blocks(&to));
        assert_eq!(rustix::fs::fstat(&to).unwrap().st_size, 64 << 20);
        let mut found = [0; 6];
        rustix::io::pread(&to, &mut found, 20 << 20).unwrap();
        assert_eq!(&found, b"middle");
    }

    #[test]
    fn a_disk_holds_about_as_much_as_its_limit() {
        let limits = Limits { disk_bytes: 512 << 20, inodes: 65_536, ..Limits::default() };
        assert!(size(&limits) > limits.disk_bytes + 65_536 * 256);
        assert!(size(&limits) < limits.disk_bytes + (32 << 20));
        assert_eq!(size(&limits) % (1 << 20), 0);
    }
}
