//! Mount calls that `rustix` lacks.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::check;

/// What `mount_setattr` changes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attributes<'a> {
    pub read_only: bool,
    pub no_suid: bool,
    pub no_dev: bool,
    pub no_exec: bool,
    /// Shows ids on disk through this user namespace's map.
    pub idmap: Option<BorrowedFd<'a>>,
    /// How mounts of its peers reach the tree from now on.
    pub propagation: Option<Propagation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Neither way.
    Private,
    /// Theirs come in, ours do not go out.
    Slave,
}

/// Whether a change reaches the mounts below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    One,
    Tree,
}

#[repr(C)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

const ATTR_RDONLY: u64 = 1;
const ATTR_NOSUID: u64 = 2;
const ATTR_NODEV: u64 = 4;
const ATTR_NOEXEC: u64 = 8;
const ATTR_IDMAP: u64 = 0x0010_0000;

/// Changes the mount at `path` below `dir`; an empty path is `dir` itself.
pub fn set_attributes(
    dir: BorrowedFd<'_>,
    path: &CStr,
    attributes: Attributes<'_>,
    reach: Reach,
) -> io::Result<()> {
    let bit = |on: bool, bit: u64| if on { bit } else { 0 };
    let mut attr = MountAttr {
        attr_set: bit(attributes.read_only, ATTR_RDONLY)
            | bit(attributes.no_suid, ATTR_NOSUID)
            | bit(attributes.no_dev, ATTR_NODEV)
            | bit(attributes.no_exec, ATTR_NOEXEC),
        attr_clr: 0,
        propagation: match attributes.propagation {
            None => 0,
            Some(Propagation::Private) => libc::MS_PRIVATE,
            Some(Propagation::Slave) => libc::MS_SLAVE,
        },
        userns_fd: 0,
    };
    if let Some(namespace) = attributes.idmap {
        attr.attr_set |= ATTR_IDMAP;
        attr.userns_fd =
            u64::try_from(namespace.as_raw_fd()).map_err(|_| io::ErrorKind::InvalidInput)?;
    }
    let flags = libc::AT_EMPTY_PATH | if reach == Reach::Tree { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: `path` is NUL-terminated, `attr` has the kernel's layout, and both
    // outlive the call.
    let ret = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            dir.as_raw_fd(),
            path.as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    check(ret).map(drop)
}
