//! Holding another process still, and having it make system calls.
//!
//! Needs `CAP_SYS_PTRACE` over the process's user namespace. With it neither
//! uid, namespaces nor dumpability of the process matter; see ptrace(2).
//!
//! The kernel lets only the thread that seized a process command it, so
//! [`Tracee`] stays on its thread. No other thread of the program may wait for
//! "any child" meanwhile: it would take the reports that are meant for us.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Pid;

use crate::check;

/// The general registers of x86-64, in the kernel's order (`NT_PRSTATUS`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Registers {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    /// The number of the system call it is in; all ones outside of one.
    pub orig_rax: u64,
    pub rip: u64,
    pub cs: u64,
    pub eflags: u64,
    pub rsp: u64,
    pub ss: u64,
    pub fs_base: u64,
    pub gs_base: u64,
    pub ds: u64,
    pub es: u64,
    pub fs: u64,
    pub gs: u64,
}

/// What a seized process reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// It stands still because of a signal; none but ours are let through.
    Signal(i32),
    /// It stands still because it was interrupted, or with its whole group.
    Interrupted,
    Ended,
}

/// A process that this thread commands. Dropping it lets the process go on.
#[derive(Debug)]
pub struct Tracee {
    pid: Pid,
    /// Keeps the value on the thread that seized.
    _thread: PhantomData<*const ()>,
}

const NT_PRSTATUS: libc::c_int = 1;
const NT_X86_XSTATE: libc::c_int = 0x202;
const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
const PTRACE_SETSIGMASK: libc::c_uint = 0x420b;
/// Room for every state component that processors have today, AMX included.
const XSTATE_LIMIT: usize = 64 << 10;
/// How long a report is awaited without sleeping: most come within this.
const EAGER: Duration = Duration::from_micros(300);

impl Tracee {
    /// Takes command of a process, which goes on running. It is killed if this
    /// thread ends while it commands: half changed, it must not go on.
    pub fn seize(pid: Pid) -> io::Result<Self> {
        // SAFETY: PTRACE_SEIZE takes option bits and touches no memory of ours.
        check(unsafe {
            libc::ptrace(
                libc::PTRACE_SEIZE,
                pid.as_raw_nonzero().get(),
                std::ptr::null_mut::<libc::c_void>(),
                libc::PTRACE_O_EXITKILL as usize as *mut libc::c_void,
            )
        })?;
        Ok(Self { pid, _thread: PhantomData })
    }

    /// Asks it to stand still; [`Tracee::wait`] tells when it does.
    pub fn interrupt(&self) -> io::Result<()> {
        self.request(libc::PTRACE_INTERRUPT, 0, std::ptr::null_mut())
    }

    /// Runs one instruction, then reports `SIGTRAP`.
    pub fn step(&self) -> io::Result<()> {
        self.request(libc::PTRACE_SINGLESTEP, 0, std::ptr::null_mut())
    }

    /// Lets it run until it reports.
    pub fn resume(&self) -> io::Result<()> {
        self.request(libc::PTRACE_CONT, 0, std::ptr::null_mut())
    }

    /// Waits for the next report. `pidfd` must be of the same process: its end
    /// is a reason to wake up.
    pub fn wait(&self, pidfd: BorrowedFd<'_>, patience: Duration) -> io::Result<Report> {
        let begun = Instant::now();
        loop {
            let mut status: libc::c_int = 0;
            // SAFETY: `status` is a live local.
            let ret = unsafe {
                libc::waitpid(
                    self.pid.as_raw_nonzero().get(),
                    &raw mut status,
                    libc::__WALL | libc::WNOHANG,
                )
            };
            if check(ret.into())? != 0 {
                return Ok(report(status));
            }
            let waited = begun.elapsed();
            if waited > patience {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if waited < EAGER {
                rustix::thread::sched_yield();
                continue;
            }
            let pause = Timespec { tv_sec: 0, tv_nsec: 200_000 };
            match rustix::event::poll(
                &mut [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)],
                Some(&pause),
            ) {
                // A zombie's pidfd is readable before its report can be had.
                Ok(_) => rustix::thread::sched_yield(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub fn registers(&self) -> io::Result<Registers> {
        let mut registers = Registers::default();
        let mut part =
            libc::iovec { iov_base: (&raw mut registers).cast(), iov_len: size_of::<Registers>() };
        self.regset(libc::PTRACE_GETREGSET, NT_PRSTATUS, &mut part)?;
        Ok(registers)
    }

    /// The kernel refuses values that no program could have.
    pub fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        let mut copy = *registers;
        let mut part =
            libc::iovec { iov_base: (&raw mut copy).cast(), iov_len: size_of::<Registers>() };
        self.regset(libc::PTRACE_SETREGSET, NT_PRSTATUS, &mut part)
    }

    /// Floating point and vector registers, in the processor's own format.
    pub fn extended(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0u8; XSTATE_LIMIT];
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        self.regset(libc::PTRACE_GETREGSET, NT_X86_XSTATE, &mut part)?;
        bytes.truncate(part.iov_len);
        Ok(bytes)
    }

    pub fn set_extended(&self, bytes: &[u8]) -> io::Result<()> {
        let mut copy = bytes.to_vec();
        let mut part = libc::iovec { iov_base: copy.as_mut_ptr().cast(), iov_len: copy.len() };
        self.regset(libc::PTRACE_SETREGSET, NT_X86_XSTATE, &mut part)
    }

    /// The signals that it blocks, one bit each, signal 1 lowest.
    pub fn mask(&self) -> io::Result<u64> {
        let mut mask = 0u64;
        self.request(PTRACE_GETSIGMASK, size_of::<u64>(), (&raw mut mask).cast())?;
        Ok(mask)
    }

    pub fn set_mask(&self, mask: u64) -> io::Result<()> {
        let mut copy = mask;
        self.request(PTRACE_SETSIGMASK, size_of::<u64>(), (&raw mut copy).cast())
    }

    /// Lets a process go that reported a signal, which it then gets.
    pub fn let_go_with(self, signal: i32) -> io::Result<()> {
        let signal = usize::try_from(signal).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.request(libc::PTRACE_DETACH, 0, signal as *mut libc::c_void)
    }

    /// `part` must describe memory of ours of that length, alive over the call.
    fn regset(
        &self,
        request: libc::c_uint,
        set: libc::c_int,
        part: &mut libc::iovec,
    ) -> io::Result<()> {
        let set = usize::try_from(set).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.request(request, set, std::ptr::from_mut(part).cast())
    }

    /// `data` is null, a number, or to memory of the kind that `request` asks for.
    fn request(
        &self,
        request: libc::c_uint,
        address: usize,
        data: *mut libc::c_void,
    ) -> io::Result<()> {
        // SAFETY: the requests used here take no pointer but `data`, which the
        // callers above keep alive and of the size that they name.
        let ret = unsafe {
            libc::ptrace(
                request,
                self.pid.as_raw_nonzero().get(),
                address as *mut libc::c_void,
                data,
            )
        };
        check(ret).map(drop)
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        // Fails when the process is gone, or runs; then its end frees it.
        let _ = self.request(libc::PTRACE_DETACH, 0, std::ptr::null_mut());
    }
}

fn report(status: libc::c_int) -> Report {
    if !libc::WIFSTOPPED(status) {
        return Report::Ended;
    }
    if status >> 16 == libc::PTRACE_EVENT_STOP {
        return Report::Interrupted;
    }
    Report::Signal(libc::WSTOPSIG(status))
}
