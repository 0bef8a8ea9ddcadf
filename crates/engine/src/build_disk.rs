//! The disk of one step of a template build: a file system of a fixed size, in a file.
//!
//! What code writes there is bounded by the kernel, whatever it is called: files without a
//! name, files below a thousand directories, space that is reserved and not written. Only
//! the kernel writes the image, through the mounted file system, so mounting it on the
//! host is safe.
//!
//! Nothing of it is attached to a mount namespace of the host. The file system goes with
//! its last holder, however that ends, and the loop device with it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use belljar_domain::Disk;
use belljar_sys::loopback::LoopDevice;
use rustix::fs::{Mode, fstatvfs, mkdirat};

use crate::jail::mounts;

/// Bytes that an inode takes in its table.
const INODE_BYTES: u64 = 256;
/// Room for the tables of an empty file system.
const TABLE_BYTES: u64 = 4 << 20;
/// Less free space than this is none.
const FULL_BYTES: u64 = 1 << 20;
const FULL_INODES: u64 = 8;

/// A file system for one sandbox, held by its mount.
#[derive(Debug)]
pub struct BuildDisk {
    /// Another mount of it than the sandbox's, with the ids that are on the disk.
    mount: OwnedFd,
    device: LoopDevice,
}

impl BuildDisk {
    /// Makes a file system in a new file of the directory `dir`, for about so many bytes
    /// and files. Needs root, loop devices and `mkfs.ext4`.
    pub fn make(dir: &Path, bytes: u64, files: u64) -> io::Result<Self> {
        let path = dir.join("disk.img");
        let mut options = OpenOptions::new();
        let image = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let tables = files.saturating_mul(INODE_BYTES) + TABLE_BYTES + bytes / 128;
        image.set_len(bytes.saturating_add(tables).next_multiple_of(1 << 20))?;
        format(&path, files)?;
        Self::mount(&image)
    }

    fn mount(image: &File) -> io::Result<Self> {
        let device = LoopDevice::attach(image.as_fd())?;
        let mount = mounts::device_mount(device.path())?;
        for name in ["upper", "work"] {
            mkdirat(&mount, name, Mode::from_raw_mode(0o755))?;
        }
        Ok(Self { mount, device })
    }

    /// The disk of a sandbox, for as long as `self` lives.
    pub fn disk(&self) -> Disk {
        Disk::Device(self.device.path().to_owned())
    }

    /// Where this process finds what the sandbox wrote.
    pub fn upper(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/upper", self.mount.as_raw_fd()))
    }

    /// Returns true if hardly anything more can be written.
    pub fn is_full(&self) -> bool {
        fstatvfs(&self.mount).is_ok_and(|found| {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            free < FULL_BYTES || found.f_favail < FULL_INODES
        })
    }
}

fn format(image: &Path, files: u64) -> io::Result<()> {
    // Some places keep it where ordinary users do not look.
    let programs = ["mkfs.ext4", "/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"];
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for program in programs {
        let made = Command::new(program)
            .args(["-q", "-F", "-m", "0", "-b", "4096", "-I", "256"])
            .args(["-O", "^has_journal,^resize_inode"])
            .args(["-E", "root_owner=0:0,lazy_itable_init=1,nodiscard"])
            .arg("-N")
            .arg(files.to_string())
            .arg(image)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match made {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => last = io::Error::other(format!("{program} ended with {status}")),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_disk_is_as_large_as_it_was_made_and_goes_with_its_holder() {
        let name = format!("belljar-build-disk-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir(&dir).unwrap();
        let made = BuildDisk::make(&dir, 8 << 20, 100);
        fs::remove_dir_all(&dir).unwrap();
        // Needs root, and a kernel with loop devices.
        let Ok(disk) = made else { return };
        assert!(!disk.is_full());
        let mut file = File::create(disk.upper().join("file")).unwrap();
        fs::remove_file(disk.upper().join("file")).unwrap();
        let mut written = 0;
        while let Ok(count) = file.write(&[1; 1 << 16]) {
            written += count;
        }
        assert!((8 << 20..16 << 20).contains(&written), "{written}");
        assert!(disk.is_full());
        drop(file);
        assert!(!disk.is_full());
        let files = (0..).take_while(|n| File::create(disk.upper().join(n.to_string())).is_ok());
        assert!((50..200).contains(&files.count()));
        assert!(disk.is_full());
    }
}
