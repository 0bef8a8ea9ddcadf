//! Forking a child straight into namespaces that are already there.
//!
//! A pid namespace is given at birth and a user namespace never given back, so
//! a process that wants children elsewhere, and to stay where it is, needs one
//! in between: it shares our memory, enters the namespaces, forks the child and
//! is gone. It lives for a few microseconds while we stand still (`vfork`).

use std::arch::asm;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use rustix::process::Pid;

use crate::check;
use crate::process::{CLONE_INTO_CGROUP, Namespaces};

/// Which side of a [`fork_into`] this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entered {
    Child,
    /// The child is not ours: its parent was the one in between.
    Parent(Pid),
}

/// Forks a child into `namespaces` of the process behind `target`, a pidfd, and
/// straight into a v2 `cgroup` where one is given.
///
/// Single-threaded callers only, as with [`crate::process::fork`]. The caller
/// must be allowed to enter: be the owner of the user namespace, say. Handlers
/// of `pthread_atfork` are not run.
pub fn fork_into(
    target: BorrowedFd<'_>,
    namespaces: Namespaces,
    cgroup: Option<BorrowedFd<'_>>,
) -> io::Result<Entered> {
    let flags = i64::try_from(namespaces.bits()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: clone_args is plain integers, for which all zeros is a valid value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.exit_signal = libc::SIGCHLD as u64;
    if let Some(address) = thread_id_address() {
        args.flags |= (libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID) as u64;
        args.child_tid = address as u64;
    }
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = u64::try_from(cgroup.as_raw_fd()).map_err(|_| io::ErrorKind::InvalidInput)?;
    }
    let between: i64;
    let mut born: i64 = 0;
    // SAFETY: the first clone shares memory and stack with its child, and the
    // caller is suspended until that child exits. The child runs only what is
    // written here: it touches no stack, changes no register that the caller
    // still needs (each has its own copy), and writes only `born`, which is a
    // live local. The second clone copies memory like fork(2); its child leaves
    // this block with 0 on its own copy of the stack.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 3f",
            "mov eax, {setns}",
            "mov rdi, r12",
            "mov rsi, r13",
            "syscall",
            "test rax, rax",
            "js 2f",
            "mov eax, {clone3}",
            "mov rdi, r8",
            "mov rsi, r9",
            "syscall",
            "test rax, rax",
            "jz 3f",
            "2:",
            "mov [r14], rax",
            "mov eax, {exit}",
            "xor edi, edi",
            "syscall",
            "ud2",
            "3:",
            setns = const libc::SYS_setns,
            clone3 = const libc::SYS_clone3,
            exit = const libc::SYS_exit,
            inlateout("rax") libc::SYS_clone => between,
            inlateout("rdi") i64::from(libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD) => _,
            inlateout("rsi") 0i64 => _,
            inlateout("rdx") 0i64 => _,
            inlateout("r10") 0i64 => _,
            inlateout("r8") &raw const args => _,
            inlateout("r9") size_of_val(&args) => _,
            in("r12") i64::from(target.as_raw_fd()),
            in("r13") flags,
            in("r14") &raw mut born,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    if between == 0 {
        restore_rseq();
        return Ok(Entered::Child);
    }
    if between < 0 {
        return Err(errno(between));
    }
    // It has exited, or is about to.
    // SAFETY: waitpid of a child of ours, without asking for its status.
    unsafe { libc::waitpid(libc::pid_t::try_from(between).unwrap_or(0), std::ptr::null_mut(), 0) };
    if born < 0 {
        return Err(errno(born));
    }
    let pid = i32::try_from(born).ok().and_then(Pid::from_raw);
    pid.map(Entered::Parent).ok_or_else(|| io::ErrorKind::Other.into())
}

/// Enters `namespaces` of the process behind `target`, a pidfd.
pub fn enter(target: BorrowedFd<'_>, namespaces: Namespaces) -> io::Result<()> {
    let flags =
        libc::c_int::try_from(namespaces.bits()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: setns takes a descriptor and an integer.
    check(unsafe { libc::setns(target.as_raw_fd(), flags) }.into()).map(drop)
}

fn errno(ret: i64) -> io::Error {
    io::Error::from_raw_os_error(i32::try_from(-ret).unwrap_or(libc::EINVAL))
}

/// Where the C library keeps the number of this thread, so that the kernel can
/// put the child's there. Kernels without checkpoint support do not tell.
fn thread_id_address() -> Option<usize> {
    const PR_GET_TID_ADDRESS: libc::c_int = 40;
    let mut address: usize = 0;
    // SAFETY: the kernel stores one pointer into a live local.
    let ret = unsafe { libc::prctl(PR_GET_TID_ADDRESS, &raw mut address) };
    (ret == 0 && address != 0).then_some(address)
}

/// A process that shares its parent's memory is taken off the kernel's list of
/// restartable sequences, and so is its child: glibc's registration is redone.
fn restore_rseq() {
    const SIGNATURE: u32 = 0x5305_3053;
    const SIZE: libc::c_long = 32;
    // SAFETY: the name is NUL-terminated; an absent symbol is null.
    let offset = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()) };
    if offset.is_null() {
        return;
    }
    // SAFETY: glibc exports it as a `const ptrdiff_t`.
    let offset = unsafe { *offset.cast::<isize>() };
    let thread: usize;
    // SAFETY: on x86-64 the word at fs:0 is the thread pointer itself.
    unsafe { asm!("mov {}, fs:0", out(reg) thread, options(nostack, readonly)) };
    let area = thread.wrapping_add_signed(offset);
    // SAFETY: `area` is glibc's own, as large as the kernel's first version of
    // it, and was registered before; a refusal leaves things as they are.
    unsafe { libc::syscall(libc::SYS_rseq, area, SIZE, 0, SIGNATURE) };
}

/// Runs `act` on this thread with another effective user, all capabilities kept: files that
/// it opens are opened by that user. The real and the saved id stay, so nobody of that user
/// may signal or trace the thread meanwhile. For processes of several threads as well.
pub fn as_user<T>(uid: u32, act: impl FnOnce() -> T) -> io::Result<T> {
    // One at a time: whether the process can be dumped is not a thread's own matter, and a
    // change of user takes it away.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dumpable = crate::process::is_dumpable()?;
    let made = owned_by(uid, act);
    crate::process::set_dumpable(dumpable)?;
    made
}

/// Runs `act` as [`owned_by`] does, and with the effective group of the same number.
pub fn owned_by_both<T>(id: u32, act: impl FnOnce() -> T) -> io::Result<T> {
    let keep = libc::gid_t::MAX;
    let become_effective = |gid: u32| {
        // SAFETY: setresgid takes three integers.
        check(unsafe { libc::syscall(libc::SYS_setresgid, keep, gid, keep) })
    };
    become_effective(id)?;
    let made = owned_by(id, act);
    become_effective(0)?;
    made
}

/// Runs `act` with another effective user, all capabilities kept: what it makes
/// (a user namespace, say) belongs to that user.
pub fn owned_by<T>(uid: u32, act: impl FnOnce() -> T) -> io::Result<T> {
    const NO_SETUID_FIXUP: libc::c_ulong = 0b1 << 2;
    let keep = libc::uid_t::MAX;
    let secure = |bits: libc::c_ulong| {
        // SAFETY: PR_SET_SECUREBITS takes one integer.
        check(unsafe { libc::prctl(libc::PR_SET_SECUREBITS, bits, 0, 0, 0) }.into())
    };
    let become_effective = |uid: u32| {
        // SAFETY: setresuid takes three integers.
        check(unsafe { libc::syscall(libc::SYS_setresuid, keep, uid, keep) })?;
        // A change of user makes /proc/self root's; children still need theirs.
        crate::process::set_dumpable(true)
    };
    secure(NO_SETUID_FIXUP)?;
    become_effective(uid)?;
    let made = act();
    become_effective(0)?;
    secure(0)?;
    Ok(made)
}
