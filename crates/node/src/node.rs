//! The node: one engine and what is common to its sandboxes.

use std::io::Read as _;
use std::path::Path;

use belljar_model::{SandboxId, Spec};
use belljar_sandbox::{Backend, Config, Engine, EngineError, StartError, State, Weakened};

use crate::GUEST;
use crate::link::LinkError;
use crate::sandbox::Sandbox;

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
}

#[derive(Debug, Clone)]
pub struct Node {
    engine: Engine,
}

impl Node {
    /// Starts the engine; `None` uses the standard state directory.
    pub async fn start(state_dir: Option<&Path>) -> Result<Self, NodeError> {
        let state_dir =
            state_dir.map_or_else(|| State::default_dir(runtime_dir().as_deref()), Path::to_owned);
        let config = Config { state_dir, guest: GUEST };
        let engine = Engine::start(config).await.map_err(NodeError::Engine)?;
        Ok(Self { engine })
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Waits until the engine has put everything away. Sandboxes that still
    /// exist are ended.
    pub async fn stop(self) {
        self.engine.stop().await;
    }

    pub async fn create(&self, spec: &Spec) -> Result<Sandbox, NodeError> {
        self.create_weakened(spec, &Weakened::default()).await
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
        let privileged = self.engine.facts().privileged;
        Sandbox::greet(machine, spec, weakened, privileged).await.map_err(NodeError::Link)
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
