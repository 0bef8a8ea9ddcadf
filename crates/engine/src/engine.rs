//! The engine: makes sandboxes by way of the spawner and hands them out.
//!
//! This file is long: all that shares the connection to the spawner is here, because the fields of
//! that connection are private to it.

mod error;

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use belljar_domain::{Runtime, SandboxId, Spec, Tier};
use belljar_sys::landlock;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, oneshot};

use crate::cgroup::{Hierarchies, SandboxGroup};
use crate::confinement::Confinement;
use crate::defence::{Defence, Weakened};
use crate::enforcement::{self, Enforcement, WeakLimit};
use crate::figures::Figures;
use crate::jail::Failure;
use crate::machine::{Files, Machine};
use crate::microvm::workshop::{Blueprint, Workshop};
use crate::microvm::{self, Supplier};
use crate::oci::runtime::{Judge, Judged, Runtimes};
use crate::oci::{self, launch::Desk};
use crate::plan::Facts;
use crate::runner::Runner;
use crate::spawner;
use crate::state::{Lease, State};
use crate::stillness::{Saver, Stillness};
use crate::watch::{self, Watch, Watchman};
use crate::wire::{self, Ended, FromSpawner, ToSpawner};
use crate::zygote::{Forking, Pending, Zygote};
pub use error::{EngineError, StartError};

/// Makes sandboxes of one or more tiers.
pub trait Backend: Send + Sync {
    /// Starts a sandbox; it is alive when this answers.
    fn create<'a>(
        &'a self,
        id: SandboxId,
        spec: &'a Spec,
        weakened: &'a Weakened,
    ) -> Pin<Box<dyn Future<Output = Result<Machine, StartError>> + Send + 'a>>;
}

/// What an engine needs to know at its start.
#[derive(Debug, Clone)]
pub struct Config {
    pub state_dir: PathBuf,
    /// The static program that becomes pid 1 of each sandbox.
    pub guest: &'static [u8],
    /// Where programs of the host are that run sandboxes.
    pub runtimes: Runtimes,
    /// Who keeps what virtual machines are made of.
    pub machines: Option<&'static dyn Supplier>,
}

type Answer = Result<(FromSpawner, Vec<OwnedFd>), Failure>;

/// A handle on the spawner; cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) connection: Arc<Connection>,
}

/// Held by whoever needs the spawner; the last one's drop ends it.
#[derive(Debug)]
pub(crate) struct Connection {
    inner: Arc<Inner>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&self.inner.socket, rustix::net::Shutdown::Both);
    }
}

impl std::ops::Deref for Connection {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

#[derive(Debug)]
pub(crate) struct Inner {
    /// A sequenced-packet socket, waited on as tokio waits on streams.
    socket: UnixStream,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
    ends: Mutex<Ends>,
    sequence: AtomicU64,
    zygotes: AtomicU32,
    facts: Facts,
    number: u32,
    pub(crate) state: State,
    pub(crate) hierarchies: Option<Hierarchies>,
    /// What it thinks of the host's container runtimes.
    judge: Judge,
    /// Where machines are prepared.
    pub(crate) workshop: Workshop,
    /// Closed when the spawner is gone.
    gone: Arc<Semaphore>,
    /// Keeps limits where there are no cgroups.
    watchman: Watchman,
    allows_weak_limits: AtomicBool,
}

/// Who waits for the end of which process, and the ends that came before
/// anyone waited.
#[derive(Debug, Default)]
struct Ends {
    expected: HashMap<u32, oneshot::Sender<Ended>>,
    early: VecDeque<(u32, Ended)>,
}

/// Ends that are kept for someone who has not asked yet.
const EARLY: usize = 64;

/// The least ABI of Landlock for the process tier: since then it rules TCP.
const PROCESS_ABI: u32 = 4;

/// The reason an ordinary user has no virtual machines.
const MONITOR_NEEDS_ROOT: &str = "the jail around a virtual machine monitor needs root";

impl Engine {
    /// Starts the spawner. Reclaims what dead engines left on the way.
    pub async fn start(config: Config) -> Result<Self, EngineError> {
        let state_error = |source| EngineError::State { dir: config.state_dir.clone(), source };
        let state = State::open(&config.state_dir).map_err(state_error)?;
        let hierarchies = state.hierarchies();
        state.sweep().map_err(EngineError::Lease)?;
        let lease = state.lease(hierarchies.as_ref()).map_err(EngineError::Lease)?;
        if let Some(hierarchies) = &hierarchies {
            hierarchies.create_engine(lease.number).map_err(|error| {
                // What was made before the failure is of no use to anyone.
                let _ = hierarchies.remove_engine(lease.number);
                hierarchies.tidy();
                EngineError::Groups(error)
            })?;
        }
        let facts = Facts {
            landlock_abi: landlock::abi().unwrap_or(0),
            privileged: rustix::process::geteuid().is_root(),
            ipv6: std::path::Path::new("/proc/sys/net/ipv6").exists(),
        };
        let guest = sealed_memfd("belljar-guest", config.guest).map_err(EngineError::Guest)?;
        let (socket, gone) = start_spawner().map_err(EngineError::Spawner)?;
        let init = ToSpawner::Init {
            state: state.dir.clone(),
            engine: lease.number,
            facts: facts.into(),
            groups: hierarchies.is_some(),
        };
        let descriptors = [guest.as_fd(), lease.file().as_fd()];
        wire::send(&socket, &init, &descriptors).map_err(EngineError::Spawner)?;
        let number = lease.number;
        let force = config.runtimes.force;
        let judge = Judge::new(config.runtimes);
        let workshop = Workshop::new(&state.dir, config.guest, config.machines, force);
        let engine =
            Self::connect(socket, facts, (state, number), (hierarchies, judge, workshop), gone);
        let engine = engine.await.map_err(EngineError::Spawner)?;
        // From here on the spawner's copy holds the lock.
        drop::<Lease>(lease);
        Ok(engine)
    }

    async fn connect(
        socket: OwnedFd,
        facts: Facts,
        (state, number): (State, u32),
        (hierarchies, judge, workshop): (Option<Hierarchies>, Judge, Workshop),
        gone: Arc<Semaphore>,
    ) -> io::Result<Self> {
        let inner = Inner {
            socket: to_tokio(socket)?,
            waiting: Mutex::new(HashMap::new()),
            ends: Mutex::default(),
            sequence: AtomicU64::new(0),
            zygotes: AtomicU32::new(0),
            facts,
            number,
            state,
            hierarchies,
            judge,
            workshop,
            gone,
            watchman: Watchman::default(),
            allows_weak_limits: AtomicBool::new(false),
        };
        let (message, _) = inner.receive().await?;
        if !matches!(message, FromSpawner::Ready) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let inner = Arc::new(inner);
        let reader = inner.clone();
        tokio::spawn(async move {
            while reader.deliver().await {}
            reader.fail_all();
        });
        Ok(Self { connection: Arc::new(Connection { inner }) })
    }

    /// Tells the spawner to end what is left, and waits until it is gone itself.
    /// Others may still hold this engine: whatever they ask for fails.
    pub async fn stop(self) {
        let gone = self.connection.gone.clone();
        let _ = rustix::net::shutdown(&self.connection.socket, rustix::net::Shutdown::Both);
        drop(self);
        // The semaphore closes when the spawner is reaped.
        let _ = gone.acquire().await;
    }

    /// Answers when the spawner is gone, and with it every sandbox. Whoever waits
    /// does not keep the engine.
    pub fn gone(&self) -> impl Future<Output = ()> + Send + use<> {
        let gone = self.connection.gone.clone();
        async move {
            let _ = gone.acquire().await;
        }
    }

    pub fn facts(&self) -> Facts {
        self.connection.facts
    }

    /// A name for a directory that goes with this engine at the latest; nobody
    /// has made it yet.
    pub fn place(&self, name: &str) -> PathBuf {
        self.connection.state.work(self.connection.number, name)
    }

    /// Whether limits are kept by cgroups.
    pub fn has_groups(&self) -> bool {
        self.connection.hierarchies.is_some()
    }

    /// What keeps limits here.
    pub fn enforcement(&self) -> Enforcement {
        match self.has_groups() {
            true => Enforcement::Cgroup,
            false => Enforcement::Watch,
        }
    }

    /// The limits that such a sandbox would not be held to here.
    pub fn weak_limits(&self, spec: &Spec) -> Vec<WeakLimit> {
        let privileged = self.connection.facts.privileged;
        enforcement::weak_limits(self.enforcement(), privileged, spec.tier, &spec.limits)
    }

    /// Refuses a sandbox of the jail that would not be held to a limit. The process tier says
    /// what it is not held to before anything runs in it.
    pub fn check_limits(&self, spec: &Spec) -> Result<(), StartError> {
        let refuses = spec.tier == Tier::Jail && !self.allows_weak_limits();
        match self.weak_limits(spec).first().filter(|_| refuses) {
            Some(weak) => Err(StartError::Weak(*weak)),
            None => Ok(()),
        }
    }

    /// Makes sandboxes even where nothing can keep their limits.
    pub fn allow_weak_limits(&self) {
        self.connection.allows_weak_limits.store(true, Ordering::Relaxed);
    }

    pub fn allows_weak_limits(&self) -> bool {
        self.connection.allows_weak_limits.load(Ordering::Relaxed)
    }

    /// Watches a sandbox that has no group; `None` where another kernel limits it, or where
    /// its limits may be weak and it cannot be watched.
    fn watch(
        &self,
        spec: &Spec,
        guest: u32,
        scratch: Option<&OwnedFd>,
    ) -> Result<Option<Arc<Watch>>, StartError> {
        if self.has_groups() || !matches!(spec.tier, Tier::Jail | Tier::Process) {
            return Ok(None);
        }
        let begin = || {
            watch::keep_to_cores(guest, &spec.limits)?;
            let scratch = scratch.map(OwnedFd::try_clone).transpose()?;
            let watch = Arc::new(Watch::new(spec.tier, guest, scratch, &spec.limits)?);
            self.connection.watchman.add(&watch)?;
            Ok(Some(watch))
        };
        match begin() {
            Err(_) if self.allows_weak_limits() => Ok(None),
            begun => begun.map_err(StartError::Unwatched),
        }
    }

    /// As [`Backend::create`], for a sandbox that a zygote can fork into.
    pub async fn create_for(
        &self,
        id: SandboxId,
        spec: &Spec,
        warm: Warm<'_>,
    ) -> Result<(Machine, Option<Pending>), StartError> {
        self.make(id, spec, &Weakened::default(), Some(warm), None).await
    }

    /// As [`Backend::create`], with files to begin with.
    pub async fn create_with(
        &self,
        id: SandboxId,
        spec: &Spec,
        files: &Files,
    ) -> Result<Machine, StartError> {
        let warm = Warm { zygote: None, files: Some(files), fork: None };
        Ok(self.make(id, spec, &Weakened::default(), Some(warm), None).await?.0)
    }

    /// How calls of such a sandbox will be confined.
    pub fn confinement(&self, spec: &Spec) -> Confinement {
        let facts = self.connection.facts;
        Confinement::new(spec, facts, self.enforcement(), &Weakened::default(), None)
    }

    /// Whether interpreters are born into a cgroup.
    pub fn has_unified(&self) -> bool {
        self.connection.hierarchies.as_ref().is_some_and(|h| h.unified.is_some())
    }

    /// Makes a sandbox that goes on where one was when [`Machine::save`] put it
    /// into the directory `from`. `spec` is what that one was.
    pub async fn restore(
        &self,
        id: SandboxId,
        spec: &Spec,
        from: &Path,
    ) -> Result<Machine, StartError> {
        Ok(self.make(id, spec, &Weakened::default(), None, Some(from)).await?.0)
    }

    /// The host's program that runs such a sandbox; an error where it is missing
    /// or not to be trusted.
    async fn runner(&self, spec: &Spec, from: Option<&Path>) -> Result<Option<Runner>, StartError> {
        match spec.tier {
            Tier::Process | Tier::Jail => Ok(None),
            Tier::Oci(runtime) => {
                let program = self.runtime(runtime).await?.program;
                let from = from.map(Path::to_owned);
                Ok(Some(Runner::Oci(oci::Order { program, from })))
            }
            // What runs it is part of its blueprint.
            Tier::Microvm => Ok(None),
        }
    }

    /// Everything that a virtual machine takes; `None` in other tiers.
    async fn blueprint(
        &self,
        spec: &Spec,
        from: Option<&Path>,
    ) -> Result<Option<Blueprint>, StartError> {
        if spec.tier != Tier::Microvm {
            return Ok(None);
        }
        let unsupported = |why| StartError::Unsupported { tier: spec.tier, why };
        if !self.connection.facts.privileged {
            return Err(unsupported(MONITOR_NEEDS_ROOT.to_owned()));
        }
        // A machine that was put on disk goes on as it began.
        let accelerator = match from.map(microvm::save::described) {
            Some(saved) => {
                let unreadable = |source| StartError::Step {
                    doing: "read a saved virtual machine".into(),
                    source,
                };
                saved.map_err(unreadable)?.shape.accelerator
            }
            None => self.choose_accelerator(&spec.root).await?.accelerator,
        };
        let (connection, spec) = (self.connection.clone(), spec.clone());
        let from = from.map(Path::to_owned);
        let design = move || connection.workshop.design(&spec, from.as_deref(), accelerator);
        let designed = tokio::task::spawn_blocking(design).await;
        designed.map_err(|_| StartError::SpawnerGone)?.map(Some).map_err(unsupported)
    }

    /// Checks that this host has what a tier takes, without starting a sandbox.
    pub async fn check_tier(&self, tier: Tier) -> Result<(), StartError> {
        match tier {
            Tier::Jail | Tier::Process => Ok(()),
            Tier::Oci(runtime) => self.runtime(runtime).await.map(drop),
            Tier::Microvm => {
                let unsupported = |why| StartError::Unsupported { tier, why };
                if !self.connection.facts.privileged {
                    return Err(unsupported(MONITOR_NEEDS_ROOT.to_owned()));
                }
                let connection = self.connection.clone();
                let version = tokio::task::spawn_blocking(move || connection.workshop.version());
                let version = version.await.map_err(|_| StartError::SpawnerGone)?;
                version.map(drop).map_err(unsupported)
            }
        }
    }

    /// The host's container runtime, found and judged.
    pub async fn runtime(&self, runtime: Runtime) -> Result<Judged, StartError> {
        let unsupported = |why| StartError::Unsupported { tier: Tier::Oci(runtime), why };
        let Inner { facts, hierarchies, judge, .. } = &**self.connection;
        if !facts.privileged {
            return Err(unsupported("creating containers needs root".to_owned()));
        }
        if hierarchies.as_ref().is_none_or(|found| found.unified.is_none()) {
            let why = "ending a container needs a cgroup of version 2, and there is none";
            return Err(unsupported(why.to_owned()));
        }
        judge.judge(runtime).await.map_err(unsupported)
    }

    async fn make(
        &self,
        id: SandboxId,
        spec: &Spec,
        weakened: &Weakened,
        warm: Option<Warm<'_>>,
        from: Option<&Path>,
    ) -> Result<(Machine, Option<Pending>), StartError> {
        spec.check().map_err(StartError::Limits)?;
        self.check_limits(spec)?;
        let abi = self.connection.facts.landlock_abi;
        if spec.tier == Tier::Process && abi < PROCESS_ABI {
            let why = if abi == 0 {
                "its kernel has no Landlock, which this tier needs to restrict files".to_owned()
            } else {
                format!(
                    "its kernel has ABI {abi} of Landlock; this tier shares the host's network \
                     and needs ABI {PROCESS_ABI} (Linux 6.7), which restricts TCP"
                )
            };
            return Err(StartError::Unsupported { tier: spec.tier, why });
        }
        if !spec.data.is_empty() && !spec.tier.shows_files() {
            let why = "directories of the host cannot be mounted in it".to_owned();
            return Err(StartError::Unsupported { tier: spec.tier, why });
        }
        let runner = self.runner(spec, from).await?;
        let saver = match &runner {
            Some(Runner::Oci(order)) if spec.tier.can_be_saved() => Some(order.program.clone()),
            _ => None,
        };
        let saved = match from.filter(|_| saver.is_some()) {
            Some(dir) => Some(Files::open(&oci::save::files(dir)).map_err(|source| {
                StartError::Step { doing: "open the files of a saved sandbox".into(), source }
            })?),
            None => None,
        };
        let brings = |warm: &Warm<'_>| warm.zygote.is_some() || warm.files.is_some();
        if spec.tier == Tier::Microvm && warm.as_ref().is_some_and(brings) {
            let why =
                "files of the host cannot be put into a virtual machine before its guest runs";
            return Err(StartError::Unsupported { tier: spec.tier, why: why.to_owned() });
        }
        let blueprint = self.blueprint(spec, from).await?;
        let runner = match &blueprint {
            Some(blueprint) => Some(Runner::Microvm(blueprint.order.clone())),
            None => runner,
        };
        let sequence = self.connection.next();
        let (zygote, files, forking) = match warm {
            Some(Warm { zygote, files, fork }) => (zygote, files, fork),
            None => (None, saved.as_ref(), None),
        };
        if let Some(files) = files {
            files.check_layout(self.connection.facts.privileged)?;
        }
        let number = zygote.as_ref().map(|zygote| zygote.number());
        let pending = forking.as_ref().map(|_| Pending::new()).transpose()?;
        let request = ToSpawner::Create {
            sequence,
            id: id.clone(),
            spec: Box::new(blueprint.as_ref().map_or(spec, |plan| &plan.spec).clone()),
            weakened: weakened.clone(),
            zygote: number,
            files: files.is_some(),
            fork: forking.as_ref().map(|forking| forking.entry.clone()),
            runner: runner.map(Box::new),
        };
        // Whoever asked may give up meanwhile; then nobody else would end it.
        let unclaimed = Unclaimed { connection: self.connection.clone(), id: Some(id.clone()) };
        let mut carried: Vec<_> = files.iter().map(|files| files.archive.as_fd()).collect();
        if let (Some(forking), Some((_, theirs))) = (&forking, &pending) {
            carried.extend(forking.carried(theirs));
        }
        carried.extend(blueprint.iter().flat_map(|plan| plan.ends.carried()));
        let answer = self.connection.ask_with(sequence, &request, &carried).await?;
        let (answer, descriptors) = answer;
        // What is left of these is the child's.
        drop(carried);
        drop(forking);
        let pending = pending.map(|(pending, _)| pending);
        let FromSpawner::Created { first_uid, pid, work, .. } = answer else {
            return Err(StartError::SpawnerGone);
        };
        let mut descriptors = descriptors.into_iter();
        let stream = descriptors.next().ok_or(StartError::SpawnerGone)?;
        let stream = to_tokio(stream).map_err(|source| StartError::Step {
            doing: "use the guest's stream".into(),
            source,
        })?;
        let pidfd = descriptors.next().ok_or(StartError::SpawnerGone)?;
        let hierarchies =
            self.connection.hierarchies.as_ref().filter(|_| weakened.keeps(Defence::Cgroups));
        let group = hierarchies.map(|h| SandboxGroup::new(h, self.connection.number, number, &id));
        let facts = self.connection.facts;
        let home = work.as_deref().filter(|_| spec.tier == Tier::Process);
        let confinement = Confinement::new(spec, facts, self.enforcement(), weakened, home);
        let saver = saver.zip(work).map(|(program, work)| Saver { program, desk: Desk::at(work) });
        let monitor = match blueprint {
            Some(plan) => Some(plan.meet(from).await?),
            None => None,
        };
        // What a monitor writes is no file of the sandbox.
        let scratch = descriptors.next().filter(|_| monitor.is_none());
        let watch = self.watch(spec, pid, scratch.as_ref())?;
        unclaimed.claim();
        let stillness = Stillness::new(id.clone(), group.clone(), saver);
        let figures = scratch.as_ref().filter(|_| spec.tier == Tier::Jail);
        let machine = Machine {
            confinement,
            stream: Some(stream),
            figures: figures.and_then(|scratch| Figures::open(scratch.as_fd(), &spec.limits)),
            scratch,
            watch,
            monitor,
            group,
            guest_uid: first_uid + crate::plan::guest_uid(spec.tier, weakened),
            pid,
            pidfd,
            first_uid,
            facts,
            tier: spec.tier,
            zygote,
            engine: Mutex::new(Some(self.connection.clone())),
            stillness: Arc::new(stillness),
            id,
        };
        Ok((machine, pending))
    }
}

/// What a sandbox does not begin from nothing with.
#[derive(Debug)]
pub struct Warm<'a> {
    /// Of a warm template.
    pub zygote: Option<Arc<Zygote>>,
    /// To begin with.
    pub files: Option<&'a Files>,
    /// An interpreter to be forked at the same time, as the first call.
    pub fork: Option<Forking>,
}

/// A sandbox that was asked for and that no machine stands for yet.
struct Unclaimed {
    connection: Arc<Connection>,
    id: Option<SandboxId>,
}

impl Unclaimed {
    fn claim(mut self) {
        self.id = None;
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.connection.destroy_later(id);
        }
    }
}

impl Backend for Engine {
    fn create<'a>(
        &'a self,
        id: SandboxId,
        spec: &'a Spec,
        weakened: &'a Weakened,
    ) -> Pin<Box<dyn Future<Output = Result<Machine, StartError>> + Send + 'a>> {
        Box::pin(async { Ok(self.make(id, spec, weakened, None, None).await?.0) })
    }
}

impl Inner {
    pub(crate) fn next(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn next_zygote(&self) -> u32 {
        self.zygotes.fetch_add(1, Ordering::Relaxed)
    }

    /// Answers when the spawner tells the end of the process `pid`.
    pub(crate) fn expect_end(&self, pid: u32) -> oneshot::Receiver<Ended> {
        let (sender, receiver) = oneshot::channel();
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        match ends.early.iter().position(|(ended, _)| *ended == pid) {
            Some(at) => {
                if let Some((_, status)) = ends.early.remove(at) {
                    let _ = sender.send(status);
                }
            }
            None => drop(ends.expected.insert(pid, sender)),
        }
        receiver
    }

    fn tell_end(&self, pid: u32, status: Ended) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        match ends.expected.remove(&pid) {
            // Whoever waited may have lost interest.
            Some(sender) => drop(sender.send(status)),
            None => {
                ends.early.push_back((pid, status));
                if ends.early.len() > EARLY {
                    ends.early.pop_front();
                }
            }
        }
    }

    async fn receive(&self) -> io::Result<(FromSpawner, Vec<OwnedFd>)> {
        loop {
            self.socket.readable().await?;
            let received = self.socket.try_io(Interest::READABLE, || wire::receive(&self.socket));
            match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    /// Hands one answer to whoever waits for it. `false`: the spawner is gone.
    async fn deliver(&self) -> bool {
        let Ok((message, descriptors)) = self.receive().await else { return false };
        let (sequence, answer) = match message {
            FromSpawner::Ready => return false,
            FromSpawner::Failed { sequence, failure } => (sequence, Err(failure)),
            FromSpawner::Ended { pid, status } => {
                self.tell_end(pid, status);
                return true;
            }
            FromSpawner::Created { sequence, .. }
            | FromSpawner::ZygoteStarted { sequence, .. }
            | FromSpawner::Listening { sequence }
            | FromSpawner::Destroyed { sequence } => (sequence, Ok((message, descriptors))),
        };
        if let Some(waiter) = self.lock_waiting().remove(&sequence) {
            // Whoever asked may have given up, and has asked for the end then.
            let _ = waiter.send(answer);
        }
        true
    }

    fn fail_all(&self) {
        self.lock_waiting().clear();
    }

    fn lock_waiting(&self) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<Answer>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(
        &self,
        sequence: u64,
        request: &ToSpawner,
    ) -> Result<(FromSpawner, Vec<OwnedFd>), StartError> {
        self.ask_with(sequence, request, &[]).await
    }

    pub(crate) async fn ask_with(
        &self,
        sequence: u64,
        request: &ToSpawner,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(FromSpawner, Vec<OwnedFd>), StartError> {
        let (sender, receiver) = oneshot::channel();
        self.lock_waiting().insert(sequence, sender);
        self.send(request, descriptors).await.map_err(|_| StartError::SpawnerGone)?;
        let answer = receiver.await.map_err(|_| StartError::SpawnerGone)?;
        Ok(answer?)
    }

    async fn send(&self, request: &ToSpawner, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        loop {
            self.socket.writable().await?;
            let send = || wire::send(&self.socket, request, descriptors);
            let sent = self.socket.try_io(Interest::WRITABLE, send);
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    pub(crate) async fn destroy(&self, id: SandboxId) -> Result<(), StartError> {
        let sequence = self.next();
        self.ask(sequence, &ToSpawner::Destroy { sequence, id }).await.map(drop)
    }

    /// Asks for the end of a sandbox without waiting for it.
    pub(crate) fn destroy_later(&self, id: SandboxId) {
        // A full socket is retried by nobody: the stream's end, which comes with
        // the machine's drop, ends the guest in any case.
        self.send_later(&ToSpawner::Destroy { sequence: self.next(), id });
    }

    /// Sends a request whose answer nobody waits for.
    pub(crate) fn send_later(&self, request: &ToSpawner) {
        let _ = wire::send(&self.socket, request, &[]);
    }
}

pub(crate) fn to_tokio(stream: OwnedFd) -> io::Result<UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(stream);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// A program in memory, sealed: nobody can change it, not even
/// through `/proc/1/exe`.
pub(crate) fn sealed_memfd(name: &str, program: &[u8]) -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know the flag and need not be told.
    let memfd =
        memfd_create(name, flags | MemfdFlags::EXEC).or_else(|_| memfd_create(name, flags))?;
    let mut rest = program;
    while !rest.is_empty() {
        let count = rustix::io::write(&memfd, rest)?;
        rest = &rest[count..];
    }
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&memfd, seals)?;
    Ok(memfd)
}

/// Starts this executable again as the spawner.
fn start_spawner() -> io::Result<(OwnedFd, Arc<Semaphore>)> {
    use std::os::unix::process::CommandExt;
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let mut child = Command::new("/proc/self/exe")
        .arg0(spawner::NAME)
        .env_clear()
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .spawn()?;
    // It lives exactly as long as the socket; a thread of our own reaps it.
    let gone = Arc::new(Semaphore::new(0));
    let reaped = gone.clone();
    std::thread::Builder::new().name("spawner-reaper".into()).spawn(move || {
        let _ = child.wait();
        reaped.close();
    })?;
    Ok((ours, gone))
}
