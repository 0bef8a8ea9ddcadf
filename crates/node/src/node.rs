//! The node: one engine and what is common to its sandboxes.

use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belljar_domain::{Disk, Limits, RootFs, SandboxId, SecurityProfile, Spec, Tier};
use belljar_engine::{
    Backend, Config, Engine, EngineError, Files, Machine, Runtimes, StartError, State, Weakened,
    Zygote,
};

use crate::GUEST;
use crate::context::{ContextError, forking};
use crate::copy::SaveError;
use crate::link::LinkError;
use crate::machines::FromStore;
use crate::pool::{Claimant, Pool, PoolFigures, PoolSize};
use crate::sandbox::Sandbox;
use crate::warm::{Family, Saved, WarmError, Warmth};

/// Why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("the engine did not start")]
    Engine(#[source] EngineError),
    #[error("the sandbox did not start")]
    Start(#[source] StartError),
    #[error("the sandbox did not answer")]
    Link(#[source] LinkError),
    #[error("cannot generate an id")]
    Id(#[source] std::io::Error),
    #[error("the template has no warm interpreter")]
    Warm(#[source] WarmError),
    #[error("the waiting interpreter did not start")]
    Context(#[source] ContextError),
    #[error("cannot restore the saved sandbox")]
    Saved(#[source] SaveError),
    #[error("the limits could not be applied to a waiting sandbox")]
    Limits(#[source] std::io::Error),
}

/// How long a machine may take to boot, and how often it is tried.
const BOOT: Duration = Duration::from_secs(45);
const BOOTS: u32 = 3;

#[derive(Debug, Clone)]
pub struct Node {
    maker: Maker,
    warm: Arc<Mutex<Vec<Warm>>>,
    saved: Arc<Mutex<Vec<Arc<Saved>>>>,
}

/// A template whose interpreter is warm.
#[derive(Debug, Clone)]
struct Warm {
    family: Arc<Family>,
    pool: Option<Arc<Pool>>,
}

/// Makes sandboxes.
#[derive(Debug, Clone)]
pub(crate) struct Maker {
    engine: Engine,
    /// Cells and calls that run now.
    busy: Arc<AtomicUsize>,
}

impl Node {
    /// Starts the engine; `None` uses the standard state directory.
    pub async fn start(state_dir: Option<&Path>) -> Result<Self, NodeError> {
        Self::start_with(state_dir, GUEST).await
    }

    /// As [`Node::start`], with another program as pid 1 of its sandboxes: a hostile one.
    #[cfg(feature = "test-util")]
    pub async fn start_with_guest(
        state_dir: &Path,
        guest: &'static [u8],
    ) -> Result<Self, NodeError> {
        Self::start_with(Some(state_dir), guest).await
    }

    async fn start_with(state_dir: Option<&Path>, guest: &'static [u8]) -> Result<Self, NodeError> {
        let state_dir =
            state_dir.map_or_else(|| State::default_dir(runtime_dir().as_deref()), Path::to_owned);
        let runtimes = Runtimes::from_environment();
        let config = Config { state_dir, guest, runtimes, machines: Some(&FromStore) };
        let engine = Engine::start(config).await.map_err(NodeError::Engine)?;
        let maker = Maker { engine, busy: Arc::default() };
        Ok(Self { maker, warm: Arc::default(), saved: Arc::default() })
    }

    /// Warms an interpreter up, from which sandboxes of the same template get
    /// theirs from now on. Answers when it is ready. A pool keeps sandboxes
    /// waiting, which have these limits until a request says otherwise.
    pub async fn warm_up(
        &self,
        warmth: Warmth,
        pool: Option<(PoolSize, Limits)>,
    ) -> Result<(), NodeError> {
        let root = warmth.root.clone();
        let Maker { engine, busy } = &self.maker;
        let family = Family::start(engine.clone(), warmth).await.map_err(NodeError::Warm)?;
        let pool = pool.map(|(size, limits)| {
            // A claim takes rights away from root; it cannot add any.
            let profile = SecurityProfile::Full;
            let spec = Spec { limits, profile, ..Spec::new(Tier::Jail, root.clone()) };
            Pool::start(size, spec, &family, self.maker.clone(), busy.clone())
        });
        let mut warm = self.warm();
        warm.retain(|known| known.family.warmth.root != root);
        warm.push(Warm { family, pool });
        Ok(())
    }

    /// Returns true if sandboxes with this root get warm interpreters.
    pub fn is_warm(&self, root: &RootFs) -> bool {
        self.warm().iter().any(|warm| warm.family.warmth.root == *root)
    }

    /// Ends the warm interpreter of a template. Sandboxes that were made for it keep it for as
    /// long as they live.
    pub fn cool_down(&self, root: &RootFs) {
        self.warm().retain(|known| known.family.warmth.root != *root);
    }

    /// As [`Node::warm_up`], for tiers with a kernel of their own: sandboxes that
    /// are what `spec` says begin from one that was warmed up and put on disk.
    pub async fn warm_up_saved(&self, warmth: Warmth, spec: Spec) -> Result<(), NodeError> {
        let made = Arc::new(Saved::make(self, spec.clone(), warmth).await?);
        let mut saved = self.saved();
        saved.retain(|known| !known.is_for(&spec));
        saved.push(made);
        Ok(())
    }

    fn saved(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Saved>>> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn warm(&self) -> std::sync::MutexGuard<'_, Vec<Warm>> {
        self.warm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who can fork interpreters into a sandbox like this.
    fn warm_for(&self, spec: &Spec) -> Option<Warm> {
        let fits = spec.tier == Tier::Jail && spec.disk == Disk::Memory;
        let warm = self.warm();
        warm.iter().find(|warm| fits && warm.family.warmth.root == spec.root).cloned()
    }

    /// What the pools have done so far, by template.
    pub fn pools(&self) -> Vec<(RootFs, PoolFigures)> {
        let figures = |warm: &Warm| {
            let pool = warm.pool.as_ref()?;
            Some((warm.family.warmth.root.clone(), pool.figures()))
        };
        self.warm().iter().filter_map(figures).collect()
    }

    /// Answers when nothing can run here any more.
    pub fn gone(&self) -> impl Future<Output = ()> + Send + use<> {
        self.maker.engine.gone()
    }

    pub fn engine(&self) -> &Engine {
        &self.maker.engine
    }

    /// Waits until the engine has put everything away. Sandboxes that still
    /// exist are ended.
    pub async fn stop(self) {
        let Self { maker: Maker { engine, .. }, warm, saved } = self;
        drop((warm, saved));
        engine.stop().await;
    }

    pub async fn create(&self, spec: &Spec) -> Result<Sandbox, NodeError> {
        self.create_for(spec, Claimant::new("")).await
    }

    /// As [`Node::create`], for somebody: who asks for more than others finds fewer
    /// that wait.
    pub async fn create_for(&self, spec: &Spec, whose: Claimant) -> Result<Sandbox, NodeError> {
        let saved = self.saved().iter().find(|saved| saved.fits(spec)).cloned();
        if let Some(saved) = saved
            && let Ok(sandbox) = saved.start(self, spec).await
        {
            return Ok(sandbox);
        }
        // None was saved, or it does not come back: the same tier, from nothing.
        let Some(Warm { family, pool }) = self.warm_for(spec) else {
            return self.create_cold(spec).await;
        };
        spec.check().map_err(|error| NodeError::Start(StartError::Limits(error)))?;
        self.engine().check_limits(spec).map_err(NodeError::Start)?;
        if let Some(claimed) = pool.and_then(|pool| pool.claim(spec, whose))
            && let Ok(claimed) = claimed.claimed(spec).await
        {
            return Ok(claimed);
        }
        // None waited, or it has died waiting.
        self.maker.make(spec, &family).await
    }

    /// Makes a sandbox that begins from nothing.
    pub(crate) async fn create_cold(&self, spec: &Spec) -> Result<Sandbox, NodeError> {
        self.create_weakened(spec, &Weakened::default()).await
    }

    /// As [`Node::create`], with files to begin with. Those are laid out while a
    /// sandbox is made, so none that waits will do.
    pub(crate) async fn create_from(
        &self,
        spec: &Spec,
        files: &Files,
    ) -> Result<Sandbox, NodeError> {
        if let Some(Warm { family, .. }) = self.warm_for(spec) {
            return self.maker.make_for(spec, &family, family.zygote(), Some(files)).await;
        }
        let id = new_id().map_err(NodeError::Id)?;
        let machine = self.engine().create_with(id, spec, files).await.map_err(NodeError::Start)?;
        self.maker.greet(machine, spec, &Weakened::default(), None).await
    }

    pub(crate) fn maker(&self) -> &Maker {
        &self.maker
    }

    /// Makes a sandbox without some defence, to show that it is needed. Only
    /// the engine's `test-util` feature can name one.
    pub async fn create_weakened(
        &self,
        spec: &Spec,
        weakened: &Weakened,
    ) -> Result<Sandbox, NodeError> {
        for _ in 0..BOOTS {
            let id = new_id().map_err(NodeError::Id)?;
            let machine = self.engine().create(id, spec, weakened).await;
            let machine = machine.map_err(NodeError::Start)?;
            let sandbox = self.maker.greet(machine, spec, weakened, None).await?;
            // Now and then an emulated processor hangs in its kernel's first moments.
            if spec.tier != Tier::Microvm || sandbox.link.greeted(BOOT).await {
                return Ok(sandbox);
            }
            sandbox.destroy().await.map_err(NodeError::Start)?;
        }
        Err(NodeError::Link(LinkError::Silent(BOOT * BOOTS)))
    }
}

impl Maker {
    /// Makes a sandbox that the family's zygote can fork into.
    pub(crate) async fn make(
        &self,
        spec: &Spec,
        family: &Arc<Family>,
    ) -> Result<Sandbox, NodeError> {
        self.make_for(spec, family, family.zygote(), None).await
    }

    /// As [`Self::make`], for a zygote of the caller's choice and with files.
    pub(crate) async fn make_for(
        &self,
        spec: &Spec,
        family: &Arc<Family>,
        zygote: Arc<Zygote>,
        files: Option<&Files>,
    ) -> Result<Sandbox, NodeError> {
        let id = new_id().map_err(NodeError::Id)?;
        // Forked while the sandbox is made: a warm template's sessions run cells.
        let (engine, confinement) = (&self.engine, self.engine.confinement(spec));
        let forking = forking(&confinement, engine.facts(), engine.has_unified());
        let (fork, ours) = forking.map_err(NodeError::Context)?;
        let zygote = Some(zygote);
        let warm = belljar_engine::Warm { zygote, files, fork: Some(fork) };
        let made = engine.create_for(id, spec, warm).await;
        let (machine, pending) = made.map_err(NodeError::Start)?;
        let weakened = Weakened::default();
        let mut sandbox = self.greet(machine, spec, &weakened, Some(family.clone())).await?;
        sandbox.maker = Some(self.clone());
        if let Some(pending) = pending {
            sandbox.expect((pending, ours));
        }
        Ok(sandbox)
    }

    async fn greet(
        &self,
        machine: Machine,
        spec: &Spec,
        weakened: &Weakened,
        family: Option<Arc<Family>>,
    ) -> Result<Sandbox, NodeError> {
        let privileged = self.engine.facts().privileged;
        let greeted = Sandbox::greet(machine, spec, weakened, privileged).await;
        let mut sandbox = greeted.map_err(NodeError::Link)?;
        sandbox.family = family;
        self.settle(&mut sandbox);
        Ok(sandbox)
    }

    /// Counts what runs in a sandbox with the rest, and lets it be copied.
    pub(crate) fn settle(&self, sandbox: &mut Sandbox) {
        sandbox.busy = self.busy.clone();
        if sandbox.spec.tier.can_be_saved() {
            sandbox.maker = Some(self.clone());
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}

fn runtime_dir() -> Option<std::path::PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(Into::into)
}

pub(crate) fn new_id() -> std::io::Result<SandboxId> {
    Ok(SandboxId::from_random(crate::random::bytes()?))
}
