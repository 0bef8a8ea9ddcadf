//! The spawner: a small process with one thread that makes and ends sandboxes.
//!
//! It is this same executable, started again under the name [`NAME`]. Forking
//! from it is cheap and safe, where forking from the engine would be neither:
//! the engine has threads and a large memory. It is also the watchdog: when the
//! engine goes away, however it goes, the socket between them ends, and the
//! spawner ends every sandbox before it exits.

mod burial;
mod containers;
mod doors;
mod loose;
mod zygotes;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use belljar_domain::{SandboxId, Spec, Tier};
use belljar_sys::seccomp::Instruction;
use belljar_sys::{fd, signal};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Pid;

use crate::cgroup::{Hierarchies, SandboxGroup};
use crate::defence::{Defence, Weakened};
use crate::jail::apply::Program;
use crate::jail::parent::{Born, Cradle, Owner, Stillborn, bear};
use crate::jail::{Attempt, Failure, apply};
use crate::microvm;
use crate::plan::{Facts, Plan, USER_UID};
use crate::runner::Runner;
use crate::seccomp;
use crate::state::{Lease, SLOTS, State};
use crate::wire::{self, FromSpawner, ToSpawner};
use burial::kill;

/// What the spawner is called, as `argv[0]`.
pub(crate) const NAME: &str = "belljar-spawner";

/// Becomes the spawner if this process was started as one. Every executable
/// that uses an engine calls this first in `main`.
pub fn hook() {
    if std::env::args_os().next().is_some_and(|name| name == NAME) {
        let status = if run().is_ok() { 0 } else { 1 };
        belljar_sys::process::exit_now(status);
    }
}

/// How often runtimes that are under way are looked at.
const TICK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

struct Spawner {
    socket: OwnedFd,
    /// Readable when a child has ended.
    children: OwnedFd,
    state: State,
    facts: Facts,
    guest: OwnedFd,
    /// The guest's filter, and that of one that shares the host's network.
    filter: Vec<Instruction>,
    process_filter: Vec<Instruction>,
    hierarchies: Option<Hierarchies>,
    /// Where the `/dev` of all sandboxes is.
    devices: Option<PathBuf>,
    engine: u32,
    leases: Vec<Lease>,
    /// Ranges of user ids that nothing uses, as (lease, slot). The one that was
    /// given back last is handed out last.
    free: VecDeque<(u32, u32)>,
    sandboxes: BTreeMap<SandboxId, Sandbox>,
    zygotes: BTreeMap<u32, Sandbox>,
    zygote_filter: Vec<Instruction>,
    /// What is made once for all containers.
    ready: containers::Ready,
    sweeps: loose::Sweeps,
}

/// What a new sandbox should be.
struct Wish<'a> {
    spec: &'a Spec,
    weakened: &'a Weakened,
    archive: Option<OwnedFd>,
    /// A request to the zygote, and what it carries.
    fork: Option<(Vec<u8>, Vec<OwnedFd>)>,
    /// The host's program that runs it.
    runner: Option<&'a Runner>,
    /// What a machine monitor needs.
    carried: Vec<OwnedFd>,
}

/// A sandbox, or a zygote, which is much the same from here.
struct Sandbox {
    pid: Pid,
    pidfd: OwnedFd,
    slot: (u32, u32),
    group: Option<SandboxGroup>,
    work: Option<PathBuf>,
    /// To a zygote.
    socket: Option<OwnedFd>,
    /// While a runtime still makes it: then `pid` is the runtime's.
    birth: Option<Box<containers::Unborn>>,
    /// Neither a namespace nor a cgroup holds its processes.
    is_loose: bool,
}

fn run() -> io::Result<()> {
    let socket = fd::inherited(0)?;
    // The guest's stream is placed at this number in every child; nothing that
    // a child still needs may ever be given it.
    let null = fs::File::open("/dev/null")?;
    for number in [apply::STREAM, apply::LIBRARY] {
        fd::place_at(null.as_fd(), number)?;
    }
    // Interpreters that zygotes forked into sandboxes come to us when they end.
    let children = signal::descriptor(&[signal::CHILD])?;
    belljar_sys::process::become_subreaper()?;
    // Signals of the terminal are for the engine, which ends us by its end.
    let _ = rustix::process::setsid();
    let (init, mut descriptors) = wire::receive(&socket)?;
    let ToSpawner::Init { state, engine, facts, groups } = init else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let (Some(lock), Some(guest)) = (descriptors.pop(), descriptors.pop()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let state = State::at(state);
    let lease = Lease::adopt(&state, engine, lock);
    let hierarchies = if groups { state.hierarchies() } else { None };
    // Without rights on the host each sandbox makes its own.
    let devices = facts.privileged.then(|| state.devices());
    let devices = devices.filter(|dir| apply::prepare_devices(dir).is_ok());
    let mut spawner = Spawner {
        devices,
        socket,
        children,
        state,
        facts: facts.into(),
        guest,
        filter: seccomp::assemble(&seccomp::guest()),
        process_filter: seccomp::assemble(&seccomp::unconnected(seccomp::guest())),
        hierarchies,
        engine,
        free: (0..SLOTS).map(|slot| (engine, slot)).collect(),
        leases: vec![lease],
        sandboxes: BTreeMap::new(),
        zygotes: BTreeMap::new(),
        zygote_filter: seccomp::assemble(&seccomp::zygote()),
        ready: containers::Ready::default(),
        sweeps: loose::Sweeps::default(),
    };
    wire::send(&spawner.socket, &FromSpawner::Ready, &[])?;
    // Kernels without time namespaces show the host's uptime; nothing else.
    let _ = crate::clocks::begin_for_children();
    let served = spawner.serve();
    spawner.end();
    served
}

impl Spawner {
    /// Serves until the engine is gone.
    fn serve(&mut self) -> io::Result<()> {
        loop {
            let mut fds = [
                PollFd::new(&self.socket, PollFlags::IN),
                PollFd::new(&self.children, PollFlags::IN),
            ];
            // A runtime that hangs is noticed without anybody asking.
            let tick = (self.expects() || self.sweeps.is_pending()).then_some(&TICK);
            match rustix::event::poll(&mut fds, tick) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            let [asked, ended] = fds.map(|fd| !fd.revents().is_empty());
            if ended {
                self.reap()?;
            }
            if ended || self.sweeps.is_pending() {
                self.end_orphans_of_dead();
            }
            self.deliver()?;
            if asked && !self.obey()? {
                return Ok(());
            }
        }
    }

    /// Carries out one request. `false`: the engine is gone.
    fn obey(&mut self) -> io::Result<bool> {
        let (message, mut descriptors) = match wire::receive::<ToSpawner>(&self.socket) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        };
        match message {
            ToSpawner::Init { .. } => return Err(io::ErrorKind::InvalidData.into()),
            ToSpawner::Create { sequence, id, spec, weakened, zygote, files, fork, runner } => {
                let archive = (files && !descriptors.is_empty()).then(|| descriptors.remove(0));
                let runner = runner.as_deref();
                let carried = match runner {
                    Some(Runner::Microvm(_)) => std::mem::take(&mut descriptors),
                    _ => Vec::new(),
                };
                let fork = fork.map(|entry| (entry, descriptors));
                let wish =
                    Wish { spec: &spec, weakened: &weakened, archive, fork, runner, carried };
                match runner {
                    Some(Runner::Oci(order)) => {
                        self.begin_container(sequence, id, &wish, order)?;
                    }
                    Some(Runner::Microvm(_)) | None => {
                        self.answer_create(sequence, id, &wish, zygote)?;
                    }
                }
            }
            ToSpawner::StartZygote { sequence, number, spec, argv, env } => {
                let library = descriptors.pop().ok_or(io::ErrorKind::InvalidData)?;
                self.answer_zygote(sequence, number, &spec, (argv, env), library)?;
            }
            ToSpawner::EndZygote { number } => self.end_zygote(number),
            ToSpawner::Destroy { sequence, id } => {
                let answer = match self.destroy(&id) {
                    Ok(()) => FromSpawner::Destroyed { sequence },
                    Err(failure) => FromSpawner::Failed { sequence, failure },
                };
                wire::send(&self.socket, &answer, &[])?;
            }
            ToSpawner::Listen { sequence, id, port } => {
                self.answer_listen(sequence, &id, port)?;
            }
        }
        Ok(true)
    }

    /// Takes in children that have ended, and passes on what became of those
    /// that no sandbox is listed for.
    fn reap(&self) -> io::Result<()> {
        let mut discarded = [0u8; 1024];
        while rustix::io::read(&self.children, &mut discarded).is_ok() {}
        while let Some((pid, status, _)) = belljar_sys::process::reap_any()? {
            let mut known = self.sandboxes.values().chain(self.zygotes.values());
            let known = known.find(|sandbox| sandbox.pid.as_raw_nonzero().get() == pid);
            if let Some(birth) = known.and_then(|sandbox| sandbox.birth.as_ref()) {
                birth.ended.set(Some(status));
            } else if known.is_none() {
                let pid = u32::try_from(pid).unwrap_or(0);
                let ended = FromSpawner::Ended { pid, status: status.into() };
                // An engine that is gone is noticed elsewhere.
                let _ = wire::send(&self.socket, &ended, &[]);
            }
        }
        Ok(())
    }

    fn answer_create(
        &mut self,
        sequence: u64,
        id: SandboxId,
        wish: &Wish<'_>,
        zygote: Option<u32>,
    ) -> io::Result<()> {
        match self.create(id, wish, zygote) {
            Ok((created, stream, pidfd, scratch)) => {
                let (first_uid, pid, work) = created;
                let answer = FromSpawner::Created { sequence, first_uid, pid, work };
                let descriptors = [Some(&stream), Some(&pidfd), scratch.as_ref()];
                let descriptors: Vec<_> =
                    descriptors.into_iter().flatten().map(AsFd::as_fd).collect();
                wire::send(&self.socket, &answer, &descriptors)
            }
            Err(failure) => {
                wire::send(&self.socket, &FromSpawner::Failed { sequence, failure }, &[])
            }
        }
    }

    #[expect(clippy::type_complexity, reason = "one caller, which takes it apart at once")]
    fn create(
        &mut self,
        id: SandboxId,
        wish: &Wish<'_>,
        zygote: Option<u32>,
    ) -> Result<((u32, u32, Option<PathBuf>), OwnedFd, OwnedFd, Option<OwnedFd>), Failure> {
        self.refuse_twice(&id)?;
        let slot = self.take_slot()?;
        let first_uid = Lease::first_uid(slot.0, slot.1);
        let weakened = wish.weakened;
        let hierarchies = self.hierarchies.as_ref().filter(|_| weakened.keeps(Defence::Cgroups));
        let group = hierarchies.map(|h| SandboxGroup::new(h, self.engine, zygote, &id));
        let has_namespace = wish.spec.tier != Tier::Process;
        let work = (!has_namespace).then(|| self.state.work(self.engine, id.as_str()));
        let is_loose = !has_namespace && group.is_none() && weakened.keeps(Defence::TreeKill);
        let owner = zygote.map(|number| self.zygote(number)).transpose();
        let made = owner
            .map_err(Stillborn::from)
            .and_then(|owner| self.make(wish, first_uid, group.as_ref(), work.as_deref(), owner));
        match made {
            Ok(Born { pid, pidfd, stream, scratch }) => {
                let number = u32::try_from(pid.as_raw_nonzero().get()).unwrap_or(0);
                let copy = pidfd.try_clone().doing("copy the pidfd");
                let sandbox = Sandbox {
                    pid,
                    pidfd,
                    slot,
                    group,
                    work: work.clone(),
                    socket: None,
                    birth: None,
                    is_loose,
                };
                self.sandboxes.insert(id, sandbox);
                Ok(((first_uid, number, work), stream, copy?, scratch))
            }
            Err(Stillborn { failure, left }) => {
                // Nothing may be left of a sandbox that did not start.
                if self.clear(left, slot, group, work).is_ok() {
                    self.free.push_back(slot);
                }
                Err(failure)
            }
        }
    }

    fn make(
        &self,
        wish: &Wish<'_>,
        first_uid: u32,
        group: Option<&SandboxGroup>,
        work: Option<&Path>,
        owner: Option<Owner<'_>>,
    ) -> Result<Born, Stillborn> {
        let Wish { spec, weakened, archive, fork, runner, carried } = wish;
        let monitor = match runner {
            Some(Runner::Microvm(order)) => Some(microvm::Launch::new(order, carried)?),
            Some(Runner::Oci(_)) | None => None,
        };
        let plan = Plan::new(spec, self.facts, weakened);
        let plan = if archive.is_some() { plan.unpacking() } else { plan };
        if let Some(work) = work {
            make_work(work, self.facts.privileged.then_some(first_uid + USER_UID))
                .doing("make the working directory")?;
        }
        let base = self.state.base();
        let cradle = Cradle {
            program: monitor.as_ref().map_or(Program::Guest(&self.guest), Program::Monitor),
            filter: match &monitor {
                Some(monitor) => &monitor.filter,
                None if spec.tier == Tier::Process => &self.process_filter,
                None => &self.filter,
            },
            base: &base,
            devices: self.devices.as_deref(),
            work,
            privileged: self.facts.privileged,
            weakened,
            archive: archive.as_ref(),
            owner,
            fork: fork.as_ref().map(|(entry, descriptors)| (&entry[..], &descriptors[..])),
            idmap: None,
            stage: None,
        };
        bear(spec, &plan, &cradle, group, first_uid)
    }

    fn refuse_twice(&self, id: &SandboxId) -> Result<(), Failure> {
        if self.sandboxes.contains_key(id) {
            let taken = io::ErrorKind::AlreadyExists.into();
            return Err(Failure::new("create a sandbox: its id is in use", &taken));
        }
        Ok(())
    }

    fn take_slot(&mut self) -> Result<(u32, u32), Failure> {
        if let Some(slot) = self.free.pop_front() {
            return Ok(slot);
        }
        // A further lease has no cgroups under its own number.
        let lease = self.state.lease(None).doing("take more user ids")?;
        self.free.extend((0..SLOTS).map(|slot| (lease.number, slot)));
        self.leases.push(lease);
        self.free
            .pop_front()
            .ok_or_else(|| Failure::new("take more user ids", &io::ErrorKind::QuotaExceeded.into()))
    }

    fn destroy(&mut self, id: &SandboxId) -> Result<(), Failure> {
        let Some(sandbox) = self.sandboxes.get(id) else { return Ok(()) };
        kill(sandbox);
        // A sandbox that cannot be buried stays listed: its user ids are given
        // to nobody else, and the next request for its end tries again.
        self.bury(sandbox)?;
        self.sweeps.forget(id);
        if let Some(sandbox) = self.sandboxes.remove(id) {
            self.free.push_back(sandbox.slot);
            if let Some(birth) = &sandbox.birth {
                self.abort(birth).doing("report the end of a sandbox")?;
            }
        }
        Ok(())
    }

    /// Ends everything: the engine is gone.
    fn end(&mut self) {
        let zygotes = std::mem::take(&mut self.zygotes).into_values();
        let all: Vec<_> =
            zygotes.chain(std::mem::take(&mut self.sandboxes).into_values()).collect();
        all.iter().for_each(kill);
        for sandbox in all {
            let _ = self.bury(&sandbox);
        }
        if let Some(hierarchies) = &self.hierarchies {
            let _ = hierarchies.remove_engine(self.engine);
            hierarchies.tidy();
        }
        for lease in self.leases.drain(..) {
            lease.give_back();
        }
    }
}

fn make_work(work: &Path, owner: Option<u32>) -> io::Result<()> {
    for dir in [work.to_owned(), work.join("home"), work.join("tmp")] {
        fs::DirBuilder::new().mode(0o700).create(&dir)?;
        if let Some(owner) = owner {
            std::os::unix::fs::chown(&dir, Some(owner), Some(owner))?;
        }
    }
    Ok(())
}
