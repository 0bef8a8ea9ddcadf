//! Breaks one part of the platform at a time, and looks whether it keeps its
//! promises.
//!
//! ```text
//! belljar-faults [filter …] [--control] [--list] [--table] [--random SECONDS --seed N]
//! ```
//!
//! A fault is a function: it starts what it needs, breaks something, and mends it.
//! Then everything that can be known is read (what clients were told, the whole
//! database, every host's cgroups and processes) and the invariants that the fault
//! lists are judged. Where a defence can be left out, `--control` does that, and
//! the violation must show. It needs root, PostgreSQL, `nats-server` and a
//! template; what a killed run left is removed by the next.
//!
//! Requirements: P5

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
use belljar_testkit::{CaseLog, CaseVerdict, run_case};
use clap::Parser;

use crate::case::Case;
use crate::faults::{ALL, Fault};
use crate::invariants::{Violations, planted, violations};
use crate::rig::Rig;

/// Faults, and what must hold after each.
#[derive(Debug, Parser)]
#[command(name = "belljar-faults", version)]
struct Args {
    /// Only faults whose id contains one of these, such as F-37.
    filters: Vec<String>,
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
const LONGEST: Duration = Duration::from_secs(480);

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
    let wanted = wanted(args)?;
    let log = CaseLog::open(if args.control { "faults/control" } else { "faults" })?;
    let (mut passed, mut failed) = (0, Vec::new());
    for fault in wanted {
        let seen = run_case(&log, fault.id, tokio::time::sleep, async || {
            let begin = Instant::now();
            let (seen, verdict) = Box::pin(one(fault, args.control, &belljar)).await;
            let took = begin.elapsed().as_secs_f64();
            match &seen {
                Ok(said) => println!("{:8} pass {took:5.1} s  {}: {said}", fault.id, fault.title),
                Err(error) => {
                    println!("{:8} FAIL {took:5.1} s  {}\n    {error:#}", fault.id, fault.title);
                }
            }
            (seen, verdict)
        });
        match seen.await? {
            Ok(_) => passed += 1,
            Err(_) => failed.push(fault.id),
        }
    }
    println!("{passed} passed, {} failed {failed:?}", failed.len());
    Ok(failed.len())
}

/// The faults that were asked for. A filter that no fault fits is an error.
fn wanted(args: &Args) -> anyhow::Result<Vec<&'static Fault>> {
    let fits = |fault: &&Fault, filter: &str| {
        fault.id.contains(filter) && (!args.control || fault.control.is_some())
    };
    if args.filters.is_empty() {
        return Ok(ALL.iter().filter(|fault| fits(fault, "")).collect());
    }
    for filter in &args.filters {
        ensure!(ALL.iter().any(|fault| fits(&fault, filter)), "no fault has the id {filter}");
    }
    let is_wanted = |fault: &&Fault| args.filters.iter().any(|filter| fits(fault, filter));
    Ok(ALL.iter().filter(is_wanted).collect())
}

/// Tries one, judges it, and leaves nothing. A broken invariant is final; whatever else
/// went wrong may be the host's doing.
async fn one(
    fault: &Fault,
    is_control: bool,
    belljar: &Path,
) -> (anyhow::Result<String>, CaseVerdict) {
    let seen = attempt(fault, is_control, belljar).await;
    let verdict = match &seen {
        Ok((_, found)) if is_control && !found.is_empty() => CaseVerdict::Passed,
        Ok((_, found)) if !is_control && found.is_empty() => CaseVerdict::Passed,
        Ok((_, found)) if !found.broken.is_empty() => CaseVerdict::Failed,
        Ok((_, found)) => CaseVerdict::Undecided(match found.late.first() {
            Some(late) => late.clone(),
            None => "nothing went wrong without the defence".to_owned(),
        }),
        Err(error) => CaseVerdict::Undecided(format!("{error:#}")),
    };
    (seen.and_then(|(said, found)| told(is_control, said, &found)), verdict)
}

/// The result in words: with the defence nothing may be found, without it something must.
fn told(is_control: bool, said: String, found: &Violations) -> anyhow::Result<String> {
    let mut all = found.all().cloned();
    if is_control {
        let first = all.next();
        let first = first.with_context(|| format!("nothing went wrong without it: {said}"))?;
        return Ok(format!("as expected, {first}"));
    }
    ensure!(found.is_empty(), "{said}\n    {}", all.collect::<Vec<_>>().join("\n    "));
    Ok(said)
}

async fn attempt(
    fault: &Fault,
    is_control: bool,
    belljar: &Path,
) -> anyhow::Result<(String, Violations)> {
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
        Err(_) => Ok(Violations::default()),
    };
    if (ran.is_err() || judged.as_ref().is_ok_and(|found| !found.is_empty())) && !is_control {
        keep_logs(&rig, fault.id);
    }
    drop(case);
    let left = rig.clear();
    ensure!(left.is_empty(), "the rig left {left:?}");
    Ok((ran?, judged?))
}

/// What is wrong and stays so.
async fn judge(case: &Case, fault: &Fault, patience: Duration) -> anyhow::Result<Violations> {
    let begin = Instant::now();
    loop {
        let found = match case.collect().await {
            Ok(evidence) => violations(fault.invariants, &evidence),
            Err(error) if begin.elapsed() > patience => return Err(error),
            Err(error) => Violations { late: vec![format!("{error:#}")], ..Violations::default() },
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
