//! Escape attempts against the jail and the stronger tiers.
//!
//! Each attack runs a hostile payload in a sandbox and must be contained. Then
//! the same attack runs once more with the defence that stopped it switched
//! off, and must succeed: a test that cannot fail proves nothing. After every
//! run an oracle looks at the host for anything that was touched or left.
//!
//! Payloads only ever run inside sandboxes that this program made. It needs
//! root, gcc and python3.

#![expect(clippy::print_stdout, reason = "the report is this program's output")]

mod attack;
mod catalogue;
mod harness;
mod lane;
mod plan;
mod report;
mod suite;

use std::path::PathBuf;
use std::process::ExitCode;

use belljar_domain::Tier;
use clap::Parser;

use crate::harness::launch::{self, Planted};
use crate::harness::programs::Programs;
use crate::harness::warm::Made;

/// Runs escape attempts, each with a control run that must succeed.
#[derive(Debug, Parser)]
#[command(name = "belljar-attacks", version)]
struct Options {
    /// Ids (KRN-04) or classes (KRN) to run; all of them when none is given.
    filters: Vec<String>,
    /// Lists the attacks instead of running them.
    #[arg(long)]
    list: bool,
    /// Runs the attacks without their control runs.
    #[arg(long)]
    no_control: bool,
    /// Prints what every payload answered.
    #[arg(long, short)]
    verbose: bool,
    /// Rewrites the golden files from what is seen.
    #[arg(long)]
    bless: bool,
    /// Runs as many attacks side by side; those that need the host for themselves run alone.
    #[arg(short, long, value_name = "COUNT", default_value_t = 2)]
    jobs: usize,
    /// Does the runs whose numbers come on standard input
    #[arg(long, hide = true)]
    lane: bool,
    /// What stands around the code; what cannot be staged there says why.
    #[arg(long, value_name = "TIER", default_value = "jail")]
    tier: Tier,
    /// How sandboxes are made. Those that are not plain come from a warm
    /// template, and no control runs: nothing of them can be switched off.
    #[arg(long, value_name = "HOW", default_value = "plain")]
    stage: Made,
    /// Leaves out what needs the warm template where it is not built; for a
    /// desk, not for CI.
    #[arg(long)]
    skip_without_template: bool,
    /// Also writes the results to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    belljar_node::hook();
    belljar_gateway::hook();
    let options = Options::parse();
    let mut attacks = catalogue::select(&options.filters)?;
    if options.stage != Made::Plain {
        // Made in their own way already.
        attacks.retain(|attack| !attack.is_warm());
    }
    anyhow::ensure!(
        options.stage == Made::Plain || options.tier == Tier::Jail,
        "only the jail has warm sandboxes"
    );
    if options.list {
        for attack in &attacks {
            println!("{:<8} P{} {}", attack.id, attack.priority, attack.title);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let programs = Programs::compile()?;
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    if options.lane {
        let Some(planted) = Planted::find() else {
            return Err(launch::again_with_secrets(&programs));
        };
        runtime()?.block_on(lane::serve(&options, &attacks, programs, planted))?;
        return Ok(ExitCode::SUCCESS);
    }
    let results = runtime()?.block_on(lane::run_all(&options, &attacks))?;
    let passed = report::print(&results, options.verbose);
    if let Some(file) = &options.json {
        std::fs::write(file, report::json(&results).to_string())?;
    }
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
