//! `belljar bench`: measures Belljar beside what it is built from.
//!
//! All contestants take turns within one run, so that a machine whose speed
//! drifts is unfair to nobody; what counts is the ratio.

mod density;
mod first_result;
mod fork;
mod gateway;
mod platform;
mod runs;
mod sessions;
mod start;
mod tiers;
mod tti;
mod turns;

mod bare;
mod machine;
mod plot;
mod report;
mod rivals;
mod stats;
mod warmed;

use crate::cli::{Bench, BenchKind};
use crate::config::Config;
use crate::output::Printer;

pub(crate) async fn run(options: &Bench, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    match &options.kind {
        BenchKind::Start(options) => start::run(options, config, printer).await,
        BenchKind::FirstResult(options) => {
            Box::pin(first_result::run(options, config, printer)).await
        }
        BenchKind::Density(options) => density::run(options, config, printer).await,
        BenchKind::Sessions(options) => sessions::run(options, config, printer).await,
        BenchKind::Tiers(options) => Box::pin(tiers::run(options, config, printer)).await,
        BenchKind::Tti(options) => tti::run(options, config, printer).await,
        BenchKind::Fork(options) => Box::pin(fork::run(options, config, printer)).await,
        BenchKind::Gateway(options) => gateway::run(options, printer),
        BenchKind::Platform(options) => Box::pin(platform::run(options, config, printer)).await,
        BenchKind::Runs(options) => Box::pin(runs::run(options, config, printer)).await,
        BenchKind::Turns(options) => Box::pin(turns::run(options, config, printer)).await,
    }
}
