//! Whether interpreters can be forked into sandboxes, judged by doing it.

use std::time::{Duration, Instant};

use belljar_domain::{Limits, Spec, Tier};
use belljar_node::{Language, Node, PoolSize};
use belljar_template::{Store, Template};

use super::{Finding, State, milliseconds};
use crate::config::Config;
use crate::warmth;

/// One finding for each template that is built and has code to warm up with.
pub(super) async fn findings(config: &Config) -> Vec<Finding> {
    // Looking must not make it.
    if !config.store.join("templates").is_dir() {
        return nothing();
    }
    let Ok(store) = Store::open(&config.store) else { return Vec::new() };
    let names = store.list().unwrap_or_default();
    let mut findings = Vec::new();
    for manifest in names {
        let Ok(template) = store.resolve(&manifest.name) else { continue };
        if template.warm.is_none() || findings.iter().any(|f: &Finding| f.name == template.name) {
            continue;
        }
        let name = template.name.clone();
        findings.push(match attempt(&template, config).await {
            Ok(detail) => Finding::new(name, State::Ok, detail),
            Err(error) => Finding::new(name, State::Warn, format!("{error:#}"))
                .fix("contexts start cold instead, which is slower"),
        });
    }
    if findings.is_empty() { nothing() } else { findings }
}

fn nothing() -> Vec<Finding> {
    let detail = "no template with warm-up code is built";
    vec![Finding::new("zygote", State::Info, detail).fix("belljar template build python-data")]
}

/// Warms up, forks on demand and from a pool.
async fn attempt(template: &Template, config: &Config) -> anyhow::Result<String> {
    let _lease = template.lease()?;
    let node = Node::start(config.state.as_deref()).await?;
    let tried = trial(template, &node).await;
    node.stop().await;
    tried
}

async fn trial(template: &Template, node: &Node) -> anyhow::Result<String> {
    let limits = template.limits.over(Limits::default());
    let size = PoolSize { least: 1, most: 1, rate: 50 };
    let start = Instant::now();
    node.warm_up(warmth::warmth(template)?, Some((size, limits.clone()))).await?;
    let warmed = start.elapsed();
    let spec = Spec { limits, ..Spec::new(Tier::Jail, template.root.clone()) };
    // The pool is still empty, so this one is made on demand.
    let cold = answer(node, &spec, template).await?;
    let start = Instant::now();
    while node.pools().iter().all(|(_, pool)| pool.waiting == 0)
        && start.elapsed() < Duration::from_secs(5)
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let pooled = answer(node, &spec, template).await?;
    let pools = node.pools();
    let (hits, misses) = pools.first().map_or((0, 0), |(_, pool)| (pool.hits, pool.misses));
    Ok(format!(
        "warm after {}; first result in {} on demand, {} from the pool ({hits} hit, {misses} \
         missed)",
        milliseconds(warmed),
        milliseconds(cold),
        milliseconds(pooled),
    ))
}

async fn answer(node: &Node, spec: &Spec, template: &Template) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let sandbox = node.create(spec).await?;
    let context = sandbox.context(warmth::context(template, Language::Python)?).await?;
    let ran = context.execute("print(1)", None).await;
    let took = start.elapsed();
    let origin = context.facts().origin;
    sandbox.destroy().await?;
    anyhow::ensure!(ran.text() == "1\n", "the first result was {:?}", ran.text());
    anyhow::ensure!(origin == belljar_node::Origin::Forked, "the interpreter was not forked");
    Ok(took)
}
