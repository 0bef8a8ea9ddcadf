//! Sandboxes that a container runtime makes.
//!
//! A runtime takes its time, and the spawner has one thread: it starts the
//! runtime, goes on serving, and answers when the runtime has ended. Until then
//! the sandbox is listed with the runtime as its process. Whatever the runtime
//! starts is in the sandbox's cgroups from its first instruction, and comes to
//! the spawner when the runtime ends, so an end at any moment is like any other.

mod ready;

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use belljar_domain::{Runtime, SandboxId, Spec, Tier};
use belljar_sys::process::WaitStatus;
use rustix::fs::OFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

pub(super) use ready::Ready;

use super::burial::kill;
use super::{Sandbox, Spawner, Wish};
use crate::cgroup::SandboxGroup;
use crate::jail::apply::{Launch, Program};
use crate::jail::parent::{Born, Cradle, Stillborn, bear};
use crate::jail::{Attempt, Failure};
use crate::oci::bundle::{self, Ground};
use crate::oci::launch::Desk;
use crate::oci::{self, Order};
use crate::plan::Plan;
use crate::state::Lease;
use crate::wire::{self, FromSpawner};

/// How long a runtime may take.
const BIRTH: Duration = Duration::from_secs(30);

/// How much of what a runtime says is passed on.
const LONGEST_WORDS: usize = 1000;

/// A sandbox whose runtime has not ended yet.
pub(super) struct Unborn {
    sequence: u64,
    runtime: Runtime,
    spec: Spec,
    desk: Desk,
    stream: OwnedFd,
    scratch: Option<OwnedFd>,
    /// What the runtime complains to.
    complaints: OwnedFd,
    since: Instant,
    /// How the runtime ended.
    pub(super) ended: Cell<Option<WaitStatus>>,
}

impl Unborn {
    fn is_due(&self) -> bool {
        self.ended.get().is_some() || self.since.elapsed() > BIRTH
    }
}

impl Spawner {
    /// Starts a runtime; whoever asked is answered when it ends.
    pub(super) fn begin_container(
        &mut self,
        sequence: u64,
        id: SandboxId,
        wish: &Wish<'_>,
        order: &Order,
    ) -> io::Result<()> {
        if let Err(failure) = self.start_container(sequence, id, wish, order) {
            return wire::send(&self.socket, &FromSpawner::Failed { sequence, failure }, &[]);
        }
        Ok(())
    }

    fn start_container(
        &mut self,
        sequence: u64,
        id: SandboxId,
        wish: &Wish<'_>,
        order: &Order,
    ) -> Result<(), Failure> {
        let unknown = || Failure::new("find the runtime", &io::ErrorKind::InvalidInput.into());
        let Tier::Oci(runtime) = wish.spec.tier else { return Err(unknown()) };
        self.refuse_twice(&id)?;
        let slot = self.take_slot()?;
        let first_uid = Lease::first_uid(slot.0, slot.1);
        let group = self.hierarchies.as_ref().map(|h| SandboxGroup::new(h, self.engine, None, &id));
        let work = self.state.work(self.engine, id.as_str());
        let desk = Desk::at(work.clone());
        let made =
            self.prepare_containers(runtime, slot.0).map_err(Stillborn::from).and_then(|()| {
                self.launch(&id, wish, (runtime, order), &desk, group.as_ref(), first_uid)
            });
        match made {
            Ok((Born { pid, pidfd, stream, scratch }, complaints)) => {
                let birth = Unborn {
                    sequence,
                    runtime,
                    spec: wish.spec.clone(),
                    desk,
                    stream,
                    scratch,
                    complaints,
                    since: Instant::now(),
                    ended: Cell::default(),
                };
                let birth = Some(Box::new(birth));
                let work = Some(work);
                let (socket, is_loose) = (None, false);
                let sandbox = Sandbox { pid, pidfd, slot, group, work, socket, birth, is_loose };
                self.sandboxes.insert(id, sandbox);
                Ok(())
            }
            Err(Stillborn { failure, left }) => {
                if self.clear(left, slot, group, Some(work)).is_ok() {
                    self.free.push_back(slot);
                }
                Err(failure)
            }
        }
    }

    fn launch(
        &self,
        id: &SandboxId,
        wish: &Wish<'_>,
        (runtime, order): (Runtime, &Order),
        desk: &Desk,
        group: Option<&SandboxGroup>,
        first_uid: u32,
    ) -> Result<(Born, OwnedFd), Stillborn> {
        let Wish { spec, weakened, archive, .. } = wish;
        let plan = Plan::new(spec, self.facts, weakened);
        let plan = if archive.is_some() { plan.unpacking() } else { plan };
        let (base, shared) = (self.state.base(), self.state.containers());
        let path = group.map(SandboxGroup::path).unwrap_or_default();
        let ground = Ground { base: &base, shared: &shared, first_uid, group: &path };
        let config = bundle::config(spec, runtime, self.facts, weakened, ground);
        desk.lay(&config).doing("write the container's bundle")?;
        let (complaints, theirs) =
            pipe_with(PipeFlags::CLOEXEC).doing("create a pipe for error output")?;
        let launch = Launch { argv: desk.argv(runtime, order, id), complaints: theirs };
        let cradle = Cradle {
            program: Program::Runtime(&launch),
            filter: &[],
            base: &base,
            devices: None,
            work: None,
            privileged: true,
            weakened,
            archive: archive.as_ref(),
            owner: None,
            fork: None,
            idmap: self.ready.map_of(first_uid),
            stage: self.ready.stage(runtime),
        };
        let wide = Spec { limits: oci::launch_limits(runtime, &spec.limits), ..(*spec).clone() };
        Ok((bear(&wide, &plan, &cradle, group, first_uid)?, complaints))
    }

    /// Makes what is made once, if it is not there.
    fn prepare_containers(&mut self, runtime: Runtime, lease: u32) -> Result<(), Failure> {
        if self.devices.is_none() || self.hierarchies.is_none() {
            let denied = io::ErrorKind::PermissionDenied.into();
            return Err(Failure::new("create containers without root and cgroups", &denied));
        }
        self.ready.share(&self.state.containers(), &self.guest, &self.filter)?;
        self.ready.set_stage(runtime)?;
        self.ready.map(lease)
    }

    /// Answers for runtimes that have ended, or that take too long.
    pub(super) fn deliver(&mut self) -> io::Result<()> {
        let is_due = |sandbox: &Sandbox| sandbox.birth.as_ref().is_some_and(|b| b.is_due());
        let due = self.sandboxes.iter().filter(|(_, sandbox)| is_due(sandbox));
        let due: Vec<SandboxId> = due.map(|(id, _)| id.clone()).collect();
        for id in due {
            let Some(mut sandbox) = self.sandboxes.remove(&id) else { continue };
            let Some(birth) = sandbox.birth.take() else { continue };
            let sequence = birth.sequence;
            match settle(&mut sandbox, &birth, self.facts.ipv6) {
                Ok(pidfd) => {
                    let (lease, slot) = sandbox.slot;
                    let created = FromSpawner::Created {
                        sequence,
                        first_uid: Lease::first_uid(lease, slot),
                        pid: u32::try_from(sandbox.pid.as_raw_nonzero().get()).unwrap_or(0),
                        work: sandbox.work.clone(),
                    };
                    self.sandboxes.insert(id, sandbox);
                    let descriptors = [Some(&birth.stream), Some(&pidfd), birth.scratch.as_ref()];
                    let descriptors: Vec<_> =
                        descriptors.into_iter().flatten().map(AsFd::as_fd).collect();
                    wire::send(&self.socket, &created, &descriptors)?;
                }
                Err(failure) => {
                    self.forget(id, sandbox);
                    wire::send(&self.socket, &FromSpawner::Failed { sequence, failure }, &[])?;
                }
            }
        }
        Ok(())
    }

    /// Ends a sandbox whose birth failed. One that cannot be buried stays listed.
    fn forget(&mut self, id: SandboxId, sandbox: Sandbox) {
        kill(&sandbox);
        if self.bury(&sandbox).is_ok() {
            self.free.push_back(sandbox.slot);
        } else {
            self.sandboxes.insert(id, sandbox);
        }
    }

    /// Tells whoever waits for a birth that it will not be.
    pub(super) fn abort(&self, birth: &Unborn) -> io::Result<()> {
        let failure = Failure::new(
            "start a sandbox that was ended meanwhile",
            &rustix::io::Errno::CANCELED.into(),
        );
        let answer = FromSpawner::Failed { sequence: birth.sequence, failure };
        wire::send(&self.socket, &answer, &[])
    }

    /// Whether a runtime is awaited.
    pub(super) fn expects(&self) -> bool {
        self.sandboxes.values().any(|sandbox| sandbox.birth.is_some())
    }
}

/// Puts the container's first process in the place of the runtime that made it.
/// Answers another descriptor of it.
fn settle(sandbox: &mut Sandbox, birth: &Unborn, ipv6: bool) -> Result<OwnedFd, Failure> {
    let program = birth.runtime.program();
    match birth.ended.get() {
        Some(WaitStatus::Exited(0)) => {}
        Some(how) => return Err(complaint(program, how, &birth.complaints)),
        None => {
            let late = io::ErrorKind::TimedOut.into();
            return Err(Failure::new(format!("see {program} start the container"), &late));
        }
    }
    let pid = birth.desk.pid().doing("read the container's pid")?;
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData);
    let pid = pid.map_err(io::Error::from).doing("read the container's pid")?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty())
        .map_err(|_| complaint(program, WaitStatus::Exited(0), &birth.complaints))?;
    let number = u32::try_from(pid.as_raw_nonzero().get()).unwrap_or(0);
    if let Some(group) = &sandbox.group {
        if !group.holds(number) {
            let lost = io::ErrorKind::InvalidData.into();
            return Err(Failure::new("find the container in its cgroups", &lost));
        }
        let limits = &birth.spec.limits;
        let (launch, outer) =
            (oci::launch_limits(birth.runtime, limits), oci::outer_limits(birth.runtime, limits));
        group.relimit(&launch, &outer).doing("set the sandbox's limits")?;
    }
    if birth.runtime != Runtime::Runsc {
        ready::limit_namespaces(&pidfd, ipv6)?;
    }
    let copy = pidfd.try_clone().doing("copy the pidfd")?;
    (sandbox.pid, sandbox.pidfd) = (pid, pidfd);
    Ok(copy)
}

/// What a runtime said before it gave up.
fn complaint(program: &str, how: WaitStatus, complaints: &OwnedFd) -> Failure {
    let words = match rustix::fs::fcntl_setfl(complaints, OFlags::NONBLOCK) {
        Ok(()) => read_some(complaints),
        Err(_) => String::new(),
    };
    let words = match (words.is_empty(), how) {
        (false, _) => format!("it printed: {words}"),
        (true, WaitStatus::Exited(code)) => format!("it exited with {code} and printed nothing"),
        (true, WaitStatus::Signaled(signal)) => format!("it was ended by signal {signal}"),
    };
    let canceled = rustix::io::Errno::CANCELED.into();
    Failure::new(format!("start the container with {program}; {words}"), &canceled)
}

fn read_some(from: &OwnedFd) -> String {
    let mut bytes = vec![0u8; 64 << 10];
    let count = rustix::io::read(from, &mut bytes[..]).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..count]);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let words: String = lines.join("; ").chars().filter(|c| !c.is_control()).collect();
    words.chars().take(LONGEST_WORDS).collect()
}
