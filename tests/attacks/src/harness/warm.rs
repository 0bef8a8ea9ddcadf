//! Sandboxes whose interpreters come from a zygote.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_domain::{End, EndReason, Limits, RootFs, Spec};
use belljar_node::{Context, ContextOptions, Node, Origin, PoolSize, Sandbox, Warmth};
use belljar_template::{Lease, Template};
use serde_json::Value;

use crate::harness::stage::{Ran, Stage};

/// How a sandbox is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Made {
    /// On demand, from the host's template, nothing warm about it.
    Plain,
    /// From the pool, with an interpreter that waited.
    Pooled,
    /// On demand, with an interpreter forked from the zygote.
    Forked,
    /// As a copy of another sandbox that was made so.
    Copied,
}

impl Made {
    /// Those that need the warm template.
    pub(crate) const WARM: [Self; 3] = [Self::Pooled, Self::Forked, Self::Copied];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Pooled => "pooled",
            Self::Forked => "forked",
            Self::Copied => "copied",
        }
    }
}

/// The template with a warm interpreter.
#[derive(Debug)]
pub(crate) struct Warm {
    template: Template,
    _lease: Lease,
}

/// How many sandboxes wait; always as many, so that descriptors can be counted.
const WAITING: usize = 3;

impl Warm {
    pub(crate) fn find() -> anyhow::Result<Self> {
        let template = belljar_warmed::template()?;
        let lease = template.lease()?;
        Ok(Self { template, _lease: lease })
    }

    pub(crate) fn root(&self) -> RootFs {
        self.template.root.clone()
    }

    pub(crate) fn warmth(&self) -> anyhow::Result<Warmth> {
        belljar_warmed::warmth(&self.template)
    }

    pub(crate) fn options(&self) -> anyhow::Result<ContextOptions> {
        belljar_warmed::python(&self.template)
    }

    /// Warms a node up for sandboxes that are made in this way.
    pub(crate) async fn up(&self, node: &Node, made: Made) -> anyhow::Result<()> {
        let size = PoolSize { least: WAITING, most: WAITING, ..PoolSize::default() };
        // Pools of acts that ask for one are their own.
        let pool = (made == Made::Pooled).then(|| (size, Limits::default()));
        node.warm_up(self.warmth()?, pool).await.context("cannot warm the template up")?;
        if made == Made::Pooled {
            filled(node).await?;
        }
        Ok(())
    }

    pub(crate) async fn sandbox(
        &self,
        node: &Node,
        made: Made,
        spec: &Spec,
    ) -> anyhow::Result<Sandbox> {
        let create = async || node.create(spec).await.context("cannot make a sandbox");
        match made {
            Made::Plain | Made::Forked => create().await,
            Made::Pooled => {
                filled(node).await?;
                create().await
            }
            Made::Copied => {
                let original = create().await?;
                let context = original.context(self.options()?).await?;
                let ran = context.execute("import numpy\nkept = numpy.arange(1000)", None).await;
                ensure!(ran.end.ok, "the original does not run: {}", ran.end.reason);
                let checkpoint = original.checkpoint().await.context("cannot checkpoint")?;
                let copy = node.fork(&checkpoint).await.context("cannot fork")?;
                original.destroy().await?;
                Ok(copy)
            }
        }
    }
}

/// Waits until the pool has what it wants.
async fn filled(node: &Node) -> anyhow::Result<()> {
    let begin = Instant::now();
    loop {
        let pools = node.pools();
        let (_, figures) = pools.first().context("there is no pool")?;
        if figures.waiting >= WAITING {
            return Ok(());
        }
        ensure!(begin.elapsed() < Duration::from_secs(30), "the pool is not filled: {figures:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl Stage {
    /// Waits until the pool, if there is one, makes nothing more: what is counted
    /// before that grows by itself.
    pub(crate) async fn at_rest(&self) -> anyhow::Result<()> {
        if self.made == Made::Pooled { filled(&self.node).await } else { Ok(()) }
    }

    pub(crate) fn warm(&self) -> anyhow::Result<&Arc<Warm>> {
        self.warm.as_ref().context("there is no warm template")
    }

    /// A sandbox of the warm template. A node without a pool makes one on
    /// demand instead of taking it from there.
    pub(crate) async fn warm_sandbox(
        &self,
        made: Made,
        tune: impl FnOnce(&mut Spec),
    ) -> anyhow::Result<Arc<Sandbox>> {
        let warm = self.warm()?;
        let mut spec = Spec { root: warm.root(), ..self.spec() };
        tune(&mut spec);
        self.keep(warm.sandbox(&self.node, made, &spec).await?)
    }

    /// The context that a copy brought along, or a new one.
    pub(crate) async fn python(&self, sandbox: &Sandbox) -> anyhow::Result<Context> {
        let context = match sandbox.contexts().into_iter().next() {
            Some(context) => context,
            None => sandbox.context(self.warm()?.options()?).await.context("no context")?,
        };
        let origin = context.facts().origin;
        ensure!(origin != Origin::Executed, "the interpreter was executed, not forked");
        Ok(context)
    }

    /// Runs a payload as a cell.
    pub(crate) async fn cell(
        &self,
        context: &Context,
        file: &str,
        args: &[impl AsRef<str>],
    ) -> anyhow::Result<Ran> {
        let source = std::fs::read_to_string(self.programs.path(file)?)?;
        let args: Vec<Value> =
            [file].into_iter().chain(args.iter().map(AsRef::as_ref)).map(Value::from).collect();
        let code = format!("import sys\nsys.argv = {}\n{source}", Value::from(args));
        self.code(context, &code).await
    }

    /// Runs a cell. An exception that nothing caught counts as an exit.
    pub(crate) async fn code(&self, context: &Context, code: &str) -> anyhow::Result<Ran> {
        let ran = context.execute(code, None).await;
        let mut stderr = ran.stderr;
        if let Some(error) = ran.error {
            stderr.extend(error.traceback.join("\n").into_bytes());
        }
        let reason = match ran.end.reason {
            EndReason::Done if !ran.end.ok => EndReason::Exit,
            other => other,
        };
        let mut ledger = self.ledger();
        ledger.output.extend_from_slice(&ran.stdout);
        ledger.output.extend_from_slice(&stderr);
        let exit_code = ran.end.alive.then_some(i32::from(!ran.end.ok));
        let end = End { reason, exit_code, signal: None, usage: ran.end.usage };
        Ok(Ran { stdout: ran.stdout, stderr, end })
    }
}
