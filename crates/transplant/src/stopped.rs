//! A process that stands still in its wait for a message, and calls made in
//! its name.
//!
//! A single call is made by pointing the process at the `syscall` instruction
//! that it already waits in, for one step. Many calls are made by a small piece
//! of code in a page of its own, which walks a list: two switches for hundreds
//! of calls, rather than two for each. Either way it is the process that calls,
//! with its rights, under its filter.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use belljar_sys::ptrace::{Registers, Report, Tracee};
use belljar_sys::remote;
use rustix::fs::OFlags;

use crate::PAGE;
use crate::area::Area;
use crate::process::{Files, Process};
use crate::refusal::{Doing, Refusal};

/// One system call: its name for people, its number, its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) number: u64,
    pub(crate) arguments: [u64; 6],
}

/// A process under our command. Dropping it puts back its registers and lets
/// it go on as if nothing had been.
#[derive(Debug)]
pub(crate) struct Stopped<'a> {
    process: &'a Process,
    tracee: Tracee,
    pub(crate) files: Files,
    memory: File,
    /// What it goes on with.
    resume: Registers,
    mask: u64,
    /// Where a `syscall` instruction stands.
    site: u64,
    desk: Option<Desk>,
}

/// Memory in the process that we put there: code, room for arguments, a list.
#[derive(Debug, Clone, Copy)]
struct Desk {
    start: u64,
}

/// The control socket of every context.
const CONTROL: u64 = 3;
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a process may take from its answer to its next wait.
const MOMENT: Duration = Duration::from_millis(20);
const SHORT: Duration = Duration::from_micros(100);
const SIGTRAP: i32 = 5;
/// All signals but the one that ends a step. It has to stay open: the kernel
/// would otherwise force it, and forget its handler.
const ALL_BUT_TRAP: u64 = !(1 << (SIGTRAP - 1));
const OUTSIDE: u64 = u64::MAX;
/// Interrupts on, all else off: a process that traces itself by the trap flag
/// would stop after every instruction of ours.
const PLAIN_FLAGS: u64 = 0x202;
const SYSCALL: [u8; 2] = [0x0f, 0x05];

const READ: u64 = 0;
const MMAP: u64 = 9;
const MPROTECT: u64 = 10;
const MUNMAP: u64 = 11;
const RECVFROM: u64 = 45;
const RECVMSG: u64 = 47;

/// -ERESTARTSYS: the call was interrupted before it did anything, and is to be
/// made again. Programs never see this value.
const RESTART: u64 = 512u64.wrapping_neg();
/// Answers from here on are errors.
const ERRORS: u64 = 4095u64.wrapping_neg();

/// Walks the list from rbx to rbp, makes each call, notes its answer, and stops
/// at the end or behind the first that failed.
#[rustfmt::skip]
const CODE: [u8; 51] = [
    0x48, 0x39, 0xeb,                   // again: cmp rbx, rbp
    0x73, 0x2d,                         // jae done
    0x48, 0x8b, 0x03,                   // mov rax, [rbx]
    0x48, 0x8b, 0x7b, 0x08,             // mov rdi, [rbx+8]
    0x48, 0x8b, 0x73, 0x10,             // mov rsi, [rbx+16]
    0x48, 0x8b, 0x53, 0x18,             // mov rdx, [rbx+24]
    0x4c, 0x8b, 0x53, 0x20,             // mov r10, [rbx+32]
    0x4c, 0x8b, 0x43, 0x28,             // mov r8, [rbx+40]
    0x4c, 0x8b, 0x4b, 0x30,             // mov r9, [rbx+48]
    0x0f, 0x05,                         // syscall
    0x48, 0x89, 0x43, 0x38,             // mov [rbx+56], rax
    0x48, 0x83, 0xc3, 0x40,             // add rbx, 64
    0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, // cmp rax, -4095
    0x72, 0xce,                         // jb again
    0xcc,                               // done: int3
];

/// Pages of the desk: the code, room for arguments, and the list.
const ROOM_AT: u64 = PAGE;
const LIST_AT: u64 = 2 * PAGE;
const LIST: usize = 512;
const ENTRY: usize = 64;
pub(crate) const DESK: u64 = LIST_AT + (LIST * ENTRY) as u64;

impl<'a> Stopped<'a> {
    /// Stops a process that waits for its next message, and only such a one.
    /// One that has just answered is given a moment to come to wait.
    pub(crate) fn stop(process: &'a Process) -> Result<Self, Refusal> {
        let files = process.files()?;
        let begun = Instant::now();
        loop {
            // A look before anything is touched; the registers are looked at
            // after.
            if waits(&files)? {
                match Self::seize(process, process.files()?) {
                    Err(Refusal::Busy) => {}
                    other => return other,
                }
            }
            if begun.elapsed() > MOMENT {
                return Err(Refusal::Busy);
            }
            process.wait_for_end(SHORT)?;
        }
    }

    fn seize(process: &'a Process, files: Files) -> Result<Self, Refusal> {
        let memory = files.open("mem", OFlags::RDWR)?;
        let tracee = Tracee::seize(process.pid()).doing("take command of the process")?;
        // Seized by number: if the process still lives, it is the one meant.
        if !process.is_alive() {
            return Err(Refusal::Gone);
        }
        tracee.interrupt().doing("interrupt the process")?;
        match tracee.wait(process.pidfd(), PATIENCE) {
            Ok(Report::Interrupted) => {}
            Ok(Report::Ended) => return Err(Refusal::Gone),
            Ok(Report::Signal(signal)) => {
                // One that was under way already, and that it has to get.
                tracee.let_go_with(signal).doing("let the process go")?;
                return Err(Refusal::Busy);
            }
            Err(_) => {
                process.kill();
                return Err(Refusal::Stuck);
            }
        }
        let registers = tracee.registers().doing("read its registers")?;
        let waits =
            is_wait(registers.orig_rax) && registers.rdi == CONTROL && registers.rax == RESTART;
        if !waits {
            return Err(Refusal::Busy);
        }
        let mask = tracee.mask().doing("read its signal mask")?;
        // As the kernel does before it makes an interrupted call again. Done
        // here, so that it happens whichever way the process is resumed.
        let resume = Registers {
            rax: registers.orig_rax,
            rip: registers.rip.wrapping_sub(2),
            orig_rax: OUTSIDE,
            ..registers
        };
        let stopped =
            Self { process, tracee, files, memory, site: resume.rip, resume, mask, desk: None };
        stopped.check_site()?;
        stopped.tracee.set_mask(ALL_BUT_TRAP).doing("hold back its signals")?;
        Ok(stopped)
    }

    /// Refuses a process whose copy would not be whole.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let threads = self.files.threads()?;
        if threads > 1 {
            return Err(Refusal::Threads(threads));
        }
        let first = i32::try_from(CONTROL + 1).unwrap_or(i32::MAX);
        let open = self.files.descriptors(first)?;
        if open.is_empty() { Ok(()) } else { Err(Refusal::Descriptors(open)) }
    }

    pub(crate) fn process(&self) -> &Process {
        self.process
    }

    /// What it goes on with: it makes the call that it was stopped in again.
    pub(crate) fn registers(&self) -> Registers {
        self.resume
    }

    pub(crate) fn mask(&self) -> u64 {
        self.mask
    }

    pub(crate) fn extended(&self) -> Result<Vec<u8>, Refusal> {
        self.tracee.extended().doing("read its vector registers")
    }

    /// Gives it other registers to go on with.
    pub(crate) fn become_like(
        &mut self,
        registers: &Registers,
        mask: u64,
        extended: &[u8],
    ) -> Result<(), Refusal> {
        // Tried now, while there is still someone to tell that they are refused.
        self.tracee.set_registers(registers).doing("set its registers")?;
        self.tracee.set_extended(extended).doing("set its vector registers")?;
        self.resume = *registers;
        self.mask = mask;
        Ok(())
    }

    /// Its `/proc/PID/mem`.
    pub(crate) fn memory(&self) -> &File {
        &self.memory
    }

    /// Reads memory whatever its protection.
    pub(crate) fn peek(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        self.memory.read_exact_at(into, address)
    }

    /// Writes private memory whatever its protection.
    pub(crate) fn poke(&self, address: u64, from: &[u8]) -> Result<(), Refusal> {
        self.memory.write_all_at(from, address).doing("write its memory")
    }

    /// Puts the desk where neither the process has anything, nor will have.
    pub(crate) fn set_up(&mut self, areas: &[Area], also: &[(u64, u64)]) -> Result<(), Refusal> {
        let start = free_place(areas, also).ok_or(Refusal::Stack)?;
        const READ_WRITE: u64 = 3;
        const READ_EXECUTE: u64 = 5;
        const PRIVATE_ANONYMOUS_NOREPLACE: u64 = 0x02 | 0x20 | 0x10_0000;
        let flags = PRIVATE_ANONYMOUS_NOREPLACE;
        self.call(&mmap([start, DESK, READ_WRITE, flags, u64::MAX, 0]))?;
        self.desk = Some(Desk { start });
        self.call(&Call {
            name: "mprotect",
            number: MPROTECT,
            arguments: [start, PAGE, READ_EXECUTE, 0, 0, 0],
        })?;
        self.poke(start, &CODE)
    }

    /// Takes the desk away.
    pub(crate) fn tidy_up(&mut self) -> Result<(), Refusal> {
        let Some(desk) = self.desk.take() else { return Ok(()) };
        self.call(&munmap(desk.start, DESK)).map(drop)
    }

    /// The address of the room for arguments.
    pub(crate) fn room(&self) -> u64 {
        self.desk.map_or(0, |desk| desk.start + ROOM_AT)
    }

    /// Makes calls in order, up to the first that fails. Answers what each
    /// returned.
    pub(crate) fn run(&self, calls: &[Call]) -> Result<Vec<u64>, Refusal> {
        let mut answers = Vec::with_capacity(calls.len());
        for part in calls.chunks(LIST) {
            answers.extend(self.run_part(part)?);
        }
        Ok(answers)
    }

    fn run_part(&self, calls: &[Call]) -> Result<Vec<u64>, Refusal> {
        let desk = self.desk.ok_or(Refusal::Gone)?;
        let mut list = Vec::with_capacity(calls.len() * ENTRY);
        for call in calls {
            list.extend(call.number.to_le_bytes());
            list.extend(call.arguments.iter().flat_map(|argument| argument.to_le_bytes()));
            list.extend([0; 8]);
        }
        let start = desk.start + LIST_AT;
        let end = start + list.len() as u64;
        let pid = self.process.pid();
        remote::write(pid, &list, &[(start, list.len())]).doing("write its list of calls")?;
        let registers = Registers {
            rip: desk.start,
            rbx: start,
            rbp: end,
            orig_rax: OUTSIDE,
            eflags: PLAIN_FLAGS,
            ..self.resume
        };
        self.tracee.set_registers(&registers).doing("set its registers")?;
        self.until_trap(desk.start + CODE.len() as u64, || self.tracee.resume())?;
        let length = list.len();
        remote::read(pid, &mut list, &[(start, length)]).doing("read its answers")?;
        let (entries, _) = list.as_chunks::<ENTRY>();
        let answer = |entry: &[u8; ENTRY]| {
            entry.last_chunk().map_or(0, |bytes: &[u8; 8]| u64::from_le_bytes(*bytes))
        };
        calls.iter().zip(entries).map(|(call, entry)| judge(call, answer(entry))).collect()
    }

    /// Makes one call at the place where the process waits.
    fn call(&self, call: &Call) -> Result<u64, Refusal> {
        self.check_site()?;
        let [rdi, rsi, rdx, r10, r8, r9] = call.arguments;
        let registers = Registers {
            rip: self.site,
            rax: call.number,
            orig_rax: OUTSIDE,
            eflags: PLAIN_FLAGS,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..self.resume
        };
        self.tracee.set_registers(&registers).doing("set its registers")?;
        let after = self.until_trap(self.site + 2, || self.tracee.step())?;
        judge(call, after.rax)
    }

    fn check_site(&self) -> Result<(), Refusal> {
        let mut bytes = [0; 2];
        let there = self.peek(self.site, &mut bytes).is_ok() && bytes == SYSCALL;
        if there { Ok(()) } else { Err(Refusal::Busy) }
    }

    /// Lets the process go on until it is trapped, which has to be at `place`.
    fn until_trap(
        &self,
        place: u64,
        go: impl Fn() -> io::Result<()>,
    ) -> Result<Registers, Refusal> {
        // Signals are held back, so there is at most a stop of the whole group.
        const TRIES: usize = 8;
        for _ in 0..TRIES {
            go().doing("let the process make a call")?;
            match self.tracee.wait(self.process.pidfd(), PATIENCE) {
                Ok(Report::Signal(SIGTRAP)) => {
                    let registers = self.tracee.registers().doing("read its registers")?;
                    if registers.rip == place {
                        return Ok(registers);
                    }
                    break;
                }
                Ok(Report::Interrupted) => {}
                Ok(Report::Ended) => return Err(Refusal::Gone),
                Ok(Report::Signal(_)) | Err(_) => break,
            }
        }
        // Someone else changes its memory under our hands.
        self.process.kill();
        Err(Refusal::Stuck)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let tidy = self.tidy_up().is_ok();
        let restored = self.tracee.set_registers(&self.resume).is_ok()
            && self.tracee.set_mask(self.mask).is_ok();
        // With our registers it would run into nowhere; better it ends here.
        if !tidy || !restored {
            self.process.kill();
        }
    }
}

pub(crate) fn mmap(arguments: [u64; 6]) -> Call {
    Call { name: "mmap", number: MMAP, arguments }
}

pub(crate) fn munmap(start: u64, length: u64) -> Call {
    Call { name: "munmap", number: MUNMAP, arguments: [start, length, 0, 0, 0, 0] }
}

pub(crate) fn mprotect(start: u64, length: u64, access: u64) -> Call {
    Call { name: "mprotect", number: MPROTECT, arguments: [start, length, access, 0, 0, 0] }
}

fn judge(call: &Call, answer: u64) -> Result<u64, Refusal> {
    if answer < ERRORS {
        return Ok(answer);
    }
    let number = i32::try_from(answer.wrapping_neg()).unwrap_or(0);
    Err(Refusal::Call { call: call.name, source: io::Error::from_raw_os_error(number) })
}

/// Whether a process waits for a message, as far as procfs tells.
fn waits(files: &Files) -> Result<bool, Refusal> {
    let doing = files.read("syscall", 256)?.unwrap_or_default();
    let mut words = doing.split(' ');
    let number = words.next().and_then(|word| word.parse().ok());
    Ok(number.is_some_and(is_wait) && words.next() == Some("0x3"))
}

fn is_wait(number: u64) -> bool {
    matches!(number, READ | RECVFROM | RECVMSG)
}

/// A free place with a free page on either side, so that the kernel never joins
/// it with a neighbour.
fn free_place(areas: &[Area], also: &[(u64, u64)]) -> Option<u64> {
    const LOWEST: u64 = 0x1000_0000;
    const HIGHEST: u64 = 0x7fff_0000_0000;
    let mut taken: Vec<(u64, u64)> = areas.iter().map(|area| (area.start, area.end)).collect();
    taken.extend(also);
    taken.sort_unstable();
    let mut candidate = LOWEST;
    for (start, end) in taken {
        if candidate + DESK + PAGE <= start {
            break;
        }
        candidate = candidate.max(end.saturating_add(PAGE));
    }
    (candidate + DESK < HIGHEST).then_some(candidate)
}
