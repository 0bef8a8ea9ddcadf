//! Loop devices: a file as a block device.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::check;

/// A block device that stands for a file. The kernel lets go of the file when nothing
/// has the device open or mounted any more, however its holders end.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    _device: File,
}

impl LoopDevice {
    /// Attaches `image`, which must be open for reading and writing.
    pub fn attach(image: BorrowedFd<'_>) -> io::Result<Self> {
        let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
        let mut last = io::Error::from(io::ErrorKind::ResourceBusy);
        for _ in 0..ATTEMPTS {
            let number = free_number(&control)?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = OpenOptions::new().read(true).write(true).open(&path)?;
            match configure(&device, image) {
                Ok(()) => return Ok(Self { path, _device: device }),
                // Another process took the same number in between.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// The name of the block device; it stands for this file while `self` or a mount of
    /// it lives.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

const ATTEMPTS: usize = 64;

const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4c0a;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// `struct loop_info64` of linux/loop.h.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of linux/loop.h, since Linux 5.8.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

fn free_number(control: &File) -> io::Result<libc::c_long> {
    // SAFETY: LOOP_CTL_GET_FREE takes no argument.
    check(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) }.into())
}

fn configure(device: &File, image: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both structs are plain integers, for which all zeros is a valid value.
    let mut config: LoopConfig = unsafe { std::mem::zeroed() };
    config.fd = u32::try_from(image.as_raw_fd()).map_err(|_| io::ErrorKind::InvalidInput)?;
    config.block_size = 4096;
    config.info.flags = LO_FLAGS_AUTOCLEAR;
    // SAFETY: the kernel reads one `loop_config` from a live local.
    let ret = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    check(ret.into()).map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_file_is_read_through_its_device() {
        let mut image = tempfile();
        image.write_all(&[7; 8192]).unwrap();
        let device = match LoopDevice::attach(image.as_fd()) {
            Ok(device) => device,
            // Needs root, and a kernel with loop devices.
            Err(_) => return,
        };
        let mut read = Vec::new();
        File::open(device.path()).unwrap().read_to_end(&mut read).unwrap();
        assert_eq!(read, [7; 8192]);
    }

    fn tempfile() -> File {
        let name = format!("belljar-loopback-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }
}
