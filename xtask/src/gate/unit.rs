//! Runs the unit tests with `cargo nextest`, and runs a failing test again if the host
//! stole the cores while it ran.

mod junit;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use self::junit::EndedTest;
use super::cases::{Case, Outcome};
use super::steal::{StealMeter, TOO_MUCH};

/// Attempts at one test, the first included.
const ATTEMPTS: u32 = 3;

/// Runs all unit tests. Fails if one fails at its last attempt, or if there are none.
pub(crate) fn run(root: &Path, log: &Path, meter: &StealMeter) -> Result<()> {
    let (passed, failed): (Vec<_>, Vec<_>) =
        attempt(root, None)?.into_iter().partition(|test| test.failure.is_none());
    let mut count = passed.len();
    for test in &passed {
        write(test, Outcome::Passed, None, log)?;
    }
    let mut lost = 0;
    for test in failed {
        if retry(root, test, log, meter)? == Outcome::Passed {
            count += 1;
        } else {
            lost += 1;
        }
    }
    println!("{count} passed, {lost} failed");
    if count == 0 || lost > 0 {
        bail!("{lost} unit tests failed, {count} passed");
    }
    Ok(())
}

/// Runs a failed test again, alone, as long as the host is to blame.
fn retry(root: &Path, mut test: EndedTest, log: &Path, meter: &StealMeter) -> Result<Outcome> {
    for _ in 1..ATTEMPTS {
        let took = Duration::try_from_secs_f64(test.seconds).unwrap_or_default();
        let steal = meter.share(test.began, test.began + took);
        if test.failure.is_none() || steal <= TOO_MUCH {
            break;
        }
        println!("again: {} (the host stole {:.0} % of the CPU)", test.name, 100.0 * steal);
        write(&test, Outcome::Retried, Some(steal), log)?;
        let again = attempt(root, Some(&test))?;
        test = again.into_iter().find(|other| other.name == test.name).with_context(|| {
            format!("nextest did not run {} when it was asked for alone", test.name)
        })?;
    }
    let outcome = if test.failure.is_none() { Outcome::Passed } else { Outcome::Failed };
    write(&test, outcome, None, log)?;
    Ok(outcome)
}

/// Runs all tests, or one of them. Answers how each ended.
fn attempt(root: &Path, only: Option<&EndedTest>) -> Result<Vec<EndedTest>> {
    // Where nextest keeps its reports, whatever folder cargo builds into.
    let report = root.join("target/nextest/gate/junit.xml");
    // One of an earlier run says nothing.
    let _ = fs::remove_file(&report);
    let mut command = Command::new("cargo");
    command.args(["nextest", "run", "--locked", "--workspace", "--profile", "gate"]);
    command.args(["--test-threads", &threads().to_string()]);
    command.current_dir(root);
    if let Some(only) = only {
        command.args(["--filterset", &only.filter()]);
    }
    let status = command.status().context("cannot run cargo nextest")?;
    let text = fs::read_to_string(&report)
        .with_context(|| format!("cargo nextest wrote no report: {status}"))?;
    let ended = junit::parse(&text).with_context(|| format!("in {}", report.display()))?;
    if !status.success() && ended.iter().all(|test| test.failure.is_none()) {
        bail!("cargo nextest failed, and no test did: {status}");
    }
    Ok(ended)
}

/// Half as many again as the cores: many tests wait for a disk, a timer or a server.
fn threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores + cores.div_ceil(2)
}

/// All unit tests are one suite in the log, so that the slowest of them all are shown.
fn write(test: &EndedTest, outcome: Outcome, steal: Option<f64>, log: &Path) -> Result<()> {
    let case = Case {
        suite: "unit".to_owned(),
        case: format!("{} {}", test.binary, test.name),
        seconds: test.seconds,
        outcome,
        steal,
        why: steal.and(test.failure.clone()),
    };
    case.append(log)
}
