//! What a case runs on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use belljar_domain::limits::MIB;
use belljar_domain::{Limits, Spec, Tier};
use belljar_engine::Enforcement;
use belljar_node::{ContextOptions, Node, Sandbox};
use belljar_template::Template;

use crate::pace::Pace;

#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) node: Node,
    /// Where its engine, and every other of this program, has its state.
    pub(crate) state: PathBuf,
    pub(crate) tier: Tier,
    pub(crate) template: Template,
    /// How much longer than bare everything may take.
    pub(crate) pace: Pace,
    contexts: Option<Contexts>,
}

/// What contexts are made with.
#[derive(Debug)]
struct Contexts {
    node: Node,
    template: Template,
    /// Whether the node is there for this alone, and warm.
    warm: bool,
}

impl Fixture {
    /// Starts an engine that shares its state directory with no other program's.
    pub(crate) async fn start(state: &Path, tier: Tier, store: &Path) -> anyhow::Result<Self> {
        let node = Node::start(Some(state)).await.context("start the engine")?;
        // Directories of the host cannot be shown in a machine of its own.
        let template = match tier {
            Tier::Microvm => belljar_warmed::template(),
            _ => belljar_template::host::prepare(store).context("prepare the template"),
        };
        let (state, pace) = (state.to_owned(), Pace::FULL);
        Ok(Self { node, state, tier, template: template?, pace, contexts: None })
    }

    /// Starts another engine, beside the one that most cases use.
    pub(crate) async fn another_node(&self) -> anyhow::Result<Node> {
        Node::start(Some(&self.state)).await.context("start another engine")
    }

    /// Takes this template for contexts. Where an interpreter can be forked from
    /// a warm one, which only root can have, that is warmed up, in a node of its
    /// own: a zygote outlives the sandboxes that it serves.
    pub(crate) async fn take_contexts(&mut self, template: Template) -> anyhow::Result<()> {
        let warm = self.tier == Tier::Jail && self.node.engine().facts().privileged;
        let node = if warm {
            let node = self.another_node().await?;
            let warmth = belljar_warmed::warmth(&template)?;
            node.warm_up(warmth, None).await.context("warm the template up")?;
            node
        } else {
            self.node.clone()
        };
        self.contexts = Some(Contexts { node, template, warm });
        Ok(())
    }

    /// Ends everything that is warm.
    pub(crate) async fn cool_down(&mut self) {
        if let Some(Contexts { node, warm: true, .. }) = self.contexts.take() {
            node.stop().await;
        }
    }

    pub(crate) fn has_contexts(&self) -> bool {
        self.contexts.is_some()
    }

    fn contexts(&self) -> anyhow::Result<&Contexts> {
        self.contexts.as_ref().context("there is no warm template")
    }

    /// The node that makes sandboxes with contexts.
    pub(crate) fn warm_node(&self) -> anyhow::Result<&Node> {
        self.contexts().map(|contexts| &contexts.node)
    }

    pub(crate) fn warm_template(&self) -> anyhow::Result<&Template> {
        self.contexts().map(|contexts| &contexts.template)
    }

    /// A sandbox of the warm template.
    pub(crate) async fn warm(&self, change: impl FnOnce(&mut Limits)) -> anyhow::Result<Sandbox> {
        let mut spec = self.warm_spec()?;
        change(&mut spec.limits);
        self.warm_node()?.create(&spec).await.context("make a sandbox")
    }

    /// What a sandbox of the warm template is, without changes.
    pub(crate) fn warm_spec(&self) -> anyhow::Result<Spec> {
        Ok(Spec { root: self.warm_template()?.root.clone(), ..self.spec() })
    }

    /// A Python context as the warm template has it.
    pub(crate) fn python(&self) -> anyhow::Result<ContextOptions> {
        belljar_warmed::python(&self.contexts()?.template)
    }

    /// Returns true if the engine keeps limits here, because no cgroup can.
    pub(crate) fn is_watched(&self) -> bool {
        self.tier.shares_kernel() && self.node.engine().enforcement() == Enforcement::Watch
    }

    /// What this may take here, if bare it may take `time`.
    pub(crate) fn within(&self, time: Duration) -> Duration {
        self.pace.within(time)
    }

    pub(crate) fn spec(&self) -> Spec {
        let mut spec = Spec::new(self.tier, self.template.root.clone());
        spec.limits.memory_bytes = 512 * MIB;
        spec.limits.disk_bytes = 128 * MIB;
        spec.limits.cpu_millis = 2000;
        spec.limits.wall = self.within(Duration::from_secs(10));
        spec
    }

    /// A sandbox with limits that no honest case runs into.
    pub(crate) async fn sandbox(&self) -> anyhow::Result<Sandbox> {
        self.limited(|_| {}).await
    }

    pub(crate) async fn limited(
        &self,
        change: impl FnOnce(&mut Limits),
    ) -> anyhow::Result<Sandbox> {
        let mut spec = self.spec();
        change(&mut spec.limits);
        self.node.create(&spec).await.context("make a sandbox")
    }
}
