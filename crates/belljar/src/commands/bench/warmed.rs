//! A node with the warm interpreter of a template, for benchmarks.

use anyhow::Context as _;
use belljar_model::{Limits, Spec, Tier};
use belljar_node::{ContextOptions, Language, Node, PoolSize, Warmth};
use belljar_template::{Lease, Template};

use crate::config::Config;
use crate::output::Printer;
use crate::session::find_template;

pub(super) struct Warmed {
    pub(super) node: Node,
    pub(super) spec: Spec,
    pub(super) template: Template,
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
        printer.note("warming the template's interpreter up");
        let limits = template.limits.over(Limits::default());
        node.warm_up(warmth(&template)?, pool.map(|size| (size, limits.clone()))).await?;
        let spec = Spec { limits, ..Spec::new(Tier::Jail, template.root.clone()) };
        Ok(Self { node, spec, template, _lease: lease })
    }

    pub(super) fn python(&self) -> ContextOptions {
        ContextOptions {
            language: Language::Python,
            interpreter: self.template.languages["python"].clone(),
            cwd: None,
            env: self.template.env.clone(),
        }
    }
}

/// What the template says about its warm interpreter.
fn warmth(template: &Template) -> anyhow::Result<Warmth> {
    let interpreter = template.languages.get("python").context("the template has no Python")?;
    Ok(Warmth {
        root: template.root.clone(),
        interpreter: interpreter.clone(),
        code: template.warm.clone().unwrap_or_default(),
        env: template.env.clone(),
    })
}
