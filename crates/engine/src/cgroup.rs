//! Control groups of version 1, version 2, and both side by side.
//!
//! Limits stand on the sandbox's group; each call has a group of its own below
//! it, for its counters. Killing and freezing always go through version 2: its
//! `cgroup.kill` is one atomic step that no fork can outrun, and it works on a
//! version 2 tree that has no controllers at all.
//!
//! ```text
//! belljar/e<engine>/<sandbox>        limits
//!                           /g       the guest (version 2 with controllers)
//!                           /c<call> one call
//!                  /z<number>        a zygote and its family
//!                            /z      the zygote
//!                            /<sandbox> as above
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_domain::{Limits, SandboxId};
use belljar_sys::enter::as_user;

mod hierarchy;

pub use hierarchy::{Hierarchies, Site};

/// What the kernel counted for a call or a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    pub cpu: Duration,
    pub peak_memory_bytes: Option<u64>,
    /// Processes that the kernel killed because memory ran out.
    pub oom_kills: u64,
}

/// The groups of one sandbox, named by its id; they need not exist yet.
#[derive(Debug, Clone)]
pub struct SandboxGroup {
    hierarchies: Hierarchies,
    name: PathBuf,
}

/// Which limits not to set: used by tests that show that a limit is needed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unlimited {
    pub memory: bool,
    pub pids: bool,
    pub cpu: bool,
}

/// The number of the first call of a sandbox.
pub const FIRST_CALL: u32 = 1;

const PERIOD_MICROS: u64 = 100_000;

/// `memory.stat` has about a quarter of that.
const LONGEST_FILE: usize = 8192;

/// How long processes may take to stand still.
const FREEZE: Duration = Duration::from_millis(200);

impl SandboxGroup {
    pub fn new(
        hierarchies: &Hierarchies,
        engine: u32,
        zygote: Option<u32>,
        id: &SandboxId,
    ) -> Self {
        let parent = match zygote {
            Some(zygote) => hierarchies.family(engine, zygote),
            None => hierarchies.engine(engine),
        };
        Self { hierarchies: hierarchies.clone(), name: parent.join(id.as_str()) }
    }

    /// The groups of a zygote.
    pub(crate) fn of_zygote(hierarchies: &Hierarchies, engine: u32, number: u32) -> Self {
        let name = hierarchies.family(engine, number).join("z");
        Self { hierarchies: hierarchies.clone(), name }
    }

    fn dir(&self, site: &Site) -> PathBuf {
        site.root.join(&self.name)
    }

    /// Where it is in every hierarchy.
    pub(crate) fn path(&self) -> PathBuf {
        Path::new("/").join(&self.name)
    }

    /// Its version 2 group, where there is one.
    pub(crate) fn unified(&self) -> Option<PathBuf> {
        self.hierarchies.unified.as_ref().map(|site| self.dir(site))
    }

    /// Makes the version 2 group and opens it, for the first process to be born
    /// into. `owner` is the host uid of the guest, which places calls into
    /// groups below.
    pub fn create_unified(
        &self,
        limits: &Limits,
        unlimited: Unlimited,
        owner: u32,
    ) -> io::Result<Option<OwnedFd>> {
        let Some(site) = &self.hierarchies.unified else { return Ok(None) };
        let mut dir = self.dir(site);
        fs::create_dir(&dir)?;
        if site.has_controllers() {
            limit_v2(&dir, limits, unlimited)?;
            write(&dir.join("cgroup.subtree_control"), &site.enable())?;
            dir.push("g");
            fs::create_dir(&dir)?;
        } else {
            std::os::unix::fs::chown(dir.join("cgroup.procs"), Some(owner), None)?;
        }
        open_dir(&dir).map(Some)
    }

    /// Makes the version 1 groups and opens their `tasks`: a process that
    /// writes "0" there joins by itself, without the lock that moving another
    /// process would take.
    pub fn create_v1(&self, limits: &Limits, unlimited: Unlimited) -> io::Result<Vec<OwnedFd>> {
        let mut tasks = Vec::new();
        for site in self.hierarchies.v1_sites() {
            let dir = self.dir(site);
            fs::create_dir(&dir)?;
            self.limit_v1(site, &dir, limits, unlimited)?;
            tasks.push(open_write(&dir.join("tasks"))?);
        }
        Ok(tasks)
    }

    fn limit_v1(&self, site: &Site, dir: &Path, limits: &Limits, not: Unlimited) -> io::Result<()> {
        if site.has("memory") && !not.memory {
            let bytes = limits.memory_bytes.to_string();
            write(&dir.join("memory.limit_in_bytes"), &bytes)?;
            // Absent where the kernel does not count swap.
            if self.hierarchies.counts_swap {
                write(&dir.join("memory.memsw.limit_in_bytes"), &bytes)?;
            }
        }
        if site.has("pids") && !not.pids {
            write(&dir.join("pids.max"), &pids_with_guest(limits).to_string())?;
        }
        if site.has("cpu") && !not.cpu {
            let quota = u64::from(limits.cpu_millis) * PERIOD_MICROS / 1000;
            write(&dir.join("cpu.cfs_quota_us"), &quota.to_string())?;
        }
        Ok(())
    }

    /// Changes the limits that differ.
    pub(crate) fn relimit(&self, now: &Limits, wanted: &Limits) -> io::Result<()> {
        let keeps = Unlimited {
            memory: now.memory_bytes == wanted.memory_bytes,
            pids: now.pids == wanted.pids,
            cpu: now.cpu_millis == wanted.cpu_millis,
        };
        if let Some(site) = self.hierarchies.unified.as_ref().filter(|s| s.has_controllers()) {
            limit_v2(&self.dir(site), wanted, keeps)?;
        }
        for site in self.hierarchies.v1_sites() {
            let dir = self.dir(site);
            let raised = wanted.memory_bytes > now.memory_bytes;
            if site.has("memory") && raised && self.hierarchies.counts_swap {
                // The limit with swap may never be below the one without.
                let bytes = wanted.memory_bytes.to_string();
                write(&dir.join("memory.memsw.limit_in_bytes"), &bytes)?;
            }
            self.limit_v1(site, &dir, wanted, keeps)?;
        }
        Ok(())
    }

    /// Makes the group of one call. The guest, `owner`, has calls born into it,
    /// and so has a `zygote`.
    pub fn create_call(
        &self,
        number: u32,
        owner: u32,
        zygote: Option<u32>,
    ) -> io::Result<CallGroup> {
        let call = self.call(number);
        for site in self.hierarchies.call_sites() {
            fs::create_dir(call.dir(site))?;
        }
        if let Some(site) = &self.hierarchies.unified
            && (zygote.is_some() || !site.has_controllers())
        {
            let procs = call.dir(site).join("cgroup.procs");
            std::os::unix::fs::chown(&procs, Some(owner), zygote)?;
            if zygote.is_some() {
                fs::set_permissions(&procs, fs::Permissions::from_mode(0o664))?;
            }
        }
        Ok(call)
    }

    pub fn call(&self, number: u32) -> CallGroup {
        CallGroup {
            hierarchies: self.hierarchies.clone(),
            name: self.name.join(format!("c{number}")),
        }
    }

    /// Kills everything in the sandbox in one step.
    pub fn kill(&self) -> io::Result<()> {
        kill_tree(&self.hierarchies, &self.name)
    }

    pub fn freeze(&self, frozen: bool) -> io::Result<()> {
        let Some(site) = &self.hierarchies.unified else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        write(&self.dir(site).join("cgroup.freeze"), if frozen { "1" } else { "0" })
    }

    /// Waits for a freeze that was asked for: a process stops when it comes out
    /// of what it has the kernel do. One that does not is not waited for.
    pub(crate) fn await_frozen(&self) {
        let Some(site) = &self.hierarchies.unified else { return };
        let events = self.dir(site).join("cgroup.events");
        let frozen = || Ok((field(&events, "frozen") == 1).then_some(()));
        let _ = crate::wait::until(FREEZE, frozen);
    }

    /// Whether the process is in this sandbox's groups, every one of them.
    pub(crate) fn holds(&self, pid: u32) -> bool {
        let text = read(&PathBuf::from(format!("/proc/{pid}/cgroup"))).unwrap_or_default();
        let name = self.name.to_string_lossy();
        let in_it = |line: &str| line.contains(&*name);
        let wanted = self.hierarchies.all_sites().count();
        text.lines().filter(|line| in_it(line)).count() >= wanted
    }

    /// How often a process could not be made because of the limit.
    pub fn refused_processes(&self) -> u64 {
        let Some(site) = self.hierarchies.site("pids") else { return 0 };
        field(&self.dir(site).join("pids.events"), "max")
    }

    /// Processes outside of any call that the kernel killed because memory ran
    /// out: the guest, whose end is the sandbox's.
    pub fn oom_kills(&self) -> u64 {
        let Some(site) = self.hierarchies.site("memory") else { return 0 };
        let file = if site.v2 { "memory.events" } else { "memory.oom_control" };
        field(&self.dir(site).join(file), "oom_kill")
    }

    /// Memory charged to the sandbox right now.
    pub fn memory_now(&self) -> Option<u64> {
        let site = self.hierarchies.site("memory")?;
        let file = if site.v2 { "memory.current" } else { "memory.usage_in_bytes" };
        number(&self.dir(site).join(file))
    }

    /// Files in memory that the kernel can drop; what is in the writable layer it
    /// cannot.
    pub(crate) fn cache_now(&self) -> Option<u64> {
        let site = self.hierarchies.site("memory")?;
        let text = read(&self.dir(site).join("memory.stat"))?;
        let keys = if site.v2 {
            ["active_file", "inactive_file"]
        } else {
            ["total_active_file", "total_inactive_file"]
        };
        keys.into_iter().map(|key| value_of(&text, key)).sum()
    }

    /// CPU time of all its processes, now and before.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        let site = self.hierarchies.site("cpuacct")?;
        cpu_of(site, &self.dir(site))
    }

    /// Processes and threads, without the guest.
    pub(crate) fn tasks_now(&self) -> Option<u64> {
        let site = self.hierarchies.site("pids")?;
        number(&self.dir(site).join("pids.current")).map(|count| count.saturating_sub(1))
    }

    /// Removes every group of the sandbox. All its processes must be gone.
    pub fn remove(&self) -> io::Result<()> {
        remove_tree(&self.hierarchies, &self.name)
    }
}

/// The groups of one call.
#[derive(Debug, Clone)]
pub struct CallGroup {
    hierarchies: Hierarchies,
    name: PathBuf,
}

/// Descriptors by which a process gets into a call's groups.
#[derive(Debug)]
pub struct CallEntry {
    pub descriptors: Vec<OwnedFd>,
    /// Whether the first is a directory to be cloned into.
    pub into_cgroup: bool,
}

impl CallGroup {
    fn dir(&self, site: &Site) -> PathBuf {
        site.root.join(&self.name)
    }

    /// The kernel's number of its version 2 group, by which sockets that are made
    /// in it are known.
    pub fn id(&self) -> Option<u64> {
        use std::os::unix::fs::MetadataExt as _;
        let site = self.hierarchies.unified.as_ref()?;
        fs::metadata(self.dir(site)).ok().map(|found| found.ino())
    }

    /// Whether processes can be born into it.
    pub fn is_unified(&self) -> bool {
        self.hierarchies.unified.is_some()
    }

    pub fn open(&self) -> io::Result<CallEntry> {
        let mut descriptors = Vec::new();
        let mut into_cgroup = false;
        if let Some(site) = &self.hierarchies.unified {
            let dir = self.dir(site);
            if site.has_controllers() {
                // A write to a file that the host opened counts as the host's,
                // whatever namespace the writer is in.
                descriptors.push(open_write(&dir.join("cgroup.procs"))?);
            } else {
                descriptors.push(open_dir(&dir)?);
                into_cgroup = true;
            }
        }
        for site in self.hierarchies.v1_call_sites() {
            descriptors.push(open_write(&self.dir(site).join("tasks"))?);
        }
        Ok(CallEntry { descriptors, into_cgroup })
    }

    /// What the zygote of this user id needs to have a child born into the groups: the
    /// version 2 directory if there is one, then files to which the child writes "0".
    ///
    /// Version 1 judges a write by who opened the file, and a zygote has run code of the
    /// template's: opened by root, the files would let it move any process of the host.
    /// Opened as its own user, they move processes of that user alone.
    pub(crate) fn open_for_zygote(&self, zygote: u32) -> io::Result<CallEntry> {
        as_user(zygote, || self.open_all())?
    }

    fn open_all(&self) -> io::Result<CallEntry> {
        let mut descriptors = Vec::new();
        if let Some(site) = &self.hierarchies.unified {
            descriptors.push(open_alone(&self.dir(site))?);
        }
        for site in self.hierarchies.v1_sites() {
            let own = self.hierarchies.v1_call_sites().any(|other| other.root == site.root);
            let dir = self.dir(site);
            let tasks = if own { dir.join("tasks") } else { dir.with_file_name("tasks") };
            descriptors.push(open_write(&tasks)?);
        }
        Ok(CallEntry { descriptors, into_cgroup: self.hierarchies.unified.is_some() })
    }

    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        if let Some(site) = self.hierarchies.site("cpuacct") {
            counters.cpu = cpu_of(site, &self.dir(site)).unwrap_or_default();
        }
        if let Some(site) = self.hierarchies.site("memory") {
            let dir = self.dir(site);
            let (peak, events) = if site.v2 {
                ("memory.peak", "memory.events")
            } else {
                ("memory.max_usage_in_bytes", "memory.oom_control")
            };
            counters.peak_memory_bytes = number(&dir.join(peak));
            counters.oom_kills = field(&dir.join(events), "oom_kill");
        }
        counters
    }

    /// How often a process of the call could not be made because of the limit.
    /// Version 2 counts that here before Linux 6.11, at the limit since.
    pub fn refused_processes(&self) -> u64 {
        let Some(site) = self.hierarchies.site("pids").filter(|site| site.v2) else { return 0 };
        field(&self.dir(site).join("pids.events"), "max")
    }

    pub fn kill(&self) -> io::Result<()> {
        kill_tree(&self.hierarchies, &self.name)
    }

    /// Whether a process of the call is still there; `None`: nobody knows.
    pub fn is_populated(&self) -> Option<bool> {
        let site = self.hierarchies.unified.as_ref()?;
        Some(field(&self.dir(site).join("cgroup.events"), "populated") == 1)
    }

    pub fn remove(&self) -> io::Result<()> {
        remove_tree(&self.hierarchies, &self.name)
    }
}

/// The guest counts as a process too.
fn pids_with_guest(limits: &Limits) -> u64 {
    u64::from(limits.pids) + 1
}

fn limit_v2(dir: &Path, limits: &Limits, not: Unlimited) -> io::Result<()> {
    if !not.memory {
        write(&dir.join("memory.max"), &limits.memory_bytes.to_string())?;
        optional(write(&dir.join("memory.swap.max"), "0"))?;
        optional(write(&dir.join("memory.zswap.max"), "0"))?;
    }
    if !not.pids {
        write(&dir.join("pids.max"), &pids_with_guest(limits).to_string())?;
    }
    if !not.cpu {
        let quota = u64::from(limits.cpu_millis) * PERIOD_MICROS / 1000;
        write(&dir.join("cpu.max"), &format!("{quota} {PERIOD_MICROS}"))?;
    }
    Ok(())
}

/// Forgives the absence of a file that only some kernels have.
fn optional(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn kill_tree(hierarchies: &Hierarchies, name: &Path) -> io::Result<()> {
    let Some(site) = &hierarchies.unified else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    optional(write(&site.root.join(name).join("cgroup.kill"), "1"))
}

/// Removes a group and those below it in every hierarchy; what is not there is
/// no error. Answers `ResourceBusy` while a process is still in one.
pub(crate) fn remove_tree(hierarchies: &Hierarchies, name: &Path) -> io::Result<()> {
    for site in hierarchies.all_sites() {
        remove_dirs(&site.root.join(name))?;
    }
    match &hierarchies.devices {
        Some(devices) => remove_dirs(&devices.join(name)),
        None => Ok(()),
    }
}

fn remove_dirs(dir: &Path) -> io::Result<()> {
    // Most groups have none below them: try the quick way first.
    match fs::remove_dir(dir) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(_) => {}
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_dirs(&entry.path())?;
        }
    }
    fs::remove_dir(dir)
}

fn open_write(path: &Path) -> io::Result<OwnedFd> {
    Ok(OpenOptions::new().write(true).open(path)?.into())
}

fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    const O_DIRECTORY: i32 = 0o200_000;
    Ok(OpenOptions::new().read(true).custom_flags(O_DIRECTORY).open(path)?.into())
}

/// A directory by itself: nothing above it can be reached from the descriptor.
fn open_alone(path: &Path) -> io::Result<OwnedFd> {
    use rustix::mount::{OpenTreeFlags, open_tree};
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    Ok(open_tree(rustix::fs::CWD, path, flags)?)
}

pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

/// The kernel gives a whole file to one read that has room for it, and says
/// nothing of its size before: asking for that, and for an end, would be half of
/// what it costs.
fn read(path: &Path) -> Option<String> {
    let mut room = [0; LONGEST_FILE];
    let count = File::open(path).ok()?.read(&mut room).ok()?;
    str::from_utf8(&room[..count]).ok().map(str::to_owned)
}

fn number(path: &Path) -> Option<u64> {
    read(path)?.trim().parse().ok()
}

/// The value behind `key` in a file of `key value` lines; 0 when absent.
fn field(path: &Path, key: &str) -> u64 {
    read(path).and_then(|text| value_of(&text, key)).unwrap_or(0)
}

fn value_of(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    line.and_then(|value| value.trim().parse().ok())
}

fn cpu_of(site: &Site, dir: &Path) -> Option<Duration> {
    if site.v2 {
        let text = read(&dir.join("cpu.stat"))?;
        value_of(&text, "usage_usec").map(Duration::from_micros)
    } else {
        number(&dir.join("cpuacct.usage")).map(Duration::from_nanos)
    }
}
