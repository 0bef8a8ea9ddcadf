//! What the platform adds to a server by itself, taking turns with it.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde::Serialize;

use super::super::stats::Summary;
use super::client::Client;
use super::rig::Rig;
use crate::cli::BenchPlatform;
use crate::config::Config;
use crate::output::Printer;

#[derive(Debug, Serialize)]
pub(super) struct Overhead {
    pub(super) platform: Option<Summary>,
    pub(super) serve: Option<Summary>,
    pub(super) platform_create: Option<Summary>,
    pub(super) serve_create: Option<Summary>,
    /// Of the medians.
    pub(super) added_ms: Option<f64>,
    /// Interpreters that were not forked from a warm one, on either side.
    pub(super) cold: usize,
}

/// One sandbox, to its first word.
#[derive(Debug, Clone, Copy)]
struct Timing {
    create: Duration,
    first_result: Duration,
    is_cold: bool,
}

const LIFE: Duration = Duration::from_secs(60);
const FIRST: u32 = 5;
/// Between two turns: whatever ends has ended, and what waits is filled up.
const PAUSE: Duration = Duration::from_millis(40);

pub(super) async fn run(
    rig: &mut Rig,
    options: &BenchPlatform,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<Overhead> {
    let rounds = if options.quick { 20 } else { options.rounds };
    let (address, key) = rig.serve(options.pool, config).await?;
    let sides = [rig.tenant("overhead").await?, Client::new(address, key)];
    for side in &sides {
        for _ in 0..FIRST {
            first_word(side, &options.template).await?;
        }
    }
    printer.note(format_args!("{rounds} rounds, the platform and `serve` in turn"));
    let mut all: [Vec<Timing>; 2] = Default::default();
    for round in 0..rounds {
        // Whoever begins is not always the same.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for side in order {
            tokio::time::sleep(PAUSE).await;
            all[side].push(first_word(&sides[side], &options.template).await?);
        }
    }
    rig.look()?;
    let summary = |times: &[Timing], pick: fn(&Timing) -> Duration| {
        Summary::of(&times.iter().map(pick).collect::<Vec<_>>())
    };
    let first = |times: &[Timing]| summary(times, |timing| timing.first_result);
    let create = |times: &[Timing]| summary(times, |timing| timing.create);
    let (platform, serve) = (first(&all[0]), first(&all[1]));
    Ok(Overhead {
        platform,
        serve,
        platform_create: create(&all[0]),
        serve_create: create(&all[1]),
        added_ms: platform.zip(serve).map(|(platform, serve)| platform.p50_ms - serve.p50_ms),
        cold: all.iter().flatten().filter(|timing| timing.is_cold).count(),
    })
}

async fn first_word(client: &Client, template: &str) -> anyhow::Result<Timing> {
    let begin = Instant::now();
    let id = client.create(template, LIFE).await?;
    let create = begin.elapsed();
    let ran = client.cell(&id, "print(1)").await?;
    let first_result = begin.elapsed();
    ensure!(ran.stdout == "1\n", "it said {:?}", ran.stdout);
    let is_cold = ran.end.origin.as_deref() == Some("executed");
    client.delete(&id).await?;
    Ok(Timing { create, first_result, is_cold })
}
