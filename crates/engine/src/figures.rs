//! `/proc/meminfo`, `cpuinfo`, `stat`, `uptime` and `loadavg` as a jail shows them: the sandbox's
//! limits and use, and nothing of the host's.
//!
//! The first process of a sandbox writes the files while it builds the root; they are mounted
//! read-only over those of procfs. The engine, which reads the sandbox's cgroups, writes them again
//! while code runs. They are at the root of the scratch file system, which no path inside
//! leads to.

mod text;

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt as _;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use belljar_domain::Limits;
use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};

use text::Snapshot;

/// How names of the files begin, at the root of the scratch file system. A mount shows the path
/// of what it was made from: one name tells nothing of how a sandbox is built.
pub(crate) const PREFIX: &str = "p-";

/// How old the files may be while code runs.
const REFRESH_INTERVAL: Duration = Duration::from_millis(500);

/// What the kernel counted for the whole sandbox; `None` where nobody counts it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Use {
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) cache_bytes: Option<u64>,
    pub(crate) cpu: Option<Duration>,
    pub(crate) tasks: Option<u64>,
}

/// Writes the files for the first time, below the current directory. Called inside the sandbox's
/// time namespace, whose clock began with the engine.
pub(crate) fn create(limits: &Limits) -> io::Result<()> {
    let boot = clock_gettime(ClockId::Boottime);
    let uptime = Duration::new(
        u64::try_from(boot.tv_sec).unwrap_or(0),
        u32::try_from(boot.tv_nsec).unwrap_or(0),
    );
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let snapshot = Snapshot {
        memory_bytes: limits.memory_bytes,
        processors: processors(limits),
        uptime,
        booted: now.saturating_sub(uptime).as_secs(),
        used: Use::default(),
        load: [0.0; 3],
    };
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let files = snapshot.changing().into_iter().chain([("cpuinfo", snapshot.cpuinfo())]);
    for (name, text) in files {
        let path = format!("{PREFIX}{name}");
        let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
        File::from(file).write_all_at(text.as_bytes(), 0)?;
    }
    Ok(())
}

/// The number of processors that a sandbox can keep busy.
fn processors(limits: &Limits) -> u32 {
    let host = std::thread::available_parallelism().map_or(1, usize::from);
    let host = u32::try_from(host).unwrap_or(u32::MAX);
    limits.cpu_millis.div_ceil(1000).clamp(1, host)
}

/// The files of one sandbox, as the engine writes them.
#[derive(Debug)]
pub(crate) struct Figures {
    limits: Limits,
    /// When the files were read first, and what they said about time.
    since: Instant,
    uptime: Duration,
    booted: u64,
    last: Mutex<Last>,
}

#[derive(Debug)]
struct Last {
    at: Instant,
    cpu: Duration,
    load: [f64; 3],
}

impl Figures {
    /// Takes over the files of the sandbox with this scratch file system; `None` if it has none.
    pub(crate) fn open(scratch: BorrowedFd<'_>, limits: &Limits) -> Option<Self> {
        let read = |name| open_file(scratch, name, OFlags::RDONLY).and_then(io::read_to_string);
        let uptime = text::uptime_of(&read("uptime").ok()?)?;
        let booted = text::booted_of(&read("stat").ok()?)?;
        let now = Instant::now();
        let last = Last { at: now, cpu: Duration::ZERO, load: [0.0; 3] };
        let limits = limits.clone();
        Some(Self { limits, since: now, uptime, booted, last: Mutex::new(last) })
    }

    /// Shows other limits from now on.
    pub(crate) fn relimit(
        &mut self,
        scratch: BorrowedFd<'_>,
        limits: &Limits,
        used: Use,
    ) -> io::Result<()> {
        self.limits = limits.clone();
        let snapshot = self.snapshot(used, [0.0; 3], Instant::now());
        let cpuinfo = [("cpuinfo", snapshot.cpuinfo())];
        for (name, text) in snapshot.changing().into_iter().chain(cpuinfo) {
            let file = open_file(scratch, name, OFlags::WRONLY)?;
            file.set_len(text.len() as u64)?;
            file.write_all_at(text.as_bytes(), 0)?;
        }
        Ok(())
    }

    /// Writes the files again if they are old. `measure` reads counters of the kernel.
    pub(crate) fn refresh(
        &self,
        scratch: BorrowedFd<'_>,
        measure: impl FnOnce() -> Use,
    ) -> io::Result<()> {
        let now = Instant::now();
        // Another call of the sandbox is at it.
        let Ok(mut last) = self.last.try_lock() else { return Ok(()) };
        let span = now.duration_since(last.at);
        if span < REFRESH_INTERVAL {
            return Ok(());
        }
        let used = measure();
        let cpu = used.cpu.unwrap_or_default();
        let busy = cpu.saturating_sub(last.cpu).as_secs_f64() / span.as_secs_f64();
        let load = text::decayed(last.load, busy, span);
        *last = Last { at: now, cpu, load };
        for (name, text) in self.snapshot(used, load, now).changing() {
            // In one write, and as long as it was: who reads finds a whole file.
            open_file(scratch, name, OFlags::WRONLY)?.write_all_at(text.as_bytes(), 0)?;
        }
        Ok(())
    }

    fn snapshot(&self, used: Use, load: [f64; 3], now: Instant) -> Snapshot {
        Snapshot {
            memory_bytes: self.limits.memory_bytes,
            processors: processors(&self.limits),
            uptime: self.uptime + now.duration_since(self.since),
            booted: self.booted,
            used,
            load,
        }
    }
}

/// Opens a file that no path inside leads to.
fn open_file(scratch: BorrowedFd<'_>, name: &str, access: OFlags) -> io::Result<File> {
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let path = format!("{PREFIX}{name}");
    Ok(rustix::fs::openat(scratch, path, flags, Mode::empty())?.into())
}
