//! Keeps limits without cgroups: looks at all processes of a sandbox, again and again.
//!
//! Each process has resource limits that stop it between two looks. What counts for all
//! processes together (memory, processes, CPU time) is added up here. A sandbox over its
//! memory or its processes loses every process but the guest; the counters say why before
//! the first one dies, so whoever hears of its end finds the reason.
//!
//! ```text
//! look: /proc/<pid>/stat of each process        cheap; resident memory counts too much
//!   over the limit? smaps_rollup of each         shared pages count once; not read again
//!                                                before growth could reach the limit
//!     still over? count an OOM; stop, then kill all but the guest
//! next look: the sooner, the less is left
//! ```
//!
//! A process that is killed leaves room for another to be forked. A stopped one does not: in
//! the end every process stands still, and then all are killed. What starts after that is not
//! of them, and lives.
//!
//! What only the kernel knows is not counted: buffers of sockets and pipes, System V
//! segments that no process has attached, files in memory that are on their way in a socket.

mod census;
mod watchman;

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belljar_domain::{Limits, Tier};

use census::{Population, Process, ProcessKey};
pub(crate) use census::{tasks_of_user, user_of};
use rustix::process::Signal;
pub(crate) use watchman::Watchman;

/// The time between two looks, at the least and at the most.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// A look may take one part in so many of a core's time, whatever is left.
const MAX_DUTY: u32 = 20;

/// The pause never gets longer than this, however long a look takes.
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// Memory that one core fills in a second, generously.
const BYTES_PER_CORE_SECOND: u64 = 4 << 30;

/// The time for which one look goes on stopping a sandbox that forks meanwhile, and then waits for the
/// ends of those that it has killed.
const MAX_KILL_TIME: Duration = Duration::from_millis(100);

/// The watch over one sandbox.
#[derive(Debug)]
pub(crate) struct Watch {
    population: Population,
    /// The writable layer, which is memory.
    scratch: Option<OwnedFd>,
    limits: Mutex<Watched>,
    tally: Mutex<Tally>,
    oom_kills: AtomicU64,
    refused_processes: AtomicU64,
}

/// The limits that are watched.
#[derive(Debug, Clone, Copy)]
struct Watched {
    memory_bytes: u64,
    pids: u64,
    cores: u64,
}

impl From<&Limits> for Watched {
    fn from(limits: &Limits) -> Self {
        Self {
            memory_bytes: limits.memory_bytes,
            pids: limits.pids.into(),
            cores: u64::from(limits.cpu_millis).div_ceil(1000),
        }
    }
}

/// What was added up by the last look.
#[derive(Debug, Default, Clone)]
struct Tally {
    memory_bytes: u64,
    tasks: u64,
    /// CPU time of each live process by itself.
    live: HashMap<ProcessKey, u64>,
    /// Killed by a look before, and not reaped yet.
    killed: HashSet<ProcessKey>,
    /// CPU time of processes that are gone, as it was when they were seen last.
    gone_ticks: u64,
    /// CPU time of all, in clock ticks. It never shrinks.
    ticks: u64,
    next_look: Option<Instant>,
    /// The last time that pages were looked at one by one.
    measured: Option<Measurement>,
}

/// The memory of a sandbox at one moment, and what to tell its growth by.
#[derive(Debug, Clone)]
struct Measurement {
    bytes: u64,
    /// Of files in memory.
    file_bytes: u64,
    /// Start, resident pages and faults of each process, by pid.
    seen: HashMap<u32, (u64, u64, u64)>,
}

impl Measurement {
    /// The most memory that the sandbox can have by now. A page gets into memory by being
    /// resident for the first time, or as a copy that a write to a shared one makes.
    fn most_now(&self, processes: &[Process], file_bytes: u64, page: u64) -> u64 {
        let growth = |process: &Process| {
            let (resident, faults) = match self.seen.get(&process.pid) {
                Some(&(started, resident, faults)) if started == process.started => {
                    (resident, faults)
                }
                _ => (0, 0),
            };
            let resident = process.resident_pages.saturating_sub(resident);
            resident + process.faults.saturating_sub(faults)
        };
        let pages = processes.iter().map(growth).sum::<u64>();
        self.bytes + pages * page + file_bytes.saturating_sub(self.file_bytes)
    }
}

impl Watch {
    /// Starts to watch the sandbox of `guest`. Fails where its processes cannot be seen.
    pub(crate) fn new(
        tier: Tier,
        guest: u32,
        scratch: Option<OwnedFd>,
        limits: &Limits,
    ) -> io::Result<Self> {
        let population = match tier {
            Tier::Process => Population::of_tree(guest)?,
            Tier::Jail | Tier::Oci(_) | Tier::Microvm => Population::of_namespace(guest)?,
        };
        if population.processes()?.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Self {
            population,
            scratch,
            limits: Mutex::new(limits.into()),
            tally: Mutex::default(),
            oom_kills: AtomicU64::new(0),
            refused_processes: AtomicU64::new(0),
        })
    }

    pub(crate) fn relimit(&self, limits: &Limits) {
        *lock(&self.limits) = limits.into();
    }

    /// How often the sandbox was over its memory.
    pub(crate) fn oom_kills(&self) -> u64 {
        self.oom_kills.load(Ordering::Acquire)
    }

    /// How often the sandbox was over its processes.
    pub(crate) fn refused_processes(&self) -> u64 {
        self.refused_processes.load(Ordering::Acquire)
    }

    /// CPU time of everything that ran inside, without the guest.
    pub(crate) fn cpu(&self) -> Duration {
        let _ = self.count();
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Duration::from_millis(lock(&self.tally).ticks.saturating_mul(1000) / per_second)
    }

    /// Memory at the last look; pages that processes share may count more than once.
    pub(crate) fn memory(&self) -> u64 {
        lock(&self.tally).memory_bytes
    }

    /// Processes and threads at the last look, without the guest.
    pub(crate) fn tasks(&self) -> u64 {
        lock(&self.tally).tasks
    }

    /// Notes that a process could not be made, if so many are there that the one that has
    /// just failed was the last. Ends the others, which would be over the limit with the next
    /// call, and take that along.
    pub(crate) fn note_failure(&self) {
        let Ok(processes) = self.count() else { return };
        let processes = self.without_killed(processes);
        if self.unreaped_tasks(&processes) + 1 > lock(&self.limits).pids {
            self.refused_processes.fetch_add(1, Ordering::AcqRel);
            self.kill_all();
        }
    }

    /// When the next look is due.
    fn next_look(&self) -> Option<Instant> {
        lock(&self.tally).next_look
    }

    /// Looks once, and ends what is over a limit.
    fn look(&self) {
        let began = Instant::now();
        let limits = *lock(&self.limits);
        let mut left = 0;
        if let Ok(processes) = self.count() {
            let processes = self.without_killed(processes);
            let memory = self.memory_within(&processes, limits.memory_bytes);
            lock(&self.tally).memory_bytes = memory;
            let tasks = self.unreaped_tasks(&processes);
            // Processes multiply faster than memory fills.
            let is_crowded = tasks > limits.pids / 2;
            left = if is_crowded { 0 } else { limits.memory_bytes.saturating_sub(memory) };
            if memory > limits.memory_bytes {
                self.oom_kills.fetch_add(1, Ordering::AcqRel);
                self.kill_all();
            } else if tasks > limits.pids {
                self.refused_processes.fetch_add(1, Ordering::AcqRel);
                self.kill_all();
            }
        }
        let pause = pause(left, limits.cores, began.elapsed());
        lock(&self.tally).next_look = Some(Instant::now() + pause);
    }

    /// Lists the processes, and counts tasks and CPU time.
    fn count(&self) -> io::Result<Vec<Process>> {
        let processes = self.population.processes()?;
        let tasks = self.tasks_of(&processes);
        lock(&self.tally).count(&processes, self.population.guest(), tasks);
        Ok(processes)
    }

    /// Leaves out what a look before has killed.
    fn without_killed(&self, mut processes: Vec<Process>) -> Vec<Process> {
        let mut tally = lock(&self.tally);
        if !tally.killed.is_empty() {
            let listed: HashSet<ProcessKey> = processes.iter().map(Process::key).collect();
            tally.killed.retain(|key| listed.contains(key));
            processes.retain(|process| !tally.killed.contains(&process.key()));
        }
        processes
    }

    fn tasks_of(&self, processes: &[Process]) -> u64 {
        let guest = self.population.guest();
        let counted = processes.iter().filter(|process| process.pid != guest && !process.is_dead);
        counted.map(|process| process.threads).sum()
    }

    /// Processes and threads as the kernel counts them against a limit: until they are reaped.
    fn unreaped_tasks(&self, processes: &[Process]) -> u64 {
        let guest = self.population.guest();
        let counted = processes.iter().filter(|process| process.pid != guest);
        counted.map(|process| process.threads.max(1)).sum()
    }

    /// Memory of the sandbox in bytes. Only where the quick count is more than `limit` are
    /// pages looked at one by one.
    fn memory_within(&self, processes: &[Process], limit: u64) -> u64 {
        let page = rustix::param::page_size() as u64;
        let files = self.scratch_bytes() + self.memory_file_bytes(processes);
        let has_swap = has_swap();
        let swapped = |process: &Process| match has_swap {
            true => self.population.swapped(process.pid),
            false => 0,
        };
        let resident = |process: &Process| process.resident_pages * page + swapped(process);
        let most = files + processes.iter().map(resident).sum::<u64>();
        if most <= limit {
            return most;
        }
        let measured = lock(&self.tally).measured.take();
        if let Some(measured) = measured.filter(|_| !has_swap) {
            let most = measured.most_now(processes, files, page);
            if most <= limit {
                lock(&self.tally).measured = Some(measured);
                return most;
            }
        }
        let (mut private, mut shared) = (0, 0);
        for process in processes.iter().filter(|process| process.resident_pages > 0) {
            let parts = self.population.proportional(process.pid);
            // One that ended meanwhile has nothing; one that is not told of has all.
            let parts = parts.or_else(|| {
                let still = self.population.processes().ok()?;
                still.iter().find(|other| other.pid == process.pid).map(|now| (resident(now), 0))
            });
            let (own, with_others) = parts.unwrap_or_default();
            private += own;
            shared += with_others;
        }
        // Files in memory that are mapped are in both sums.
        let bytes = private + shared.max(files);
        let parts = |process: &Process| {
            (process.pid, (process.started, process.resident_pages, process.faults))
        };
        let seen = processes.iter().map(parts).collect();
        lock(&self.tally).measured = Some(Measurement { bytes, file_bytes: files, seen });
        bytes
    }

    fn scratch_bytes(&self) -> u64 {
        let Some(stat) = self.scratch.as_ref().and_then(|fd| rustix::fs::fstatvfs(fd).ok()) else {
            return 0;
        };
        (stat.f_blocks - stat.f_bfree) * stat.f_frsize
    }

    fn memory_file_bytes(&self, processes: &[Process]) -> u64 {
        let mut files = Vec::new();
        for process in processes.iter().filter(|process| !process.is_dead) {
            self.population.memory_files(process.pid, &mut files);
        }
        files.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Kills everything but the guest, once all of it stands still.
    fn kill_all(&self) {
        let deadline = Instant::now() + MAX_KILL_TIME;
        let mut stopped = HashSet::new();
        // A process with a signal pending completes no fork, so a pass that finds none that is
        // new is the last.
        while let Ok(alive) = self.alive() {
            let new = alive.iter().filter(|process| !stopped.contains(&process.key()));
            let new: Vec<ProcessKey> = new.map(Process::key).collect();
            if new.is_empty() {
                break;
            }
            for key in new {
                self.population.signal(key, Signal::STOP);
                stopped.insert(key);
            }
            if Instant::now() > deadline {
                break;
            }
        }
        // A process that is about to die does not count any more, however long it takes.
        lock(&self.tally).killed.extend(&stopped);
        stopped.iter().for_each(|&key| self.population.signal(key, Signal::KILL));
        let are_dead = || {
            let alive = self.alive()?;
            let is_left = alive.iter().any(|process| stopped.contains(&process.key()));
            Ok((!is_left).then_some(()))
        };
        let _ = crate::wait::until(MAX_KILL_TIME, are_dead);
    }

    /// Lists the processes that run, without the guest.
    fn alive(&self) -> io::Result<Vec<Process>> {
        let guest = self.population.guest();
        let mut processes = self.population.processes()?;
        processes.retain(|process| process.pid != guest && !process.is_dead);
        Ok(processes)
    }
}

impl Tally {
    /// Adds up CPU time in two ways and keeps the larger sum. A process that waits for its
    /// children takes their time over; one that does not care loses it, unless it was seen.
    fn count(&mut self, processes: &[Process], guest: u32, tasks: u64) {
        let mut live = HashMap::with_capacity(processes.len());
        let mut waited = 0;
        for process in processes {
            waited += process.children_ticks;
            if process.pid != guest {
                waited += process.own_ticks;
                live.insert(process.key(), process.own_ticks);
            }
        }
        let gone = self.live.iter().filter(|(process, _)| !live.contains_key(process));
        self.gone_ticks += gone.map(|(_, ticks)| ticks).sum::<u64>();
        let seen = self.gone_ticks + live.values().sum::<u64>();
        self.ticks = self.ticks.max(waited).max(seen);
        self.live = live;
        self.tasks = tasks;
    }
}

/// The time until the next look, if `left` bytes are left and this one took `took`.
fn pause(left: u64, cores: u64, took: Duration) -> Duration {
    let millis = left.saturating_mul(1000) / (BYTES_PER_CORE_SECOND * cores.max(1));
    let until_full = Duration::from_millis(millis).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
    until_full.max((took * MAX_DUTY).min(MAX_PAUSE))
}

/// Keeps the guest, and with it everything that it starts, to as many cores as the limit
/// has, rounded up. Sandboxes start at different cores.
pub(crate) fn keep_to_cores(guest: u32, limits: &Limits) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    static NEXT: std::sync::LazyLock<AtomicUsize> =
        std::sync::LazyLock::new(|| AtomicUsize::new(std::process::id() as usize));
    let all = sched_getaffinity(None)?;
    let ours: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core)).collect();
    let wanted = usize::try_from(Watched::from(limits).cores).unwrap_or(usize::MAX);
    let mut chosen = CpuSet::new();
    if wanted >= ours.len() {
        chosen = all;
    } else {
        let first = NEXT.fetch_add(wanted, Ordering::Relaxed);
        (first..first + wanted).for_each(|at| chosen.set(ours[at % ours.len()]));
    }
    let guest = i32::try_from(guest).ok().and_then(rustix::process::Pid::from_raw);
    Ok(sched_setaffinity(guest, &chosen)?)
}

/// Returns true if pages can leave memory without being dropped.
fn has_swap() -> bool {
    static FOUND: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        let text = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
        text.lines().count() > 1
    });
    *FOUND
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
