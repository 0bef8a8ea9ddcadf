//! How two sessions are related.

use anyhow::{Context as _, ensure};
use belljar_domain::{Limits, Spec, Tier};
use belljar_node::{ContextOptions, Node, Origin, PoolSize, Sandbox, Weakened};
use belljar_template::Template;

use crate::session::Session;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Relation {
    /// Made one by one, interpreters executed, alive together.
    Strangers,
    /// The same, one after the other.
    Later,
    /// Made on demand, interpreters of one zygote, alive together.
    Siblings,
    /// From the pool, interpreters of one zygote, alive together.
    Pooled,
    /// One gets the slot and user ids that the other left.
    Reuse,
    /// Copies of one sandbox, and what they are copies of.
    Forks,
}

impl Relation {
    pub(crate) const ALL: [Self; 6] =
        [Self::Strangers, Self::Later, Self::Siblings, Self::Pooled, Self::Reuse, Self::Forks];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Strangers => "strangers",
            Self::Later => "later",
            Self::Siblings => "siblings",
            Self::Pooled => "pooled",
            Self::Reuse => "reuse",
            Self::Forks => "forks",
        }
    }

    /// Whether the first session is gone before the second looks.
    pub(crate) fn is_after(self) -> bool {
        matches!(self, Self::Later | Self::Reuse)
    }

    /// Whether the interpreters come from one zygote.
    pub(crate) fn is_related(self) -> bool {
        !matches!(self, Self::Strangers | Self::Later)
    }
}

/// Makes sessions of each kind.
#[derive(Debug)]
pub(crate) struct Maker {
    pub(crate) node: Node,
    spec: Spec,
    options: ContextOptions,
}

/// Sandboxes that are made at most until one has the wanted user ids.
const TRIES: usize = 80;

impl Maker {
    pub(crate) async fn start(template: &Template) -> anyhow::Result<Self> {
        let node = Node::start(None).await?;
        let limits = template.limits.clone().over(Limits::default());
        let spec = Spec { limits, ..Spec::new(Tier::Jail, template.root.clone()) };
        Ok(Self { node, spec, options: belljar_warmed::python(template)? })
    }

    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Warms the template up, with a pool or without.
    pub(crate) async fn warm_up(&self, template: &Template, pooled: bool) -> anyhow::Result<()> {
        let size = PoolSize { least: 4, ..PoolSize::default() };
        let pool = pooled.then(|| (size, self.spec.limits.clone()));
        self.node.warm_up(belljar_warmed::warmth(template)?, pool).await?;
        Ok(())
    }

    /// The first session of a pair.
    pub(crate) async fn first(&self, relation: Relation) -> anyhow::Result<Session> {
        let sandbox = match relation {
            Relation::Strangers | Relation::Later => self.stranger().await?,
            Relation::Siblings | Relation::Forks => self.node.create(&self.spec).await?,
            Relation::Pooled | Relation::Reuse => self.pooled().await?,
        };
        let session = Session::start(sandbox, &self.options).await?;
        let origin = session.context.facts().origin;
        let expected = if relation.is_related() { Origin::Forked } else { Origin::Executed };
        ensure!(origin == expected, "the interpreter is {}", origin.as_str());
        Ok(session)
    }

    /// The second one. `left` are the user ids that the first one had, if it is
    /// gone.
    pub(crate) async fn second(
        &self,
        relation: Relation,
        left: Option<u32>,
    ) -> anyhow::Result<Session> {
        let (Relation::Later | Relation::Reuse, Some(left)) = (relation, left) else {
            return self.first(relation).await;
        };
        let mut others = Vec::new();
        for _ in 0..TRIES {
            let sandbox = match relation {
                Relation::Reuse => self.node.create(&self.spec).await?,
                _ => self.stranger().await?,
            };
            if user_ids(sandbox.pid()) == Some(left) {
                for other in others {
                    Sandbox::destroy(other).await?;
                }
                return Session::start(sandbox, &self.options).await;
            }
            others.push(sandbox);
        }
        anyhow::bail!("of {TRIES} sandboxes none got user ids {left} again")
    }

    async fn stranger(&self) -> anyhow::Result<Sandbox> {
        Ok(self.node.create_weakened(&self.spec, &Weakened::default()).await?)
    }

    /// A sandbox that waited; only those count here.
    async fn pooled(&self) -> anyhow::Result<Sandbox> {
        let figures = || self.node.pools().first().map(|(_, figures)| *figures);
        loop {
            let before = figures().context("there is no pool")?;
            if before.waiting == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                continue;
            }
            let sandbox = self.node.create(&self.spec).await?;
            if figures().is_some_and(|after| after.hits > before.hits) {
                return Ok(sandbox);
            }
            sandbox.destroy().await?;
        }
    }
}

/// The first host user id of the sandbox whose guest is `pid`.
pub(crate) fn user_ids(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let uid: u32 = uid.split_ascii_whitespace().next()?.parse().ok()?;
    Some(uid & !0xffff)
}
