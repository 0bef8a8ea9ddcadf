//! A process as named by the caller, and what procfs tells of it.

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::refusal::{Doing, Refusal};

/// A process, held so that its number cannot come to mean another one.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    pidfd: OwnedFd,
}

impl Process {
    /// Takes hold of a process by its number, as this program sees it.
    ///
    /// The caller must know the number to be right at this moment: because the
    /// process is its child, or sent it over a socket that is still open.
    pub fn open(pid: Pid) -> Result<Self, Refusal> {
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).doing("take hold of the process")?;
        Ok(Self { pid, pidfd })
    }

    pub fn pid(&self) -> Pid {
        self.pid
    }

    pub(crate) fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.wait_for_end(Duration::ZERO).is_ok()
    }

    /// Waits that long, or until the process has ended, which is an error.
    pub(crate) fn wait_for_end(&self, time: Duration) -> Result<(), Refusal> {
        let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&time)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(()),
            _ => Err(Refusal::Gone),
        }
    }

    /// Says of a process that was killed meanwhile that it is gone, rather than
    /// what it looked like on its way out.
    pub(crate) fn explain(&self, refusal: Refusal) -> Refusal {
        const A_MOMENT: Duration = Duration::from_millis(5);
        match refusal {
            Refusal::Busy | Refusal::Stuck => refusal,
            _ if self.wait_for_end(A_MOMENT).is_err() => Refusal::Gone,
            _ => refusal,
        }
    }

    pub(crate) fn kill(&self) {
        // An error means that it has ended by itself.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Its directory in procfs.
    pub(crate) fn files(&self) -> Result<Files, Refusal> {
        let path = format!("/proc/{}", self.pid.as_raw_nonzero());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, path, flags, Mode::empty());
        // Opened by number, hence the second look: it lived after, so it was it.
        if !self.is_alive() {
            return Err(Refusal::Gone);
        }
        Ok(Files { directory: directory.doing("open its directory in procfs")? })
    }
}

/// The directory of one process in procfs. What is opened beneath fails once
/// the process has ended, even if its number is given out again.
#[derive(Debug)]
pub(crate) struct Files {
    directory: OwnedFd,
}

impl Files {
    pub(crate) fn open(&self, name: &str, flags: OFlags) -> Result<File, Refusal> {
        let fd = openat(&self.directory, name, flags | OFlags::CLOEXEC, Mode::empty());
        match fd {
            // The entries of a process that has ended vanish.
            Err(rustix::io::Errno::NOENT) => Err(Refusal::Gone),
            other => Ok(other.doing("open a file of it in procfs")?.into()),
        }
    }

    /// All of a small file; `None` when it is longer than `limit`.
    pub(crate) fn read(&self, name: &str, limit: usize) -> Result<Option<String>, Refusal> {
        let file = self.open(name, OFlags::RDONLY)?;
        let mut text = Vec::new();
        let most = u64::try_from(limit).unwrap_or(u64::MAX);
        file.take(most.saturating_add(1)).read_to_end(&mut text).doing("read a file of it")?;
        if text.len() > limit {
            return Ok(None);
        }
        // Names of files are bytes; what is no text is of no interest here.
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }

    /// Where a link of it leads.
    pub(crate) fn link(&self, name: &str) -> Option<CString> {
        rustix::fs::readlinkat(&self.directory, name, Vec::new()).ok()
    }

    pub(crate) fn threads(&self) -> Result<usize, Refusal> {
        let list = self.open("task", OFlags::RDONLY | OFlags::DIRECTORY)?;
        let entries = rustix::fs::Dir::read_from(&list).doing("list its threads")?;
        Ok(entries.filter_map(Result::ok).filter(|entry| is_number(entry.file_name())).count())
    }

    /// Names some of the descriptors from `first` on.
    pub(crate) fn descriptors(&self, first: i32) -> Result<Vec<String>, Refusal> {
        const NAMED: usize = 8;
        let list = self.open("fd", OFlags::RDONLY | OFlags::DIRECTORY)?;
        let entries = rustix::fs::Dir::read_from(&list).doing("list its descriptors")?;
        let numbers = entries.filter_map(Result::ok).filter_map(|entry| {
            entry.file_name().to_str().ok().and_then(|name| name.parse::<i32>().ok())
        });
        let name = |number: i32| {
            let target = rustix::fs::readlinkat(&list, number.to_string(), Vec::new());
            let target = target.map(|name| name.to_string_lossy().into_owned());
            format!("{number} ({})", target.unwrap_or_default())
        };
        Ok(numbers.filter(|number| *number >= first).take(NAMED).map(name).collect())
    }
}

fn is_number(name: &std::ffi::CStr) -> bool {
    name.to_bytes().iter().all(u8::is_ascii_digit)
}
