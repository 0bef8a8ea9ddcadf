//! A node with the warm interpreter of a template, for benchmarks.

use std::path::Path;
use std::time::{Duration, Instant};

use belljar_domain::{Limits, Spec, Tier};
use belljar_node::{Command, ContextOptions, Language, Node, PoolFigures, PoolSize};
use belljar_template::{Lease, Template};

use crate::config::Config;
use crate::output::Printer;
use crate::templates::find_template;
use crate::warmth;

pub(super) struct Warmed {
    pub(super) node: Node,
    pub(super) spec: Spec,
    pub(super) template: Template,
    /// How long the interpreter took to warm up.
    pub(super) warm_up: Duration,
    _lease: Lease,
}

impl Warmed {
    pub(super) async fn start(
        name: &str,
        pool: Option<PoolSize>,
        config: &Config,
        printer: &Printer,
    ) -> anyhow::Result<Self> {
        let template = find_template(name, Tier::Jail, config)?;
        let lease = template.lease()?;
        let node = Node::start(config.state.as_deref()).await?;
        printer.note("warming up the template's interpreter");
        let limits = template.limits.over(Limits::default());
        let start = Instant::now();
        node.warm_up(warmth::warmth(&template)?, pool.map(|size| (size, limits.clone()))).await?;
        let warm_up = start.elapsed();
        let spec = Spec { limits, ..Spec::new(Tier::Jail, template.root.clone()) };
        Ok(Self { node, spec, template, warm_up, _lease: lease })
    }

    pub(super) fn python(&self) -> ContextOptions {
        ContextOptions {
            language: Language::Python,
            interpreter: self.interpreter().to_owned(),
            cwd: None,
            env: self.template.env.clone(),
        }
    }

    pub(super) fn interpreter(&self) -> &Path {
        // `start` has made sure that there is one.
        &self.template.languages["python"]
    }

    /// The template's Python as a plain call.
    pub(super) fn script(&self, code: &str, arguments: &[&str]) -> Command {
        let interpreter = self.interpreter().as_os_str().as_encoded_bytes();
        let mut argv = vec![interpreter.to_vec(), b"-c".to_vec(), code.into()];
        argv.extend(arguments.iter().map(|argument| argument.as_bytes().to_vec()));
        let env = self.template.env.iter();
        let env = env.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        Command { env: env.collect(), wall: Some(DAY), ..Command::new(argv) }
    }

    pub(super) fn pool(&self) -> Option<PoolFigures> {
        self.node.pools().first().map(|(_, figures)| *figures)
    }

    /// Waits until the pool holds what it wants to hold, for a while at most.
    pub(super) async fn filled(&self) {
        const LONGEST: Duration = Duration::from_secs(5);
        let start = Instant::now();
        while self.pool().is_some_and(|pool| pool.waiting < pool.wanted)
            && start.elapsed() < LONGEST
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

const DAY: Duration = Duration::from_secs(24 * 3600);
