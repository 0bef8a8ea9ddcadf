//! Landlock rulesets.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::check;

/// Rights over files and directories, as the kernel numbers them.
pub mod access {
    pub const EXECUTE: u64 = 1;
    pub const WRITE_FILE: u64 = 1 << 1;
    pub const READ_FILE: u64 = 1 << 2;
    pub const READ_DIR: u64 = 1 << 3;
    pub const REMOVE_DIR: u64 = 1 << 4;
    pub const REMOVE_FILE: u64 = 1 << 5;
    pub const MAKE_CHAR: u64 = 1 << 6;
    pub const MAKE_DIR: u64 = 1 << 7;
    pub const MAKE_REG: u64 = 1 << 8;
    pub const MAKE_SOCK: u64 = 1 << 9;
    pub const MAKE_FIFO: u64 = 1 << 10;
    pub const MAKE_BLOCK: u64 = 1 << 11;
    pub const MAKE_SYM: u64 = 1 << 12;
    pub const REFER: u64 = 1 << 13;
    pub const TRUNCATE: u64 = 1 << 14;
    pub const IOCTL_DEV: u64 = 1 << 15;

    /// The rights that can be given on something that is not a directory.
    pub const ON_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
    pub const READ: u64 = EXECUTE | READ_FILE | READ_DIR;
    /// Everything but making device nodes and driving devices.
    pub const WRITE: u64 = READ
        | WRITE_FILE
        | REMOVE_DIR
        | REMOVE_FILE
        | MAKE_DIR
        | MAKE_REG
        | MAKE_SOCK
        | MAKE_FIFO
        | MAKE_SYM
        | REFER
        | TRUNCATE;
}

#[repr(C)]
struct RulesetAttr {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

const SYS_CREATE_RULESET: libc::c_long = 444;
const SYS_ADD_RULE: libc::c_long = 445;
const SYS_RESTRICT_SELF: libc::c_long = 446;

/// The Landlock version of this kernel; `None` where it has none.
pub fn abi() -> Option<u32> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with the VERSION flag the attribute pointer must be null and is
    // not read.
    let ret =
        unsafe { libc::syscall(SYS_CREATE_RULESET, std::ptr::null::<RulesetAttr>(), 0, VERSION) };
    u32::try_from(ret).ok().filter(|&abi| abi > 0)
}

/// Rules that take hold with [`Ruleset::restrict_self`].
#[derive(Debug)]
pub struct Ruleset {
    fd: OwnedFd,
    handled: u64,
}

/// What a ruleset rules besides files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scope {
    /// No TCP bind or connect at all (ABI 4).
    pub no_tcp: bool,
    /// No signal and no abstract socket across the domain's edge (ABI 6).
    pub ipc: bool,
}

impl Ruleset {
    /// Starts an empty ruleset that denies all file access that this kernel's
    /// ABI can deny.
    pub fn new(abi: u32, scope: Scope) -> io::Result<Self> {
        let handled = match abi {
            0 | 1 => (1 << 13) - 1,
            2 => (1 << 14) - 1,
            3 | 4 => (1 << 15) - 1,
            _ => (1 << 16) - 1,
        };
        let attr = RulesetAttr {
            handled_access_fs: handled,
            handled_access_net: if scope.no_tcp && abi >= 4 { 0b11 } else { 0 },
            scoped: if scope.ipc && abi >= 6 { 0b11 } else { 0 },
        };
        Self::create(abi, &attr)
    }

    fn create(abi: u32, attr: &RulesetAttr) -> io::Result<Self> {
        let handled = attr.handled_access_fs;
        let size = match abi {
            0..=3 => 8,
            4 | 5 => 16,
            _ => size_of::<RulesetAttr>(),
        };
        // SAFETY: `attr` outlives the call and `size` is at most its size.
        let ret = unsafe { libc::syscall(SYS_CREATE_RULESET, &raw const *attr, size, 0) };
        let fd = i32::try_from(check(ret)?).map_err(|_| io::ErrorKind::InvalidData)?;
        // SAFETY: the call succeeded, so `fd` is new and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, handled })
    }

    /// A ruleset that rules no file at all: whoever enters it cannot signal or
    /// trace what stays outside. `None` where the kernel cannot (ABI 6).
    pub fn apart(abi: u32) -> io::Result<Option<Self>> {
        if abi < 6 {
            return Ok(None);
        }
        Self::create(
            abi,
            &RulesetAttr { handled_access_fs: 0, handled_access_net: 0, scoped: 0b11 },
        )
        .map(Some)
    }

    /// Allows `access` at `path` and below it.
    pub fn allow(&self, path: BorrowedFd<'_>, access: u64) -> io::Result<()> {
        const PATH_BENEATH: libc::c_int = 1;
        // What this kernel cannot deny need not be allowed; it refuses a rule
        // without rights.
        if access & self.handled == 0 {
            return Ok(());
        }
        let rule =
            PathBeneath { allowed_access: access & self.handled, parent_fd: path.as_raw_fd() };
        // SAFETY: `rule` has the kernel's packed layout and outlives the call.
        let ret = unsafe {
            libc::syscall(SYS_ADD_RULE, self.fd.as_raw_fd(), PATH_BENEATH, &raw const rule, 0)
        };
        check(ret).map(drop)
    }

    /// Confines the calling thread for good. Set `no_new_privs` first.
    pub fn restrict_self(&self) -> io::Result<()> {
        // SAFETY: takes a ruleset descriptor and no flags.
        let ret = unsafe { libc::syscall(SYS_RESTRICT_SELF, self.fd.as_raw_fd(), 0) };
        check(ret).map(drop)
    }
}

impl AsFd for Ruleset {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
