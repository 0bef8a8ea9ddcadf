//! `belljar bench first-result`: create, first answer of a warm Python.

use std::time::{Duration, Instant};

use super::stats::Summary;
use super::warmed::Warmed;
use crate::cli::BenchFirstResult;
use crate::config::Config;
use crate::output::Printer;

pub(super) async fn run(
    options: &BenchFirstResult,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let warmed = Warmed::start(&options.template, options.pool.then(|| belljar_node::PoolSize { least: 8, most: 64, rate: 100 }), config, printer).await?;
    let mut times = Vec::new();
    let mut parts: [Vec<Duration>; 4] = Default::default();
    for _ in 0..options.count {
        if options.pool { tokio::time::sleep(Duration::from_millis(60)).await; }
        let start = Instant::now();
        let sandbox = warmed.node.create(&warmed.spec).await?;
        let created = start.elapsed();
        let context = sandbox.context(warmed.python()).await?;
        let forked = start.elapsed();
        let ran = context.execute("print(1)", None).await;
        let answered = start.elapsed();
        anyhow::ensure!(ran.text() == "1\n", "the context answered {ran:?}");
        sandbox.destroy().await?;
        let destroyed = start.elapsed();
        times.push(answered);
        for (part, took) in parts.iter_mut().zip([
            created,
            forked - created,
            answered - forked,
            destroyed - answered,
        ]) {
            part.push(took);
        }
    }
    printer.data(format!("{:?}\n", Summary::of(&times)))?;
    for (name, part) in ["create", "fork", "print", "destroy"].iter().zip(&parts) {
        printer.data(format!("{name:<8} {:?}\n", Summary::of(part)))?;
    }
    drop(warmed.node);
    Ok(0)
}
