//! Looks for one session from within another.
//!
//! ```text
//! belljar-bleed [--table] [--relation NAME] [filter]
//! ```
//!
//! One session leaves canaries wherever it can: files, IPC, sockets, processes,
//! state of its interpreter, memory. Another looks for them. They are strangers,
//! siblings of one zygote, successors in what the other left, or copies of one
//! another. Nothing may be found, and no two sessions may draw the same random
//! numbers. Each probe also runs where it must find something: one that cannot
//! fail proves nothing.
//!
//! It needs root and the template `python-data`. Code only ever runs inside
//! sandboxes that this program made.
//!
//! Requirements: S3, P3
#![expect(clippy::print_stdout, reason = "its output is its product")]
#![expect(clippy::print_stderr, reason = "the whole error chain is printed once, here")]

mod canary;
mod claims;
mod lower;
mod probe;
mod relation;
mod report;
mod seeds;
mod session;
mod suite;

use std::process::ExitCode;

use clap::Parser as _;

use crate::canary::Engine;

#[derive(Debug, clap::Parser)]
#[command(name = "belljar-bleed", about = "Looks for one session from within another")]
struct Args {
    /// Run only probes whose name contains this
    filter: Option<String>,
    /// Run only this relation of sessions
    #[arg(long)]
    relation: Option<relation::Relation>,
    /// Print a Markdown table of probes and relations at the end
    #[arg(long)]
    table: bool,
    /// Succeed where the template is not built; for a desk, not for CI
    #[arg(long)]
    skip_without_template: bool,
}

fn main() -> ExitCode {
    belljar_node::hook();
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> anyhow::Result<bool> {
    let Some(engine) = Engine::find() else { return Err(canary::start_again()) };
    let args = Args::parse_from(engine.arguments());
    let template = match belljar_warmed::template() {
        Ok(template) => template,
        Err(error) if args.skip_without_template => {
            println!("skipped, because no session can be made: {error:#}");
            return Ok(true);
        }
        Err(error) => return Err(error),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let lines = runtime.block_on(suite::run(&args, &template, &engine))?;
    Ok(report::print(&lines, args.table))
}
