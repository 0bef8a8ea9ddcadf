//! `belljar bench`: measures Belljar beside what it is built from.
//!
//! All contestants take turns within one run, so that a machine whose speed
//! drifts is unfair to nobody; what counts is the ratio.

mod first_result;
mod rivals;
mod start;
mod stats;
mod warmed;

use crate::cli::{Bench, BenchKind};
use crate::config::Config;
use crate::output::Printer;

pub(crate) async fn run(options: &Bench, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    match &options.kind {
        BenchKind::Start(start) => start::run(start, config, printer).await,
        BenchKind::FirstResult(options) => first_result::run(options, config, printer).await,
    }
}
