//! Reads from procfs what the processes of one sandbox use.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use belljar_confine::descendants::with_descendants;
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, statat};
use rustix::process::{Signal, pidfd_send_signal};

/// The processes that belong to a sandbox.
#[derive(Debug)]
pub(super) enum Population {
    /// All of its pid namespace, whose own procfs this is. The guest is pid 1 there.
    Namespace(OwnedFd),
    /// The guest and its descendants, in the host's procfs. The guest adopts orphans.
    Tree { proc: OwnedFd, guest: u32 },
}

/// One process, as `/proc/<pid>/stat` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// When it was started: a pid that is used again is another process.
    pub(super) started: u64,
    /// None of its threads runs.
    pub(super) is_dead: bool,
    pub(super) threads: u64,
    /// User and system time of its own, in clock ticks.
    pub(super) own_ticks: u64,
    /// The time of children that it waited for.
    pub(super) children_ticks: u64,
    pub(super) resident_pages: u64,
    /// Pages that it has got from the kernel so far, one by one: each copy that a write to a
    /// shared page makes is among them.
    pub(super) faults: u64,
}

/// A process for as long as it is not reaped: its pid and its start.
pub(super) type ProcessKey = (u32, u64);

impl Process {
    pub(super) fn key(&self) -> ProcessKey {
        (self.pid, self.started)
    }
}

/// The longest file that is read here.
const MAX_FILE_BYTES: usize = 4096;

impl Population {
    /// All processes of the pid namespace that `guest` leads.
    pub(super) fn of_namespace(guest: u32) -> io::Result<Self> {
        let path = format!("/proc/{guest}/root/proc");
        Ok(Self::Namespace(open_directory(CWD, &path)?))
    }

    pub(super) fn of_tree(guest: u32) -> io::Result<Self> {
        let proc = open_directory(CWD, "/proc")?;
        // Without this file there is no telling who a process's children are.
        read(&proc, &format!("{guest}/task/{guest}/children"))?;
        Ok(Self::Tree { proc, guest })
    }

    fn proc(&self) -> &OwnedFd {
        match self {
            Self::Namespace(proc) | Self::Tree { proc, .. } => proc,
        }
    }

    /// The pid of the guest in this procfs.
    pub(super) fn guest(&self) -> u32 {
        match self {
            Self::Namespace(_) => 1,
            Self::Tree { guest, .. } => *guest,
        }
    }

    /// Lists the processes. One that ends meanwhile is left out.
    pub(super) fn processes(&self) -> io::Result<Vec<Process>> {
        let pids = match self {
            Self::Namespace(proc) => numbers(proc.as_fd())?,
            Self::Tree { proc, guest } => with_descendants(proc, *guest),
        };
        Ok(pids.into_iter().filter_map(|pid| self.process(pid)).collect())
    }

    fn process(&self, pid: u32) -> Option<Process> {
        let mut found = parse_stat(pid, &read(self.proc(), &format!("{pid}/stat")).ok()?)?;
        if found.resident_pages == 0 && !found.is_dead && found.threads > 1 {
            let thread = self.live_thread(pid);
            found.resident_pages = thread.map_or(0, |(_, thread)| thread.resident_pages);
        }
        Some(found)
    }

    /// Finds a thread of a process that runs. The first thread has no memory and no files once it
    /// has ended, but those of the other threads stay.
    fn live_thread(&self, pid: u32) -> Option<(u32, Process)> {
        let tasks = open_directory(self.proc(), &format!("{pid}/task")).ok()?;
        numbers(&tasks).ok()?.into_iter().find_map(|task| {
            let text = read(&tasks, &format!("{task}/stat")).ok()?;
            if has_ended(&text)? {
                return None;
            }
            Some((task, parse_stat(task, &text)?))
        })
    }

    /// Reads a file of a process, or that of a live thread if `wanted` does not find it in the
    /// first.
    fn read_of<T>(&self, pid: u32, file: &str, wanted: impl Fn(&str) -> Option<T>) -> Option<T> {
        let of = |path: String| wanted(&read(self.proc(), &path).ok()?);
        of(format!("{pid}/{file}")).or_else(|| {
            let (thread, _) = self.live_thread(pid)?;
            of(format!("{pid}/task/{thread}/{file}"))
        })
    }

    /// Bytes of a process that are in memory or swapped out and cannot be dropped: private,
    /// then shared. A page that several processes map counts in parts. `None`: not told.
    pub(super) fn proportional(&self, pid: u32) -> Option<(u64, u64)> {
        self.read_of(pid, "smaps_rollup", |text| {
            Some((
                kilobytes(text, "Pss_Anon:")? + kilobytes(text, "SwapPss:").unwrap_or(0),
                kilobytes(text, "Pss_Shmem:")?,
            ))
        })
    }

    /// Bytes of a process that are swapped out.
    pub(super) fn swapped(&self, pid: u32) -> u64 {
        self.read_of(pid, "status", |text| kilobytes(text, "VmSwap:")).unwrap_or(0)
    }

    /// Files in memory that a process has open and that no directory holds, as inode and size.
    pub(super) fn memory_files(&self, pid: u32, found: &mut Vec<(u64, u64)>) {
        let list = |path: String| {
            let dir = open_directory(self.proc(), &path).ok()?;
            let numbers = numbers(dir.as_fd()).ok()?;
            (!numbers.is_empty()).then_some((dir, numbers))
        };
        let found_in = list(format!("{pid}/fd")).or_else(|| {
            let (thread, _) = self.live_thread(pid)?;
            list(format!("{pid}/task/{thread}/fd"))
        });
        let Some((dir, numbers)) = found_in else { return };
        for number in numbers {
            let name = number.to_string();
            let mut room = [std::mem::MaybeUninit::uninit(); 8];
            let link = rustix::fs::readlinkat_raw(&dir, &name, &mut room);
            if !link.is_ok_and(|(link, _)| link.starts_with(b"/memfd:")) {
                continue;
            }
            if let Ok(stat) = statat(&dir, &name, AtFlags::empty())
                && !found.iter().any(|&(inode, _)| inode == stat.st_ino)
            {
                let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
                found.push((stat.st_ino, blocks * 512));
            }
        }
    }

    /// Signals a process. One that is gone already is no error, and one that has its pid since
    /// then is not signalled.
    pub(super) fn signal(&self, (pid, started): ProcessKey, signal: Signal) {
        // A directory of procfs stands for its process, whatever its number is on the host: what
        // is read in it is of the process that gets the signal.
        let Ok(process) = open_directory(self.proc(), &pid.to_string()) else { return };
        let found = read(&process, "stat").ok().and_then(|text| parse_stat(pid, &text));
        if found.is_some_and(|found| found.started == started) {
            let _ = pidfd_send_signal(process, signal);
        }
    }
}

/// Processes and threads of a user on this host, those in namespaces included.
pub(crate) fn tasks_of_user(uid: u32) -> io::Result<u64> {
    let proc = open_directory(CWD, "/proc")?;
    let threads = |pid: u32| {
        let text = read(&proc, &format!("{pid}/status")).ok()?;
        let is_theirs = value_of(&text, "Uid:")? == u64::from(uid);
        is_theirs.then(|| value_of(&text, "Threads:")).flatten()
    };
    Ok(numbers(proc.as_fd())?.into_iter().filter_map(threads).sum())
}

/// The real user of a process; `None`: it is gone.
pub(crate) fn user_of(proc: &OwnedFd, pid: u32) -> Option<u32> {
    let text = read(proc, &format!("{pid}/status")).ok()?;
    value_of(&text, "Uid:")?.try_into().ok()
}

/// The first number behind `key` in a file of `key: value` lines.
fn value_of(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

fn open_directory(at: impl AsFd, path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(at, path, flags, Mode::empty())?)
}

fn read(at: &OwnedFd, path: &str) -> io::Result<String> {
    let file = openat(at, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut room = [0; MAX_FILE_BYTES];
    let count = rustix::io::read(&file, &mut room)?;
    Ok(String::from_utf8_lossy(&room[..count]).into_owned())
}

/// The names in a directory that are numbers.
fn numbers(dir: impl AsFd) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if let Some(number) = name.to_str().ok().and_then(|name| name.parse().ok()) {
            found.push(number);
        }
    }
    Ok(found)
}

/// Takes `/proc/<pid>/stat` apart. A name may hold any byte, so fields are counted from its end.
fn parse_stat(pid: u32, text: &str) -> Option<Process> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // proc(5) counts from 1, and the state is the third.
    let field = |number: usize| fields.get(number - 3).copied();
    let value = |number| field(number).and_then(|text| text.parse::<u64>().ok());
    Some(Process {
        pid,
        started: value(22)?,
        // The state is that of the first thread, which may end before others.
        is_dead: has_ended(text)? && value(20)? <= 1,
        threads: value(20)?,
        own_ticks: value(14)? + value(15)?,
        children_ticks: value(16)? + value(17)?,
        resident_pages: value(24)?,
        faults: value(10)?,
    })
}

/// Returns true if a `stat` shows a thread that has ended. `None`: it is not a `stat`.
fn has_ended(text: &str) -> Option<bool> {
    let state = text.rsplit_once(')')?.1.split_ascii_whitespace().next()?;
    Some(matches!(state, "Z" | "X"))
}

/// The value behind `key` in a file of `key: value kB` lines, in bytes.
fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|count| count << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_process_cannot_pass_for_its_fields() {
        let text = "7 (a) R 9 (b)) S 1 7 7 0 -1 4194304 100 0 0 0 11 22 33 44 20 0 5 0 777 1000 \
                    250 18446744073709551615";
        let want = Process {
            pid: 7,
            started: 777,
            is_dead: false,
            threads: 5,
            own_ticks: 33,
            children_ticks: 77,
            resident_pages: 250,
            faults: 100,
        };
        assert_eq!(parse_stat(7, text), Some(want));
        assert_eq!(parse_stat(7, "7 (a"), None);
    }

    #[test]
    fn a_process_is_dead_when_no_thread_of_it_runs() {
        let is_dead = |state: &str, threads: u32| {
            let text = format!(
                "7 (a) {state} 1 7 7 0 -1 4 100 0 0 0 11 22 33 44 20 0 {threads} 0 777 1000 250"
            );
            parse_stat(7, &text).unwrap().is_dead
        };
        assert!(is_dead("Z", 1) && is_dead("X", 0));
        assert!(!is_dead("Z", 2) && !is_dead("S", 1));
    }

    /// A process whose first thread has ended is counted with all that it has.
    #[test]
    fn memory_and_files_are_those_of_a_thread_that_runs() {
        let script = "import ctypes, os, threading, time\n\
            kept = bytearray(8 << 20)\n\
            file = os.memfd_create('x')\n\
            os.write(file, b'x' * 8192)\n\
            threading.Thread(target=time.sleep, args=(60,)).start()\n\
            ctypes.CDLL(None).syscall(ctypes.c_long(EXIT), 0)";
        // exit(2) ends one thread; its number is another one on each architecture.
        let exit = if cfg!(target_arch = "x86_64") { "60" } else { "93" };
        let script = script.replace("EXIT", exit);
        let child = std::process::Command::new("python3").args(["-c", &script]).spawn();
        let mut child = child.unwrap();
        let found = Population::of_tree(std::process::id()).unwrap();
        let stat = || read(found.proc(), &format!("{}/stat", child.id()));
        let ended = crate::wait::until(std::time::Duration::from_secs(20), || {
            Ok(has_ended(&stat()?).filter(|ended| *ended))
        });
        ended.unwrap();
        let process = found.process(child.id()).unwrap();
        assert!(!process.is_dead && process.threads == 2, "{process:?}");
        let pages = (8 << 20) / rustix::param::page_size() as u64;
        assert!(process.resident_pages > pages, "{process:?}");
        assert!(found.proportional(child.id()).unwrap().0 > 8 << 20);
        let mut files = Vec::new();
        found.memory_files(child.id(), &mut files);
        assert!(files.iter().any(|&(_, bytes)| bytes == 8192), "{files:?}");
        found.signal(process.key(), Signal::KILL);
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn sizes_are_found_by_key() {
        let text = "Rss:  99 kB\nPss_Anon:     12 kB\nSwapPss:   0 kB\n";
        assert_eq!(kilobytes(text, "Pss_Anon:"), Some(12 << 10));
        assert_eq!(kilobytes(text, "Pss_Shmem:"), None);
    }

    #[test]
    fn own_process_and_its_child_are_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = Population::of_tree(std::process::id()).unwrap();
        let pids: Vec<_> = found.processes().unwrap().iter().map(|process| process.pid).collect();
        assert!(pids.contains(&child.id()) && pids.contains(&std::process::id()), "{pids:?}");
        let (private, _) = found.proportional(std::process::id()).unwrap();
        assert!(private > 0);
        let key = found.process(child.id()).unwrap().key();
        // Another process that had this pid before.
        found.signal((key.0, key.1 + 1), Signal::KILL);
        let ended = crate::wait::until(std::time::Duration::from_millis(50), || child.try_wait());
        assert!(ended.is_err(), "another process was killed");
        found.signal(key, Signal::KILL);
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn tasks_of_a_user_are_counted() {
        let own = rustix::process::getuid().as_raw();
        assert!(tasks_of_user(own).unwrap() >= 1);
        assert_eq!(value_of("Name:\tx\nUid:\t4242\t4242\t0\t0\n", "Uid:"), Some(4242));
        assert_eq!(value_of("Name:\tx\n", "Uid:"), None);
    }

    #[test]
    fn unmapped_memory_is_found() {
        let file = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&file, &[1; 8192]).unwrap();
        let mut found = Vec::new();
        Population::of_tree(std::process::id())
            .unwrap()
            .memory_files(std::process::id(), &mut found);
        assert!(found.iter().any(|&(_, bytes)| bytes == 8192), "{found:?}");
    }
}
