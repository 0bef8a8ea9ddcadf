//! Warm starts in tiers with a kernel of their own: a sandbox whose interpreter
//! was warmed up is saved once, and others are restored from that.
//!
//! As with zygotes, all of them share a hash seed and the layout of memory, so
//! none is restored from for ever: another is saved beside it in time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use belljar_domain::Spec;
use belljar_engine::Then;

use super::{LONGEST_LIFE, MOST_FORKS, Warmth};
use crate::context::ContextOptions;
use crate::node::{Node, NodeError};
use crate::runtime::Language;
use crate::sandbox::Sandbox;
use crate::whole::{Revived, Whole};

/// A template's warm sandbox, on disk.
#[derive(Debug)]
pub(crate) struct Saved {
    spec: Spec,
    warmth: Warmth,
    current: Mutex<Current>,
    replacing: AtomicBool,
}

#[derive(Debug, Clone)]
struct Current {
    whole: Arc<Whole>,
    born: Instant,
    restores: u64,
}

impl Current {
    fn new(whole: Arc<Whole>) -> Self {
        Self { whole, born: Instant::now(), restores: 0 }
    }
}

impl Saved {
    pub(crate) async fn make(node: &Node, spec: Spec, warmth: Warmth) -> Result<Self, NodeError> {
        let current = Mutex::new(Current::new(save(node, &spec, &warmth).await?));
        Ok(Self { spec, warmth, current, replacing: AtomicBool::new(false) })
    }

    /// Whether a sandbox like `spec` can begin from this.
    pub(crate) fn fits(&self, spec: &Spec) -> bool {
        let whole = self.lock().whole.clone();
        whole.record.fits(spec, &whole.dir).is_ok()
    }

    /// Whether it is of the same kind, so that a new one takes its place.
    pub(crate) fn is_for(&self, spec: &Spec) -> bool {
        self.spec == *spec
    }

    /// A sandbox with an interpreter that is warm and waits.
    pub(crate) async fn start(
        self: &Arc<Self>,
        node: &Node,
        spec: &Spec,
    ) -> Result<Sandbox, NodeError> {
        let whole = self.take(node);
        let Revived { mut sandbox, interpreters } = node.revive(&whole, spec).await?;
        for (kept, interpreter) in interpreters {
            sandbox.have_ready(kept.options().interpreter, interpreter);
        }
        Ok(sandbox)
    }

    fn take(self: &Arc<Self>, node: &Node) -> Arc<Whole> {
        let mut current = self.lock();
        current.restores += 1;
        let old = current.restores >= MOST_FORKS || current.born.elapsed() >= LONGEST_LIFE;
        if old && !self.replacing.swap(true, Ordering::AcqRel) {
            let (saved, node) = (self.clone(), node.clone());
            tokio::spawn(async move {
                // A failure is tried again at the next start.
                if let Ok(whole) = save(&node, &saved.spec, &saved.warmth).await {
                    *saved.lock() = Current::new(whole);
                }
                saved.replacing.store(false, Ordering::Release);
            });
        }
        current.whole.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn save(node: &Node, spec: &Spec, warmth: &Warmth) -> Result<Arc<Whole>, NodeError> {
    let sandbox = node.create_cold(spec).await?;
    let options = ContextOptions {
        language: Language::Python,
        interpreter: warmth.interpreter.clone(),
        cwd: None,
        env: warmth.env.clone(),
    };
    let saved = async {
        sandbox.warm_context(options, &warmth.code).await?;
        Node::save_beside(node.engine(), &sandbox, Then::Ends).await
    };
    let saved = saved.await.map_err(NodeError::Context);
    let ended = sandbox.destroy().await.map_err(NodeError::Start);
    saved.and_then(|whole| ended.map(|()| whole))
}
