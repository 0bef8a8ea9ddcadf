//! Runs stages one after the other, and measures them.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};

use super::cases::{self, Cases, Outcome};
use super::record::{Records, StageTime};
use super::stages::{Action, Pace, Stage};
use super::steal::StealMeter;
use super::unit;

/// Tests that passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

/// A stage that has ended.
#[derive(Debug)]
pub(crate) struct StageResult {
    pub(crate) stage: Stage,
    pub(crate) result: Result<()>,
    pub(crate) time: StageTime,
    pub(crate) cases: Cases,
    /// What the suites' closing lines say, for suites that write no case log.
    printed: Counts,
}

impl StageResult {
    /// Tests that passed and failed. A stage that counts none is one test itself.
    pub(crate) fn counts(&self) -> Counts {
        let logged = Counts {
            passed: self.cases.count(Outcome::Passed),
            failed: self.cases.count(Outcome::Failed),
        };
        let mut counts = if self.cases.is_empty() { self.printed } else { logged };
        match &self.result {
            Ok(()) if counts.passed == 0 => counts.passed = 1,
            Err(_) if counts.failed == 0 => counts.failed = 1,
            _ => {}
        }
        counts
    }
}

/// Runs stages of one list.
#[derive(Debug)]
pub(crate) struct Runner<'a> {
    root: &'a Path,
    records: &'a Records,
    meter: StealMeter,
    background: Vec<(Stage, JoinHandle<StageResult>)>,
}

impl<'a> Runner<'a> {
    pub(crate) fn new(root: &'a Path, records: &'a Records) -> Self {
        Self { root, records, meter: StealMeter::start(), background: Vec::new() }
    }

    /// Runs a stage, after those in the background if it does not compile only. Answers the
    /// stages that have ended: a stage in the background ends with a later one.
    pub(crate) fn run(&mut self, stage: Stage) -> Vec<StageResult> {
        match stage.pace {
            Pace::Background => {
                println!("\n== {} (in the background)", stage.name);
                let (root, records) = (self.root.to_owned(), self.records.clone());
                let meter = self.meter.clone();
                let run = move || {
                    let path = records.output(stage.name);
                    match File::create(&path) {
                        Ok(file) => perform(stage, &root, &records, &meter, Some(file)),
                        Err(error) => failed(stage, error.into()),
                    }
                };
                self.background.push((stage, thread::spawn(run)));
                Vec::new()
            }
            Pace::BesideBackground => vec![self.here(stage)],
            Pace::InOrder => {
                let mut ended = self.wait();
                let broken = ended.iter().find(|ended| ended.result.is_err());
                let ran = match broken.map(|ended| ended.stage.name) {
                    None => self.here(stage),
                    Some(name) => failed(stage, anyhow!("not run, because {name} failed")),
                };
                ended.push(ran);
                ended
            }
        }
    }

    /// Waits for the stages in the background, and prints what they said.
    pub(crate) fn wait(&mut self) -> Vec<StageResult> {
        let mut ended = Vec::new();
        for (stage, handle) in self.background.drain(..) {
            let result = handle.join();
            let result = result.unwrap_or_else(|_| failed(stage, anyhow!("the stage panicked")));
            println!("\n== {} (was in the background)", stage.name);
            print!("{}", fs::read_to_string(self.records.output(stage.name)).unwrap_or_default());
            announce(&result);
            ended.push(result);
        }
        ended
    }

    fn here(&self, stage: Stage) -> StageResult {
        println!("\n== {}", stage.name);
        let result = perform(stage, self.root, self.records, &self.meter, None);
        announce(&result);
        result
    }
}

fn announce(ended: &StageResult) {
    let (name, seconds) = (ended.stage.name, ended.time.seconds);
    match &ended.result {
        Ok(()) => println!("== {name} passed in {seconds:.1} s"),
        Err(error) => println!("== {name} FAILED after {seconds:.1} s: {error:#}"),
    }
}

fn failed(stage: Stage, error: anyhow::Error) -> StageResult {
    let time = StageTime { name: stage.name.to_owned(), seconds: 0.0, slowest: Default::default() };
    let (cases, printed) = Default::default();
    StageResult { stage, result: Err(error), time, cases, printed }
}

fn perform(
    stage: Stage,
    root: &Path,
    records: &Records,
    meter: &StealMeter,
    mut output: Option<File>,
) -> StageResult {
    let log = records.case_log(stage.name);
    let _ = fs::remove_file(&log);
    let begin = Instant::now();
    let mut printed = Counts::default();
    let mut result = match stage.action {
        Action::UnitTests => unit::run(root, &log, meter),
        Action::Run(commands) => commands.iter().try_for_each(|command| {
            let counts = run_command(command, root, &log, output.as_mut())?;
            printed.passed += counts.passed;
            printed.failed += counts.failed;
            Ok(())
        }),
    };
    let cases = Cases::read(&log).unwrap_or_else(|error| {
        if result.is_ok() {
            result = Err(error);
        }
        Cases::default()
    });
    let seconds = begin.elapsed().as_secs_f64();
    let time = StageTime { name: stage.name.to_owned(), seconds, slowest: cases.slowest() };
    StageResult { stage, result, time, cases, printed }
}

/// Runs a command, passes its output on, and reads the counts in its closing lines.
fn run_command(
    command: &str,
    root: &Path,
    log: &Path,
    mut output: Option<&mut File>,
) -> Result<Counts> {
    let mut words = command.split(' ');
    let program = words.next().context("an empty command")?;
    let mut process = Command::new(program);
    process.args(words).current_dir(root).env(cases::VARIABLE, log);
    process.stdin(Stdio::null()).stdout(Stdio::piped());
    if let Some(file) = output.as_deref() {
        process.stderr(file.try_clone().context("cannot share the output file")?);
    }
    let mut child = process.spawn().with_context(|| format!("cannot run `{command}`"))?;
    let stdout = child.stdout.take().context("the command has no output")?;
    let mut counts = Counts::default();
    let mut reader = BufReader::new(stdout);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        match output.as_deref_mut() {
            Some(file) => file.write_all(&line)?,
            None => std::io::stdout().write_all(&line)?,
        }
        if let Some(found) = closing_line(&String::from_utf8_lossy(&line)) {
            counts.passed += found.passed;
            counts.failed += found.failed;
        }
        line.clear();
    }
    let status = child.wait().with_context(|| format!("cannot wait for `{command}`"))?;
    if !status.success() {
        bail!("`{command}` failed: {status}");
    }
    Ok(counts)
}

/// Reads `N passed, N failed`, perhaps with a word and a colon before it and more
/// counts after it.
fn closing_line(line: &str) -> Option<Counts> {
    let line = line.trim();
    let line = match line.split_once(": ") {
        Some((word, rest)) if !word.contains(' ') => rest,
        _ => line,
    };
    let mut parts = line.split(", ");
    let number = |part: Option<&str>, word: &str| {
        part?.strip_suffix(word)?.strip_suffix(' ')?.parse::<usize>().ok()
    };
    let passed = number(parts.next(), "passed")?;
    let failed = number(parts.next(), "failed")?;
    Some(Counts { passed, failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn stage(commands: &'static [&'static str], pace: Pace) -> Stage {
        let when = super::super::stages::When::Always;
        Stage { name: "stage", action: Action::Run(commands), when, pace }
    }

    fn run(stages: &[Stage]) -> Vec<StageResult> {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(dir.path(), "gate").unwrap();
        let mut runner = Runner::new(dir.path(), &records);
        let mut ended: Vec<_> = stages.iter().flat_map(|stage| runner.run(*stage)).collect();
        ended.extend(runner.wait());
        ended
    }

    #[test]
    fn closing_lines_are_counted() {
        let counts = |passed, failed| Some(Counts { passed, failed });
        assert_eq!(closing_line("12 passed, 3 failed\n"), counts(12, 3));
        assert_eq!(closing_line("examples: 4 passed, 0 failed"), counts(4, 0));
        assert_eq!(closing_line("4 passed, 1 failed, 2 n/a"), counts(4, 1));
        assert_eq!(closing_line("the 4 passed, 1 failed"), None);
        assert_eq!(closing_line("4 passed"), None);
    }

    #[test]
    fn a_stage_that_counts_nothing_counts_as_one() {
        let ended = run(&[stage(&["true"], Pace::InOrder)]);
        assert_eq!(ended[0].counts(), Counts { passed: 1, failed: 0 });
        let ended = run(&[stage(&["true", "false", "echo"], Pace::InOrder)]);
        assert_eq!(ended[0].counts(), Counts { passed: 0, failed: 1 });
        assert!(ended[0].result.is_err());
    }

    #[test]
    fn a_failure_in_the_background_stops_the_next_stage() {
        let ended = run(&[
            stage(&["false"], Pace::Background),
            stage(&["true"], Pace::BesideBackground),
            stage(&["true"], Pace::InOrder),
        ]);
        let results: Vec<bool> = ended.iter().map(|ended| ended.result.is_ok()).collect();
        assert_eq!(results, [true, false, false]);
    }
}
