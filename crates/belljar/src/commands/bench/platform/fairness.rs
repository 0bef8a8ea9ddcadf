//! Two tenants: one creates one at a time, the other as many as it can.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::JoinSet;

use super::super::stats::Summary;
use super::client::Client;
use super::rig::Rig;
use crate::cli::BenchPlatform;
use crate::output::Printer;

#[derive(Debug, Serialize)]
pub(super) struct Fairness {
    pub(super) in_flight: u32,
    /// The quiet one's creates.
    pub(super) alone: Option<Summary>,
    pub(super) beside: Option<Summary>,
    /// Of the p99s.
    pub(super) ratio: Option<f64>,
    pub(super) flooded_per_second: f64,
    /// That the flood was refused.
    pub(super) refused: u64,
}

#[derive(Debug, Default)]
struct Flood {
    stop: AtomicBool,
    made: AtomicU64,
    refused: AtomicU64,
}

const LIFE: Duration = Duration::from_secs(60);
const FIRST: u32 = 5;
/// Alone and beside take turns.
const TURNS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(20);
/// Until a flood has filled every line.
const RISE: Duration = Duration::from_secs(2);

pub(super) async fn run(
    rig: &mut Rig,
    options: &BenchPlatform,
    printer: &Printer,
) -> anyhow::Result<Fairness> {
    let (rounds, turns) = if options.quick { (30, 1) } else { (options.rounds, TURNS) };
    let (quiet, loud) = (rig.tenant("quiet").await?, rig.tenant("loud").await?);
    one_at_a_time(&quiet, &options.template, FIRST).await?;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let (mut made, mut refused, mut flooded) = (0, 0, Duration::ZERO);
    for turn in 0..turns {
        printer.note(format_args!("alone, then beside {} at once ({turn})", options.flood));
        alone.extend(one_at_a_time(&quiet, &options.template, rounds / turns).await?);
        let flood = Arc::new(Flood::default());
        let began = Instant::now();
        let mut running = JoinSet::new();
        for _ in 0..options.flood {
            running.spawn(pour(loud.clone(), options.template.clone(), flood.clone()));
        }
        tokio::time::sleep(RISE).await;
        let times = one_at_a_time(&quiet, &options.template, rounds / turns).await;
        flood.stop.store(true, Ordering::Relaxed);
        flooded += began.elapsed();
        while running.join_next().await.is_some() {}
        beside.extend(times?);
        made += flood.made.load(Ordering::Relaxed);
        refused += flood.refused.load(Ordering::Relaxed);
        tokio::time::sleep(RISE).await;
    }
    rig.look()?;
    let (alone, beside) = (Summary::of(&alone), Summary::of(&beside));
    Ok(Fairness {
        in_flight: options.flood,
        alone,
        beside,
        ratio: alone.zip(beside).map(|(alone, beside)| beside.p99_ms / alone.p99_ms),
        flooded_per_second: made as f64 / flooded.as_secs_f64(),
        refused,
    })
}

async fn one_at_a_time(
    client: &Client,
    template: &str,
    count: u32,
) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..count {
        let begin = Instant::now();
        let id = client.create(template, LIFE).await?;
        times.push(begin.elapsed());
        client.delete(&id).await?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(times)
}

/// Creates and deletes without a pause.
async fn pour(client: Client, template: String, flood: Arc<Flood>) {
    while !flood.stop.load(Ordering::Relaxed) {
        match client.create(&template, LIFE).await {
            Ok(id) => {
                flood.made.fetch_add(1, Ordering::Relaxed);
                // What is left ends by its deadline.
                let _ = client.delete(&id).await;
            }
            Err(_) => {
                flood.refused.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
