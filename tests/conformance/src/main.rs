//! What every tier must do, tested from outside and written once.
//!
//! ```text
//! belljar-conformance [--tier NAME,…|all] [--subset quick] [--jobs N] [--table|--check] [filter]
//! belljar-conformance --churn 1000 --parallel 8
//! belljar-conformance --kill-test 50 [--seed 1]
//! belljar-conformance --fleet 1800 --parallel 4 [--tier NAME,…] [--seed 1]
//! belljar-conformance --transfer [--transfer-size 64] [--least-speed 0.5]
//! ```
//!
//! Run it as root: that is how a node runs. A case names the features that it
//! needs; a tier that lacks one is reported with the reason, never skipped in
//! silence. Requirement ids (S1, S4, …) are those of the requirements list.
#![expect(clippy::print_stdout, reason = "its output is its product")]
#![expect(clippy::print_stderr, reason = "the whole error chain is printed once, here")]

mod args;
mod cases;
mod churn;
mod features;
mod fixture;
mod fleet;
mod kills;
mod pace;
mod random;
mod residue;
mod results;
mod served;
mod shards;
mod subset;
mod suite;
mod table;
mod transfer;
mod verbs;

use std::process::ExitCode;
use std::time::Instant;

use belljar_testkit::{CaseLog, CaseOutcome};
use clap::Parser as _;

use crate::args::{Args, Mode};

/// The exit status that says that the host cannot run a tier.
const UNSUPPORTED: u8 = 3;

/// Whether everything that was asked for went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
}

fn main() -> ExitCode {
    belljar_node::hook();
    let args = Args::parse();
    match run(&args) {
        Ok(Verdict::Passed) => ExitCode::SUCCESS,
        Ok(Verdict::Failed) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(if suite::is_unsupported(&error) { UNSUPPORTED } else { 2 })
        }
    }
}

fn run(args: &Args) -> anyhow::Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mode, started) = (args.mode(), Instant::now());
    let ran = runtime.block_on(async {
        match &mode {
            Mode::Suite => suite::run(args).await,
            Mode::Churn(count) => churn::run(args, *count).await,
            Mode::KillTest(count) => kills::run(args, *count).await,
            Mode::Fleet(length) => fleet::run(args, *length).await,
            Mode::Transfer => transfer::run(args).await,
            Mode::Victim(store) => kills::be_victim(args, store).await,
            Mode::Sweeper => kills::be_sweeper(args).await,
        }
    });
    if let Some(case) = mode.single_case() {
        let outcome = match ran {
            Ok(Verdict::Passed) => CaseOutcome::Passed,
            Ok(Verdict::Failed) | Err(_) => CaseOutcome::Failed,
        };
        let log = CaseLog::open(format!("conformance/{}", args.first()))?;
        log.ended(case, started.elapsed(), outcome)?;
    }
    ran
}
