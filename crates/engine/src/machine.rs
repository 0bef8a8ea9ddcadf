//! One sandbox as the host holds it: a byte stream to its guest, its cgroups,
//! its end. What is said over the stream is not this crate's business.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belljar_domain::{Limits, SandboxId, Spec, Tier};
use tokio::net::UnixStream;
use tokio::sync::oneshot;

use crate::archive::{
    FromStart, HostIds, Layout, in_memory, layout_of, pack_scratch, write_scratch,
};
use crate::cgroup::{CallGroup, SandboxGroup};
use crate::confinement::Confinement;
use crate::defence::Weakened;
use crate::enforcement::Enforcement;
use crate::engine::{Connection, StartError};
use crate::figures::{Figures, Use};
use crate::microvm::monitor::Monitor;
use crate::oci::{self, save};
use crate::plan::Facts;
use crate::stillness::Stillness;
use crate::watch::Watch;
use crate::wire::Ended;
use crate::zygote::Zygote;

#[derive(Debug)]
pub struct Machine {
    pub(crate) id: SandboxId,
    pub(crate) confinement: Confinement,
    pub(crate) stream: Option<UnixStream>,
    pub(crate) scratch: Option<OwnedFd>,
    /// Files of its `/proc` that tell limits and use.
    pub(crate) figures: Option<Figures>,
    pub(crate) group: Option<SandboxGroup>,
    /// Keeps its limits where there is no group.
    pub(crate) watch: Option<Arc<Watch>>,
    pub(crate) guest_uid: u32,
    pub(crate) pid: u32,
    /// Of the guest; what enters the sandbox later is led by it.
    pub(crate) pidfd: OwnedFd,
    /// The host's uid that inner 0 is mapped to.
    pub(crate) first_uid: u32,
    pub(crate) facts: Facts,
    pub(crate) tier: Tier,
    /// The machine monitor that runs it.
    pub(crate) monitor: Option<Monitor>,
    /// Who can fork interpreters into it. It lives as long as its sandboxes.
    pub(crate) zygote: Option<Arc<Zygote>>,
    /// Present until the sandbox is destroyed.
    pub(crate) engine: Mutex<Option<Arc<Connection>>>,
    pub(crate) stillness: Arc<Stillness>,
}

/// What becomes of a sandbox that was put on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    GoesOn,
    Ends,
}

/// The files of a sandbox, for another to begin with.
#[derive(Debug)]
pub struct Files {
    pub(crate) archive: OwnedFd,
}

impl Files {
    /// How much memory they take.
    pub fn size(&self) -> u64 {
        let stat = rustix::fs::fstat(&self.archive);
        stat.ok().and_then(|stat| u64::try_from(stat.st_size).ok()).unwrap_or(0)
    }

    /// Files that were written out, where they lie.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { archive: std::fs::File::open(path)?.into() })
    }

    /// Returns an error for files that would be out of sight in a sandbox of this server.
    pub(crate) fn check_layout(&self, is_root: bool) -> Result<(), StartError> {
        match layout_of(&self.archive) {
            Ok(Some(saved)) if saved != Layout::of(is_root) => Err(match saved {
                Layout::Layer => StartError::SavedAsRoot,
                Layout::OwnPlaces => StartError::SavedWithoutRoot,
            }),
            // Those of an older version do not say it, and damaged ones are refused where they
            // are laid out.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Another handle on the same files.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { archive: self.archive.try_clone()? })
    }

    /// Writes them out. Not on a thread that serves others.
    pub fn write(&self, to: &mut impl Write) -> io::Result<u64> {
        io::copy(&mut FromStart::new(&self.archive), to)
    }

    /// Reads what [`Files::write`] wrote, all `length` bytes of it. What it says
    /// is looked at where it is laid out, inside a sandbox.
    pub fn read(from: &mut impl Read, length: u64) -> io::Result<Self> {
        let archive = in_memory(|mut file| {
            let count = io::copy(&mut from.take(length), &mut file)?;
            if count == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
        })?;
        Ok(Self { archive })
    }
}

/// How full the writable layer is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUse {
    pub used_bytes: u64,
    pub total_bytes: u64,
    pub is_full: bool,
}

/// What a whole sandbox uses at one moment; `None` is what nobody counts here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxUsage {
    /// Of all its processes so far, ended ones too.
    pub cpu: Option<Duration>,
    /// Charged to it now: the writable layer and the page cache count.
    pub memory_bytes: Option<u64>,
    /// How much of that is cache, which the kernel takes back when it needs to.
    pub cache_bytes: Option<u64>,
    pub memory_limit_bytes: u64,
    pub disk_used_bytes: Option<u64>,
    pub disk_total_bytes: Option<u64>,
    /// Processes and their threads, as the limit counts them.
    pub tasks: Option<u64>,
}

impl Machine {
    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    /// The pid of the guest, as the host sees it.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn zygote(&self) -> Option<&Arc<Zygote>> {
        self.zygote.as_ref()
    }

    /// Resolves when the process `pid` of the sandbox ends, if a zygote forked
    /// it; `None` after the sandbox's own end.
    pub(crate) fn expect_end(&self, pid: u32) -> Option<oneshot::Receiver<Ended>> {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        engine.as_ref().map(|engine| engine.expect_end(pid))
    }

    pub fn facts(&self) -> Facts {
        self.facts
    }

    pub fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// The stream to the guest; there is one, and it is given out once.
    pub fn take_stream(&mut self) -> Option<UnixStream> {
        self.stream.take()
    }

    /// Makes the cgroup of a call; `None` where cgroups cannot be had, or where
    /// the host's kernel does not see calls and the guest has groups of its own.
    pub fn open_call(&self, number: u32) -> io::Result<Option<CallGroup>> {
        if self.confinement.inner.is_some() {
            return Ok(None);
        }
        let zygote = self.zygote.as_ref().map(|zygote| zygote.uid());
        let create = |group: &SandboxGroup| group.create_call(number, self.guest_uid, zygote);
        self.group.as_ref().map(create).transpose()
    }

    /// The cgroup of a call that somebody else made.
    pub fn call_group(&self, number: u32) -> Option<CallGroup> {
        self.group.as_ref().map(|group| group.call(number))
    }

    /// How often a process could not be made because of the pids limit.
    pub fn refused_processes(&self) -> u64 {
        let watched = self.watch.as_ref().map_or(0, |watch| watch.refused_processes());
        self.group.as_ref().map_or(watched, SandboxGroup::refused_processes)
    }

    /// Whether the kernel ended the guest because memory ran out.
    pub fn ran_out_of_memory(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.oom_kills() > 0)
    }

    /// CPU time of the whole sandbox, as the host's kernel counts.
    pub fn cpu_now(&self) -> Option<Duration> {
        match &self.group {
            Some(group) => group.cpu(),
            None => self.watched_cpu(),
        }
    }

    /// Whether the engine keeps its limits, and not the kernel.
    pub fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// CPU time of all calls so far, where only the watch counts it.
    pub fn watched_cpu(&self) -> Option<Duration> {
        self.watch.as_ref().map(|watch| watch.cpu())
    }

    /// How often the watch found the sandbox over its memory.
    pub fn watched_oom_kills(&self) -> u64 {
        self.watch.as_ref().map_or(0, |watch| watch.oom_kills())
    }

    /// Says that a call has failed: where nothing counts processes that could not be made,
    /// being at the limit is the reason.
    pub fn note_failure(&self) {
        if let Some(watch) = &self.watch {
            watch.note_failure();
        }
    }

    pub fn memory_now(&self) -> Option<u64> {
        match &self.group {
            Some(group) => group.memory_now(),
            None => self.watch.as_ref().map(|watch| watch.memory()),
        }
    }

    pub fn disk(&self) -> DiskUse {
        let Some(stat) = self.scratch.as_ref().and_then(|fd| rustix::fs::fstatvfs(fd).ok()) else {
            return DiskUse::default();
        };
        DiskUse {
            used_bytes: (stat.f_blocks - stat.f_bfree) * stat.f_frsize,
            total_bytes: stat.f_blocks * stat.f_frsize,
            is_full: (stat.f_blocks > 0 && stat.f_bavail == 0)
                || (stat.f_files > 0 && stat.f_ffree == 0),
        }
    }

    pub fn usage(&self, limits: &Limits) -> SandboxUsage {
        let disk = self.scratch.as_ref().map(|_| self.disk());
        SandboxUsage {
            cpu: self.cpu_now(),
            memory_bytes: self.memory_now(),
            cache_bytes: self.cache_now(),
            memory_limit_bytes: limits.memory_bytes,
            disk_used_bytes: disk.map(|disk| disk.used_bytes),
            disk_total_bytes: disk.map(|disk| disk.total_bytes),
            // Of another kernel's, only its own tasks are seen from here.
            tasks: match self.confinement.inner {
                Some(_) => None,
                None => self.tasks_now(),
            },
        }
    }

    /// Has `/proc/meminfo` and its kin tell what the sandbox uses now, unless they did a moment
    /// ago. For when code runs.
    pub fn refresh_figures(&self) {
        if let (Some(figures), Some(scratch)) = (&self.figures, &self.scratch) {
            // What cannot be written stays as it was.
            let _ = figures.refresh(scratch.as_fd(), || self.measure());
        }
    }

    fn measure(&self) -> Use {
        Use {
            memory_bytes: self.memory_now(),
            cache_bytes: self.cache_now(),
            cpu: self.cpu_now(),
            tasks: self.tasks_now(),
        }
    }

    /// The part of [`Self::memory_now`] that the kernel can drop: a watch counts nothing that
    /// it could.
    fn cache_now(&self) -> Option<u64> {
        match &self.group {
            Some(group) => group.cache_now(),
            None => self.watch.as_ref().map(|_| 0),
        }
    }

    fn tasks_now(&self) -> Option<u64> {
        match &self.group {
            Some(group) => group.tasks_now(),
            None => self.watch.as_ref().map(|watch| watch.tasks()),
        }
    }

    /// The host's ids of its files.
    fn host_ids(&self) -> HostIds {
        match self.facts.privileged {
            true => HostIds::From(self.first_uid),
            false => HostIds::own(),
        }
    }

    /// A copy of everything that was written to, as of now: every process stands
    /// still meanwhile, where cgroups can do that.
    /// More than `most` bytes are refused.
    pub async fn files(&self, most: u64) -> io::Result<Files> {
        let scratch = self.scratch.as_ref().ok_or(io::ErrorKind::Unsupported)?.try_clone()?;
        let ids = self.host_ids();
        let hold = self.stillness.hold().await;
        let pack = move || pack_scratch(scratch.as_fd(), ids, most);
        let archive = tokio::task::spawn_blocking(pack).await;
        hold.release().await;
        Ok(Files { archive: archive.map_err(io::Error::other)?? })
    }

    /// Puts the whole sandbox, its memory included, into the directory `into`,
    /// which is empty; [`crate::Engine::restore`] brings it back. The guest must
    /// hold still. Afterwards the sandbox goes on if `then` says so, and waits to
    /// be destroyed if not.
    pub async fn save(&self, into: &Path, then: Then) -> io::Result<()> {
        if let Some(monitor) = &self.monitor {
            return monitor.save(into, then == Then::GoesOn).await;
        }
        let (Some(saver), Some(scratch)) = (self.stillness.saver(), &self.scratch) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let (scratch, ids) = (scratch.try_clone()?, self.host_ids());
        let (path, most) = (save::files(into), self.disk().total_bytes);
        let goes_on = then == Then::GoesOn;
        // Memory and files must be of one moment.
        let hold = if goes_on { Some(self.stillness.hold().await) } else { None };
        let saved = async {
            // What its kernel had not written yet it writes before it is saved.
            save::checkpoint(saver, &self.id, into, goes_on).await?;
            let write = move || write_scratch(scratch.as_fd(), ids, most, &path);
            tokio::task::spawn_blocking(write).await.map_err(io::Error::other)?
        };
        let saved = saved.await;
        if let Some(hold) = hold {
            hold.release().await;
        }
        saved
    }

    /// The last of what a virtual machine's kernel printed.
    pub async fn console(&self) -> io::Result<String> {
        let monitor = self.monitor.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        monitor.console().await
    }

    /// Gives a sandbox in which nothing has run yet other limits.
    pub fn relimit(&mut self, now: &Limits, spec: &Spec) -> io::Result<()> {
        let wanted = &spec.limits;
        if self.monitor.is_some() && now != wanted {
            // A machine has what it booted with.
            return Err(io::ErrorKind::Unsupported.into());
        }
        if let Some(group) = &self.group {
            let outer = |limits: &Limits| match spec.tier {
                Tier::Oci(runtime) => oci::outer_limits(runtime, limits),
                Tier::Process | Tier::Jail | Tier::Microvm => limits.clone(),
            };
            group.relimit(&outer(now), &outer(wanted))?;
        }
        let resized = (now.disk_bytes, now.inodes) != (wanted.disk_bytes, wanted.inodes);
        if let (true, Some(scratch)) = (resized, &self.scratch) {
            resize(scratch, wanted)?;
        }
        let used = self.measure();
        if let (Some(figures), Some(scratch)) = (&mut self.figures, &self.scratch) {
            figures.relimit(scratch.as_fd(), wanted, used)?;
        }
        if let Some(watch) = &self.watch {
            watch.relimit(wanted);
            crate::watch::keep_to_cores(self.pid, wanted)?;
        }
        let (facts, enforcement) = (self.facts, self.enforcement());
        self.confinement = Confinement::new(spec, facts, enforcement, &Weakened::default(), None);
        Ok(())
    }

    fn enforcement(&self) -> Enforcement {
        match self.group {
            Some(_) => Enforcement::Cgroup,
            None => Enforcement::Watch,
        }
    }

    /// Stops every process where it stands.
    pub async fn pause(&self) -> io::Result<()> {
        self.stillness.pause().await
    }

    pub async fn resume(&self) -> io::Result<()> {
        self.stillness.resume().await
    }

    /// Kills every process in one step; the sandbox is not removed yet.
    pub fn kill(&self) {
        if let Some(group) = &self.group {
            // Its end is waited for when it is destroyed.
            let _ = group.kill();
        }
    }

    /// Ends the sandbox; nothing of it is left when this answers.
    pub async fn destroy(&self) -> Result<(), StartError> {
        let engine = || self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let known = engine().clone();
        if let Some(known) = known {
            // Asked again by whoever comes while this waits: then both wait for the end.
            known.destroy(self.id.clone()).await?;
            engine().take();
        }
        Ok(())
    }
}

/// Gives the scratch file system another size.
fn resize(scratch: &OwnedFd, limits: &Limits) -> io::Result<()> {
    use rustix::mount::{FsPickFlags, fsconfig_reconfigure, fsconfig_set_string, fspick};
    let flags = FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH;
    let fs = fspick(scratch, "", flags)?;
    fsconfig_set_string(&fs, "size", limits.disk_bytes.to_string())?;
    fsconfig_set_string(&fs, "nr_inodes", limits.inodes.to_string())?;
    Ok(fsconfig_reconfigure(&fs)?)
}

impl Drop for Machine {
    /// A machine that is forgotten is ended all the same.
    fn drop(&mut self) {
        let engine = self.engine.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = engine.take() {
            engine.destroy_later(self.id.clone());
        }
    }
}
