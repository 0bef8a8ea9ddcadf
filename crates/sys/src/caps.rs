//! Capabilities.

use std::io;

use crate::check;

/// A set of capabilities, bit by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Set(pub u64);

impl Set {
    pub const EMPTY: Self = Self(0);
    pub const CHOWN: Self = Self(1 << 0);
    pub const DAC_OVERRIDE: Self = Self(1 << 1);
    pub const FOWNER: Self = Self(1 << 3);
    pub const FSETID: Self = Self(1 << 4);
    pub const KILL: Self = Self(1 << 5);
    pub const SETGID: Self = Self(1 << 6);
    pub const SETUID: Self = Self(1 << 7);
    pub const SETPCAP: Self = Self(1 << 8);
    pub const NET_BIND_SERVICE: Self = Self(1 << 10);
    pub const SYS_ADMIN: Self = Self(1 << 21);
    pub const SYS_BOOT: Self = Self(1 << 22);
    pub const SYS_TIME: Self = Self(1 << 25);

    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The capabilities that both sets have.
    #[must_use]
    pub const fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn numbers(self) -> impl Iterator<Item = libc::c_ulong> {
        (0..64).filter(move |n| self.0 >> n & 1 == 1)
    }
}

const VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Sets the thread's permitted and effective capabilities to `set`, and the
/// inheritable ones to `inheritable`.
pub fn set(set: Set, inheritable: Set) -> io::Result<()> {
    set_each(set, set, inheritable)
}

/// Sets the thread's permitted capabilities, and those of them that count now. The
/// inheritable set becomes empty.
pub fn set_effective(permitted: Set, effective: Set) -> io::Result<()> {
    set_each(permitted, effective, Set::EMPTY)
}

fn set_each(permitted: Set, effective: Set, inheritable: Set) -> io::Result<()> {
    let header = Header { version: VERSION_3, pid: 0 };
    let half = |shift: u32| {
        let word = |s: Set| u32::try_from(s.0 >> shift & 0xffff_ffff).unwrap_or(0);
        Data {
            effective: word(effective),
            permitted: word(permitted),
            inheritable: word(inheritable),
        }
    };
    let data = [half(0), half(32)];
    // SAFETY: version 3 takes a header and two data blocks; both outlive the call.
    let ret = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    check(ret).map(drop)
}

/// The thread's (permitted | effective | inheritable) capabilities: empty means
/// that it has none of any kind.
pub fn any() -> io::Result<Set> {
    let header = Header { version: VERSION_3, pid: 0 };
    let mut data = [Data::default(); 2];
    // SAFETY: version 3 fills two data blocks, which are live locals.
    let ret = unsafe { libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) };
    check(ret)?;
    let word = |d: Data| u64::from(d.effective | d.permitted | d.inheritable);
    Ok(Set(word(data[0]) | word(data[1]) << 32))
}

/// The thread's effective capabilities.
pub fn effective() -> io::Result<Set> {
    let header = Header { version: VERSION_3, pid: 0 };
    let mut data = [Data::default(); 2];
    // SAFETY: version 3 fills two data blocks, which are live locals.
    let ret = unsafe { libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) };
    check(ret)?;
    Ok(Set(u64::from(data[0].effective) | u64::from(data[1].effective) << 32))
}

/// Empties the bounding set, so that no exec can ever give a capability back.
pub fn drop_bounding() -> io::Result<()> {
    limit_bounding(Set::EMPTY)
}

/// Removes all but `keep` from the bounding set.
pub fn limit_bounding(keep: Set) -> io::Result<()> {
    for number in 0..64u64 {
        if keep.0 >> number & 1 == 1 {
            continue;
        }
        // SAFETY: PR_CAPBSET_DROP takes one integer.
        let ret = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
        if ret < 0 {
            let error = io::Error::last_os_error();
            // EINVAL: past the last capability that this kernel knows.
            return if error.raw_os_error() == Some(libc::EINVAL) { Ok(()) } else { Err(error) };
        }
    }
    Ok(())
}

/// Keeps `set` over an exec. It must be permitted and inheritable already.
pub fn raise_ambient(set: Set) -> io::Result<()> {
    for number in set.numbers() {
        // SAFETY: PR_CAP_AMBIENT takes integers.
        let ret =
            unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, number, 0, 0) };
        check(ret.into())?;
    }
    Ok(())
}

/// Empties the ambient set. A kernel that knows no such set (gVisor) has nothing
/// to empty.
pub fn clear_ambient() -> io::Result<()> {
    // SAFETY: PR_CAP_AMBIENT takes integers.
    let ret = unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    match check(ret.into()) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        other => other.map(drop),
    }
}

/// Keeps permitted capabilities when this thread stops being root, until its
/// next exec. The effective ones are lost all the same.
pub fn keep_over_setuid() -> io::Result<()> {
    // SAFETY: PR_SET_KEEPCAPS takes one integer.
    let ret = unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) };
    check(ret.into()).map(drop)
}

/// Makes uid 0 powerless for good: NOROOT, NO_SETUID_FIXUP and
/// NO_CAP_AMBIENT_RAISE, each with its lock. Needs SETPCAP.
pub fn lock_securebits() -> io::Result<()> {
    const NOROOT: libc::c_ulong = 0b11;
    const NO_SETUID_FIXUP: libc::c_ulong = 0b11 << 2;
    const NO_CAP_AMBIENT_RAISE: libc::c_ulong = 0b11 << 6;
    let bits = NOROOT | NO_SETUID_FIXUP | NO_CAP_AMBIENT_RAISE;
    // SAFETY: PR_SET_SECUREBITS takes one integer.
    let ret = unsafe { libc::prctl(libc::PR_SET_SECUREBITS, bits, 0, 0, 0) };
    check(ret.into()).map(drop)
}

/// Forbids this thread and its descendants to gain privileges by exec.
pub fn set_no_new_privs() -> io::Result<()> {
    // SAFETY: PR_SET_NO_NEW_PRIVS takes integers.
    let ret = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    check(ret.into()).map(drop)
}
