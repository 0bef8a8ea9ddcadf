//! Breaks one part of the platform at a time, and looks whether it keeps its
//! promises.
//!
//! ```text
//! belljar-faults [filter] [--control] [--list] [--table] [--random SECONDS --seed N]
//! ```
//!
//! A fault is a function: it starts what it needs, breaks something, and mends it.
//! Then everything that can be known is read (what clients were told, the whole
//! database, every host's cgroups and processes) and the invariants that the fault
//! lists are judged. Where a defence can be left out, `--control` does that, and
//! the violation must show. It needs root, PostgreSQL, `nats-server` and a
//! template; what a killed run left is removed by the next.

#![expect(clippy::print_stdout, reason = "its output is its product")]
#![expect(clippy::print_stderr, reason = "the whole error chain is printed once, here")]

mod books;
mod case;
mod client;
mod evidence;
mod faults;
mod invariants;
mod load;
mod random;
mod rig;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Parser;

use crate::case::Case;
use crate::faults::{ALL, Fault};
use crate::invariants::{planted, violations};
use crate::rig::Rig;

/// Faults, and what must hold after each.
#[derive(Debug, Parser)]
#[command(name = "belljar-faults", version)]
struct Args {
    /// Only faults whose id contains this, such as F-37.
    filter: Option<String>,
    /// Without the defence: each must show a violation.
    #[arg(long)]
    control: bool,
    /// Show the table and do nothing.
    #[arg(long)]
    list: bool,
    /// Write docs/faults.md.
    #[arg(long)]
    table: bool,
    /// Break things at random, under load, for so many seconds.
    #[arg(long, value_name = "SECONDS")]
    random: Option<u64>,
    /// What the random ones follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The executable to test, built with the feature `faults`.
    #[arg(long, value_name = "FILE")]
    belljar: Option<PathBuf>,
}

/// No fault takes longer; one that does hangs.
const LONGEST: Duration = Duration::from_secs(240);

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        print!("{}", table::page());
        return ExitCode::SUCCESS;
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let ran = match runtime {
        Ok(runtime) => runtime.block_on(async {
            tokio::select! {
                ran = run(&args) => ran,
                // What was made is undone on the way out.
                _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
            }
        }),
        Err(error) => Err(error.into()),
    };
    match ran {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Answers how many failed.
async fn run(args: &Args) -> anyhow::Result<usize> {
    if args.table {
        std::fs::write(table::path(), table::page())?;
        return Ok(0);
    }
    ensure!(rustix::process::geteuid().is_root(), "this needs root");
    for left in rig::record::sweep() {
        println!("left by an earlier run: {left}");
    }
    let planted = planted::check()?;
    println!("{planted} planted violations were seen");
    let belljar = executable(args)?;
    if let Some(seconds) = args.random {
        return Box::pin(random::run(&belljar, seconds, args.seed)).await;
    }
    let wanted = |fault: &&Fault| {
        let named = args.filter.as_deref().is_none_or(|filter| fault.id.contains(filter));
        named && (!args.control || fault.control.is_some())
    };
    let (mut passed, mut failed) = (0, Vec::new());
    for fault in ALL.iter().filter(wanted) {
        let begin = Instant::now();
        let seen = Box::pin(one(fault, args.control, &belljar)).await;
        let took = begin.elapsed().as_secs_f64();
        match seen {
            Ok(said) => {
                passed += 1;
                println!("{:8} pass {took:5.1} s  {}: {said}", fault.id, fault.title);
            }
            Err(error) => {
                failed.push(fault.id);
                println!("{:8} FAIL {took:5.1} s  {}\n    {error:#}", fault.id, fault.title);
            }
        }
    }
    ensure!(passed + failed.len() > 0, "no fault has such an id");
    println!("{passed} passed, {} failed {failed:?}", failed.len());
    Ok(failed.len())
}

/// Tries one, judges it, and leaves nothing.
async fn one(fault: &Fault, is_control: bool, belljar: &Path) -> anyhow::Result<String> {
    let rig = Rig::new(belljar)?;
    let mut case = Case::new(rig.clone());
    let run = if is_control { fault.control.context("it has no control")? } else { fault.run };
    let ran = match tokio::time::timeout(LONGEST, run(&mut case)).await {
        Ok(ran) => ran,
        Err(_) => Err(anyhow::anyhow!("not over after {LONGEST:?}")),
    };
    let patience = if is_control { Duration::from_secs(3) } else { case.patience };
    let judged = match &ran {
        Ok(_) => judge(&case, fault, patience).await,
        Err(_) => Ok(Vec::new()),
    };
    if (ran.is_err() || judged.as_ref().is_ok_and(|found| !found.is_empty())) && !is_control {
        keep_logs(&rig, fault.id);
    }
    drop(case);
    let left = rig.clear();
    ensure!(left.is_empty(), "the rig left {left:?}");
    let (said, found) = (ran?, judged?);
    if is_control {
        ensure!(!found.is_empty(), "nothing went wrong without the defence: {said}");
        return Ok(format!("as expected, {}", found[0]));
    }
    ensure!(found.is_empty(), "{said}\n    {}", found.join("\n    "));
    Ok(said)
}

/// What is wrong and stays so.
async fn judge(case: &Case, fault: &Fault, patience: Duration) -> anyhow::Result<Vec<String>> {
    let begin = Instant::now();
    loop {
        let found = match case.collect().await {
            Ok(evidence) => violations(fault.invariants, &evidence),
            Err(error) if begin.elapsed() > patience => return Err(error),
            Err(error) => vec![format!("{error:#}")],
        };
        if found.is_empty() || begin.elapsed() > patience {
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// What servers said, for whoever looks into a failure.
fn keep_logs(rig: &Rig, id: &str) {
    let to = std::env::temp_dir().join(format!("belljar-faults-{}", id.replace('/', "-")));
    let _ = std::fs::remove_dir_all(&to);
    let _ = std::fs::create_dir_all(&to);
    for entry in std::fs::read_dir(&rig.dir).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "log") {
            let _ = std::fs::copy(entry.path(), to.join(entry.file_name()));
        }
    }
    println!("the logs of {id} are in {}", to.display());
}

/// The one that was named, or the one that was built beside this.
fn executable(args: &Args) -> anyhow::Result<PathBuf> {
    let beside = || Ok::<_, anyhow::Error>(std::env::current_exe()?.with_file_name("belljar"));
    let path = args.belljar.clone().map_or_else(beside, Ok)?;
    ensure!(path.exists(), "there is no {}; `just faults` builds it", path.display());
    Ok(std::fs::canonicalize(path)?)
}
