//! The node: one engine and what is common to its sandboxes.

use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use belljar_model::{Disk, SandboxId, Spec, Tier};
use belljar_sandbox::{Backend, Config, Engine, EngineError, Machine, StartError, State, Weakened};

use crate::GUEST;
use crate::link::LinkError;
use crate::sandbox::Sandbox;
use crate::warm::{Family, WarmError, Warmth};

/// Why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("the engine did not start")]
    Engine(#[source] EngineError),
    #[error("the sandbox did not start")]
    Start(#[source] StartError),
    #[error("the sandbox did not answer")]
    Link(#[source] LinkError),
    #[error("cannot make an id")]
    Id(#[source] std::io::Error),
    #[error("the template has no warm interpreter")]
    Warm(#[source] WarmError),
}

#[derive(Debug, Clone)]
pub struct Node {
    engine: Engine,
    families: Arc<Mutex<Vec<Arc<Family>>>>,
    /// Cells and calls that run now.
    busy: Arc<AtomicUsize>,
}

impl Node {
    /// Starts the engine; `None` uses the standard state directory.
    pub async fn start(state_dir: Option<&Path>) -> Result<Self, NodeError> {
        let state_dir =
            state_dir.map_or_else(|| State::default_dir(runtime_dir().as_deref()), Path::to_owned);
        let config = Config { state_dir, guest: GUEST };
        let engine = Engine::start(config).await.map_err(NodeError::Engine)?;
        Ok(Self { engine, families: Arc::default(), busy: Arc::default() })
    }

    /// Warms an interpreter up, from which sandboxes of the same template get
    /// theirs from now on. Answers when it is ready.
    pub async fn warm_up(&self, warmth: Warmth) -> Result<(), NodeError> {
        let family = Family::start(self.engine.clone(), warmth).await.map_err(NodeError::Warm)?;
        let mut families = self.families();
        families.retain(|known| known.warmth.root != family.warmth.root);
        families.push(family);
        Ok(())
    }

    fn families(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Family>>> {
        self.families.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who can fork interpreters into a sandbox like this.
    fn family(&self, spec: &Spec) -> Option<Arc<Family>> {
        let fits = spec.tier == Tier::Jail && spec.disk == Disk::Memory;
        let families = self.families();
        families.iter().find(|family| fits && family.warmth.root == spec.root).cloned()
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Waits until the engine has put everything away. Sandboxes that still
    /// exist are ended.
    pub async fn stop(self) {
        self.families().clear();
        self.engine.stop().await;
    }

    pub async fn create(&self, spec: &Spec) -> Result<Sandbox, NodeError> {
        let Some(family) = self.family(spec) else {
            return self.create_weakened(spec, &Weakened::default()).await;
        };
        let id = new_id().map_err(NodeError::Id)?;
        let machine = self.engine.create_for(id, spec, family.zygote()).await;
        let machine = machine.map_err(NodeError::Start)?;
        self.greet(machine, spec, &Weakened::default(), Some(family)).await
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
        sandbox.busy = self.busy.clone();
        Ok(sandbox)
    }

    /// Makes a sandbox without some defence, to show that it is needed. Only
    /// the engine's `test-util` feature can name one.
    pub async fn create_weakened(
        &self,
        spec: &Spec,
        weakened: &Weakened,
    ) -> Result<Sandbox, NodeError> {
        let id = new_id().map_err(NodeError::Id)?;
        let machine = self.engine.create(id, spec, weakened).await.map_err(NodeError::Start)?;
        self.greet(machine, spec, weakened, None).await
    }
}

fn runtime_dir() -> Option<std::path::PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(Into::into)
}

fn new_id() -> std::io::Result<SandboxId> {
    let mut bits = [0u8; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bits)?;
    Ok(SandboxId::from_random(bits))
}
