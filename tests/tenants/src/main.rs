//! What one tenant may not do to another, or to the server, through its API.
//!
//! ```text
//! belljar-tenants [filter] [-j count] [--bless]
//! ```
//!
//! A real server listens on loopback, with two tenants and real sandboxes. Each
//! case is an attack of the class API and its control: the same request where it
//! is allowed must work, or the attack would prove nothing. Which routes there
//! are is read from the API's own list and from the E2B surface's source, so that
//! a new route is attacked from its first day. It needs root and a template.
//!
//! The attacks of the class OCI are those that come in by the API: what a tenant
//! may say about a container, and what happens when its runtime is no good.
//!
//! Requirements: P3

#![expect(clippy::print_stdout, reason = "its output is its product")]
#![expect(clippy::print_stderr, reason = "the whole error chain is printed once, here")]

mod cases;
mod client;
mod jobs;
mod models;
mod oracle;
mod peer;
mod planted;
mod platform;
mod routes;
mod small;
mod wire;
mod world;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_testkit::{CaseLog, CaseVerdict, Resident, Undecided, run_case};
use clap::Parser;

use crate::cases::Case;
use crate::oracle::Oracle;
use crate::planted::Planted;
use crate::world::World;

/// Attacks on the API, each with its control.
#[derive(Debug, Parser)]
#[command(name = "belljar-tenants", version)]
struct Args {
    /// Only cases whose id contains this, such as API-01.
    filter: Option<String>,
    /// The number of cases that run side by side, each in its own process.
    #[arg(short, value_name = "COUNT", default_value_t = 2)]
    jobs: usize,
    /// Runs the case with exactly this id, in this process.
    #[arg(long, value_name = "ID", hide = true, conflicts_with = "filter")]
    only: Option<String>,
    /// Write docs/authorization.md instead of comparing it.
    #[arg(long)]
    bless: bool,
}

/// No case takes longer; one that does hangs.
const LONGEST: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    belljar_gateway::hook();
    belljar_node::hook();
    let args = Args::parse();
    cases::authorization::BLESS.store(args.bless, std::sync::atomic::Ordering::Relaxed);
    match run(&args) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Answers how many cases failed.
fn run(args: &Args) -> anyhow::Result<usize> {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    if let Some(id) = &args.only {
        let case = cases::ALL.iter().find(|case| case.id == id).context("no case has this id")?;
        let planted = Arc::new(Planted::take()?);
        return runtime()?.block_on(run_one(case, &planted));
    }
    let is_meant = |case: &&Case| args.filter.as_ref().is_none_or(|part| case.id.contains(part));
    let cases: Vec<_> = cases::ALL.iter().filter(is_meant).collect();
    anyhow::ensure!(
        !cases.is_empty(),
        "no case has an id with this text; omit the filter to run all"
    );
    runtime()?.block_on(jobs::run(args, &cases))
}

async fn run_one(case: &Case, planted: &Arc<Planted>) -> anyhow::Result<usize> {
    let log = CaseLog::open("tenants")?;
    let oracle = Oracle::start()?;
    let seen = run_case(&log, case.id, tokio::time::sleep, async || {
        let begin = Instant::now();
        let seen = attempt(case, planted, &oracle).await;
        let took = begin.elapsed().as_secs_f64();
        match &seen {
            Ok(said) => println!("{} pass {took:5.1} s  {}: {said}", case.id, case.title),
            Err(error) => {
                println!("{} FAIL {took:5.1} s  {}\n    {error:#}", case.id, case.title);
            }
        }
        let verdict = verdict(&seen);
        (seen, verdict)
    });
    Ok(usize::from(seen.await?.is_err()))
}

async fn attempt(case: &Case, planted: &Arc<Planted>, oracle: &Oracle) -> anyhow::Result<String> {
    // One server each: a case may use up a quota, or take a key away.
    let world = World::start(case.quota, planted).await?;
    if case.warm {
        world.warm_up().await;
    }
    let mut resident = Resident::of_this();
    let seen = match tokio::time::timeout(LONGEST, (case.run)(&world)).await {
        Ok(seen) => seen,
        Err(_) => Err(Undecided(format!("not over after {LONGEST:?}")).into()),
    };
    let seen = match seen {
        Ok(said) => oracle::look_at(&mut resident).await.and(oracle.look()).map(|()| said),
        Err(error) => Err(error),
    };
    world.stop().await?;
    seen
}

/// An answer that a tenant should not have had is final. A server that did not answer, or
/// said that it could not, has shown nothing.
fn verdict(seen: &anyhow::Result<String>) -> CaseVerdict {
    let Err(error) = seen else { return CaseVerdict::Passed };
    let is_late = |cause: &(dyn std::error::Error + 'static)| {
        cause.is::<tokio::time::error::Elapsed>()
            || cause.is::<std::io::Error>()
            || cause.is::<hyper::Error>()
    };
    if Undecided::is_in(error) || error.chain().any(is_late) {
        CaseVerdict::Undecided(format!("{error:#}"))
    } else {
        CaseVerdict::Failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_silence_and_failures_of_the_server_are_undecided() {
        let breach = verdict(&Err(anyhow::anyhow!("200 instead of 404")));
        assert_eq!(breach, CaseVerdict::Failed);
        let broken: std::io::Result<String> = Err(std::io::ErrorKind::ConnectionReset.into());
        let broken = verdict(&broken.context("GET /v1/sandboxes"));
        assert!(matches!(broken, CaseVerdict::Undecided(_)), "{broken:?}");
        let late = verdict(&Err(Undecided("no row came".to_owned()).into()));
        assert_eq!(late, CaseVerdict::Undecided("no row came".to_owned()));
    }
}
