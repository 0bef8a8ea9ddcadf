//! Making processes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::Pid;

use crate::check;

/// Namespaces that a new process gets of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Namespaces(u64);

impl Namespaces {
    pub const NONE: Self = Self(0);
    pub const USER: Self = Self(libc::CLONE_NEWUSER as u64);
    pub const MOUNT: Self = Self(libc::CLONE_NEWNS as u64);
    pub const PID: Self = Self(libc::CLONE_NEWPID as u64);
    pub const NET: Self = Self(libc::CLONE_NEWNET as u64);
    pub const IPC: Self = Self(libc::CLONE_NEWIPC as u64);
    pub const UTS: Self = Self(libc::CLONE_NEWUTS as u64);
    pub const CGROUP: Self = Self(libc::CLONE_NEWCGROUP as u64);

    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// libc's own constant is of a type too narrow for it.
pub(crate) const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// Which side of a [`fork`] this is.
#[derive(Debug)]
pub enum Forked {
    Child,
    Parent { pid: Pid, pidfd: OwnedFd },
}

/// Forks, with new namespaces and straight into a v2 cgroup where asked.
///
/// The caller must be single-threaded: the child is a copy of the calling
/// thread alone, so a lock that another thread held (the allocator's, say)
/// stays held in it for ever. That is a hang, not a memory error, hence a safe
/// function; the spawner and the guest have one thread each.
pub fn fork(namespaces: Namespaces, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Forked> {
    let mut pidfd: libc::c_int = -1;
    // SAFETY: clone_args is plain integers, for which all zeros is a valid value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = namespaces.0 | libc::CLONE_PIDFD as u64;
    args.pidfd = (&raw mut pidfd) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    if let Some(dir) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = u64::try_from(dir.as_raw_fd()).map_err(|_| io::ErrorKind::InvalidInput)?;
    }
    // SAFETY: no stack and no CLONE_VM are given, so the child continues on a
    // copy of this stack like fork(2); `args` and `pidfd` outlive the call.
    let ret = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of_val(&args)) };
    let pid = check(ret)?;
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Ok(Forked::Child);
    };
    // SAFETY: the call succeeded, so the kernel stored a new descriptor that
    // nothing else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Forked::Parent { pid, pidfd })
}

/// Ends the process at once: no destructors, no exit handlers.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit takes no pointers and does not return.
    unsafe { libc::_exit(status) }
}

/// Resource use of all children waited for so far, as (user + system) time in
/// microseconds and the largest resident set in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChildUsage {
    pub cpu_micros: u64,
    pub max_rss_bytes: u64,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitStatus {
    Exited(i32),
    Signaled(i32),
}

/// Reaps one child that has already ended, if there is one.
pub fn reap_any() -> io::Result<Option<(i32, WaitStatus, ChildUsage)>> {
    let mut status: libc::c_int = 0;
    // SAFETY: rusage is plain integers, for which all zeros is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live locals of the right type.
    let ret = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
    if ret < 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ECHILD) { Ok(None) } else { Err(error) };
    }
    if ret == 0 {
        return Ok(None);
    }
    let ended = if libc::WIFSIGNALED(status) {
        WaitStatus::Signaled(libc::WTERMSIG(status))
    } else {
        WaitStatus::Exited(libc::WEXITSTATUS(status))
    };
    let micros = |t: libc::timeval| {
        u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(t.tv_usec).unwrap_or(0)
    };
    let usage = ChildUsage {
        cpu_micros: micros(usage.ru_utime) + micros(usage.ru_stime),
        max_rss_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
    };
    Ok(Some((ret, ended, usage)))
}

/// Sets a resource limit, soft and hard alike.
pub fn limit(resource: u32, value: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: `limit` outlives the call; an unknown resource number is an error.
    let ret = unsafe { libc::setrlimit(resource, &raw const limit) };
    check(ret.into()).map(drop)
}

/// The soft limit of a resource now in force.
pub fn current_limit(resource: u32) -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a live local that the kernel fills.
    let ret = unsafe { libc::getrlimit(resource, &raw mut limit) };
    check(ret.into()).map(|_| limit.rlim_cur)
}

/// Resource numbers, as `setrlimit` counts them.
pub mod resource {
    pub const CPU: u32 = libc::RLIMIT_CPU;
    pub const FSIZE: u32 = libc::RLIMIT_FSIZE;
    pub const STACK: u32 = libc::RLIMIT_STACK;
    pub const CORE: u32 = libc::RLIMIT_CORE;
    pub const NPROC: u32 = libc::RLIMIT_NPROC;
    pub const NOFILE: u32 = libc::RLIMIT_NOFILE;
    pub const MEMLOCK: u32 = libc::RLIMIT_MEMLOCK;
    pub const AS: u32 = libc::RLIMIT_AS;
    pub const DATA: u32 = libc::RLIMIT_DATA;
    pub const SIGPENDING: u32 = libc::RLIMIT_SIGPENDING;
    pub const MSGQUEUE: u32 = libc::RLIMIT_MSGQUEUE;
    pub const NICE: u32 = libc::RLIMIT_NICE;
    pub const RTPRIO: u32 = libc::RLIMIT_RTPRIO;
}

/// Asks the kernel to kill this process when the *thread* that made it ends.
pub fn die_with_parent() -> io::Result<()> {
    signal_at_parents_end(libc::SIGKILL)
}

/// Asks the kernel to send `signal` to this process when the *thread* that made it ends.
pub fn signal_at_parents_end(signal: i32) -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes one integer.
    let ret = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) };
    check(ret.into()).map(drop)
}

/// Makes orphans of this process's descendants its own children.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes one integer.
    let ret = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    check(ret.into()).map(drop)
}

/// Keeps this process's memory and descriptors out of reach of its own user
/// (`ptrace`, `/proc/PID/mem`, `/proc/PID/fd`, core dumps).
pub fn set_dumpable(dumpable: bool) -> io::Result<()> {
    // SAFETY: PR_SET_DUMPABLE takes one integer.
    let ret = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, libc::c_ulong::from(dumpable), 0, 0, 0) };
    check(ret.into()).map(drop)
}

/// Returns true if [`set_dumpable`] holds, as it does from the start.
pub fn is_dumpable() -> io::Result<bool> {
    // SAFETY: PR_GET_DUMPABLE takes no arguments.
    let ret = unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) };
    Ok(check(ret.into())? == 1)
}

/// Whether a seccomp filter is in force (2), and `no_new_privs` (1).
pub fn confinement() -> io::Result<(i32, i32)> {
    // SAFETY: PR_GET_SECCOMP takes no arguments.
    let seccomp = unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) };
    // SAFETY: PR_GET_NO_NEW_PRIVS takes no arguments.
    let no_new_privs = unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) };
    check(seccomp.into())?;
    check(no_new_privs.into())?;
    Ok((seccomp, no_new_privs))
}

/// Makes the groups that this process is in the roots of its view of cgroups.
pub fn unshare_cgroups() -> io::Result<()> {
    // SAFETY: CLONE_NEWCGROUP changes no memory and closes no descriptor.
    let ret = unsafe { libc::unshare(libc::CLONE_NEWCGROUP) };
    check(ret.into()).map(drop)
}

/// Gives processes that this one starts from now on clocks of their own; their
/// offsets are written to `/proc/self/timens_offsets` before the first start.
pub fn unshare_time() -> io::Result<()> {
    const CLONE_NEWTIME: i32 = 0x80;
    // SAFETY: CLONE_NEWTIME changes no memory and closes no descriptor.
    let ret = unsafe { libc::unshare(CLONE_NEWTIME) };
    check(ret.into()).map(drop)
}

/// Moves this process into a mount namespace of its own. Single-threaded
/// callers only: other threads would stay behind.
pub fn unshare_mounts() -> io::Result<()> {
    // SAFETY: CLONE_NEWNS changes no memory and closes no descriptor.
    let ret = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    check(ret.into()).map(drop)
}
