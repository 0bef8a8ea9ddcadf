//! Runs the unit tests with `cargo nextest`, and runs a failing test again if the host
//! stole the cores while it ran.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::cases::{Case, Outcome};
use super::steal::{StealMeter, TOO_MUCH};

/// Attempts at one test, the first included.
const ATTEMPTS: u32 = 3;

/// A line of nextest's output in libtest's JSON format.
#[derive(Debug, Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    event: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    exec_time: f64,
}

/// A test that has ended.
#[derive(Debug, Clone, PartialEq)]
struct Ended {
    /// `binary$path::of::test`
    name: String,
    outcome: Outcome,
    seconds: f64,
    /// The share of CPU time stolen while it ran.
    steal: f64,
}

/// Runs all unit tests. Fails if one fails at its last attempt, or if there are none.
pub(crate) fn run(root: &Path, log: &Path, meter: &StealMeter) -> Result<()> {
    let mut failed = Vec::new();
    let (mut passed, mut skipped) = (0, 0);
    for test in attempt(root, None, meter)? {
        match test.outcome {
            Outcome::Passed => passed += 1,
            Outcome::Skipped => skipped += 1,
            Outcome::Failed | Outcome::Retried => {
                failed.push(test);
                continue;
            }
        }
        write(&test, log)?;
    }
    let mut lost = Vec::new();
    for test in failed {
        match retry(root, test, log, meter)? {
            Outcome::Passed => passed += 1,
            _ => lost.push(()),
        }
    }
    println!("{passed} passed, {} failed, {skipped} skipped", lost.len());
    if passed == 0 || !lost.is_empty() {
        bail!("{} unit tests failed, {passed} passed", lost.len());
    }
    Ok(())
}

/// Runs a failed test again, alone, as long as the host is to blame.
fn retry(root: &Path, mut test: Ended, log: &Path, meter: &StealMeter) -> Result<Outcome> {
    for _ in 1..ATTEMPTS {
        if test.steal <= TOO_MUCH {
            break;
        }
        println!("again: {} (the host stole {:.0} % of the CPU)", test.name, 100.0 * test.steal);
        write(&Ended { outcome: Outcome::Retried, ..test.clone() }, log)?;
        let again = attempt(root, Some(&test.name), meter)?;
        test = again.into_iter().find(|other| other.name == test.name).with_context(|| {
            format!("nextest did not run {} when it was asked for alone", test.name)
        })?;
        if test.outcome == Outcome::Passed {
            break;
        }
    }
    write(&test, log)?;
    Ok(test.outcome)
}

/// Runs all tests, or one of them. Answers how each ended.
fn attempt(root: &Path, only: Option<&str>, meter: &StealMeter) -> Result<Vec<Ended>> {
    let mut command = Command::new("cargo");
    command
        .args(["nextest", "run", "--locked", "--workspace", "--profile", "gate"])
        .args(["--message-format", "libtest-json"])
        .env("NEXTEST_EXPERIMENTAL_LIBTEST_JSON", "1")
        .current_dir(root)
        .stdout(Stdio::piped());
    if let Some(only) = only {
        command.args(["--filterset", &filter(only)?]);
    }
    let mut child = command.spawn().context("cannot run cargo nextest")?;
    let output = child.stdout.take().context("nextest has no output")?;
    let mut ended = BTreeMap::new();
    for line in BufReader::new(output).lines() {
        if let Some(test) = parse(&line?, Instant::now(), meter) {
            ended.insert(test.name.clone(), test);
        }
    }
    let status = child.wait().context("cannot wait for nextest")?;
    let failed = ended.values().any(|test| test.outcome == Outcome::Failed);
    if !status.success() && !failed {
        bail!("cargo nextest failed before any test did: {status}");
    }
    Ok(ended.into_values().collect())
}

/// Reads a line that says how a test ended, at the moment it arrives.
fn parse(line: &str, now: Instant, meter: &StealMeter) -> Option<Ended> {
    let event: Event = serde_json::from_str(line).ok()?;
    if event.kind != "test" {
        return None;
    }
    let outcome = match event.event.as_str() {
        "ok" => Outcome::Passed,
        "failed" => Outcome::Failed,
        "ignored" => Outcome::Skipped,
        _ => return None,
    };
    let took = Duration::try_from_secs_f64(event.exec_time).unwrap_or_default();
    let begin = now.checked_sub(took).unwrap_or(now);
    let steal = if outcome == Outcome::Failed { meter.share(begin, now) } else { 0.0 };
    Some(Ended { name: event.name, outcome, seconds: event.exec_time, steal })
}

/// A nextest filter for exactly one test.
fn filter(name: &str) -> Result<String> {
    let (binary, test) = name.split_once('$').with_context(|| format!("{name} has no binary"))?;
    Ok(format!("binary_id(={binary}) and test(={test})"))
}

fn write(test: &Ended, log: &Path) -> Result<()> {
    let (suite, case) = test.name.split_once('$').unwrap_or(("", &test.name));
    // The suite is all unit tests, so that the slowest of them all are shown.
    let retried = test.outcome == Outcome::Retried;
    let case = Case {
        suite: "unit".to_owned(),
        case: format!("{suite} {case}"),
        seconds: test.seconds,
        outcome: test.outcome,
        steal: retried.then_some(test.steal),
        why: retried.then(|| "see the test's output above".to_owned()),
    };
    case.append(log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_tests_are_read_and_nothing_else() {
        let meter = StealMeter::start();
        let parse = |line: &str| parse(line, Instant::now(), &meter);
        let ok = r#"{"type":"test","event":"ok","name":"a::b$c::d","exec_time":1.5}"#;
        let ended = parse(ok).unwrap();
        assert_eq!((ended.name.as_str(), ended.outcome), ("a::b$c::d", Outcome::Passed));
        assert!((ended.seconds - 1.5).abs() < 1e-9);
        let failed = r#"{"type":"test","event":"failed","name":"a$b","stdout":"no"}"#;
        assert_eq!(parse(failed).unwrap().outcome, Outcome::Failed);
        assert_eq!(parse(r#"{"type":"test","event":"started","name":"a$b"}"#), None);
        assert_eq!(parse(r#"{"type":"suite","event":"ok","passed":1}"#), None);
        assert_eq!(parse("Compiling belljar"), None);
    }

    #[test]
    fn one_test_is_named_exactly() {
        let wanted = "binary_id(=belljar-store::store) and test(=books::close)";
        assert_eq!(filter("belljar-store::store$books::close").unwrap(), wanted);
        assert!(filter("nothing").is_err());
    }
}
