//! Plants a break in each crate and checks that the gate catches it.
//!
//! `xtask/planted.toml` names for each crate one line to change, the stage of the gate
//! that must fail, and the part of this stage that covers the line. A break counts as
//! caught if the path filter selects the stage, the command passes without the break,
//! the code compiles with it, and then a test fails.

mod breaks;
mod change;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail};

use crate::gate;
use crate::gate::cases::{self, Case, Cases, Outcome};
use crate::gate::plan::Change;
use crate::gate::steal::{StealMeter, TOO_MUCH};

use breaks::Break;
use change::PlantedBreak;

/// Seconds until a command is ended: a break may let a test wait for ever.
const COMMAND_SECONDS: &str = "1200";

/// Attempts at a control run, as the host may steal the cores.
const CONTROL_ATTEMPTS: u32 = 3;

/// Lines of a command's output that are shown when a break is not caught.
const SHOWN_LINES: usize = 30;

/// Plants the breaks of these crates, or of all. Fails if one is not caught.
pub(crate) fn run(root: &Path, target: &Path, crates: &[String]) -> Result<()> {
    let breaks = breaks::choose(breaks::read(root)?, crates)?;
    let scratch = target.join("planted");
    fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
    let log = env::var_os(cases::VARIABLE).filter(|log| !log.is_empty()).map(PathBuf::from);
    let planter = Planter { root, scratch, log, meter: StealMeter::start() };
    let (mut passed, mut failed) = (0, 0);
    for planned in &breaks {
        let begin = Instant::now();
        let outcome = match planter.judge(planned)? {
            Ok(caught) => {
                println!("{:<12} {caught}", planned.krate);
                passed += 1;
                Outcome::Passed
            }
            Err(why) => {
                println!("{:<12} NOT CAUGHT: {why:#}", planned.krate);
                failed += 1;
                Outcome::Failed
            }
        };
        planter.write(planned, begin, outcome, None)?;
    }
    println!("{passed} passed, {failed} failed");
    if failed > 0 {
        bail!("{failed} planted breaks were not caught");
    }
    Ok(())
}

/// Plants breaks in a work tree, and runs what should catch them.
struct Planter<'a> {
    root: &'a Path,
    scratch: PathBuf,
    /// The case log, if one is wanted.
    log: Option<PathBuf>,
    meter: StealMeter,
}

impl Planter<'_> {
    /// Plants one break. Answers how it was caught or why it was not; fails if the file
    /// could not be restored.
    fn judge(&self, planned: &Break) -> Result<Result<String>> {
        if let Err(why) = check_selected(planned).and_then(|()| self.check_control(planned)) {
            return Ok(Err(why));
        }
        let planted = match PlantedBreak::plant(self.root, &self.scratch, planned) {
            Ok(planted) => planted,
            Err(why) => return Ok(Err(why)),
        };
        let caught = self.catch(planned);
        planted.restore()?;
        Ok(caught)
    }

    /// Checks that the command passes without the break. A command that always fails
    /// proves nothing.
    fn check_control(&self, planned: &Break) -> Result<()> {
        self.build(planned).context("it does not build without the break")?;
        for attempt in 1.. {
            let (begin, began) = (Instant::now(), SystemTime::now());
            let ran = self.execute(&planned.command)?;
            if ran.is_success() {
                break;
            }
            let stolen = self.meter.share(began, SystemTime::now());
            if stolen <= TOO_MUCH || attempt == CONTROL_ATTEMPTS {
                bail!("`{}` fails without the break\n{}", planned.command, ran.last_lines());
            }
            self.write(planned, begin, Outcome::Retried, Some((stolen, ran.why())))?;
        }
        Ok(())
    }

    /// Checks that a test fails with the break.
    fn catch(&self, planned: &Break) -> Result<String> {
        let begin = Instant::now();
        self.build(planned).context("it does not build with the break")?;
        let ran = self.execute(&planned.command)?;
        if ran.is_success() {
            bail!("`{}` passes with the break", planned.command);
        }
        let Some((first, others)) = ran.failed.split_first() else {
            bail!("`{}` fails, but no test does\n{}", planned.command, ran.last_lines());
        };
        let seconds = begin.elapsed().as_secs_f64();
        let more =
            if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
        Ok(format!("caught by {} in {seconds:.1} s: {first}{more}", planned.stage))
    }

    fn build(&self, planned: &Break) -> Result<()> {
        let build = planned.build_command()?;
        let ran = self.execute(&build)?;
        if !ran.is_success() {
            bail!("`{build}` fails\n{}", ran.last_lines());
        }
        Ok(())
    }

    /// Writes to the case log what became of a crate, or of an attempt at its control.
    fn write(
        &self,
        planned: &Break,
        begin: Instant,
        outcome: Outcome,
        retry: Option<(f64, String)>,
    ) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let (suite, case) = ("planted".to_owned(), planned.krate.clone());
        let seconds = begin.elapsed().as_secs_f64();
        let (steal, why) = retry.unzip();
        Case { suite, case, seconds, outcome, steal, why }.append(log)
    }

    /// Runs a command to its end.
    fn execute(&self, command: &str) -> Result<CommandResult> {
        let log = self.scratch.join("cases.jsonl");
        let _ = fs::remove_file(&log);
        let output = Command::new("timeout")
            .args(["--kill-after=10", COMMAND_SECONDS])
            .args(command.split(' '))
            .current_dir(self.root)
            .env(cases::VARIABLE, &log)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run `{command}`"))?;
        let mut failed = parse_failed_tests(&String::from_utf8_lossy(&output.stdout));
        failed.extend(Cases::read(&log)?.failed().map(|case| case.case.clone()));
        Ok(CommandResult { output, failed })
    }
}

/// A command that has ended.
struct CommandResult {
    output: Output,
    /// Names of tests and cases that failed.
    failed: Vec<String>,
}

impl CommandResult {
    fn is_success(&self) -> bool {
        self.output.status.success()
    }

    /// Why it failed, in a few words.
    fn why(&self) -> String {
        self.failed.first().map_or_else(|| self.output.status.to_string(), Clone::clone)
    }

    /// The last lines of its output, for people.
    fn last_lines(&self) -> String {
        let Output { stdout, stderr, .. } = &self.output;
        let text = String::from_utf8_lossy(stdout) + String::from_utf8_lossy(stderr);
        let lines: Vec<&str> = text.lines().collect();
        let skipped = lines.len().saturating_sub(SHOWN_LINES);
        lines[skipped..].iter().map(|line| format!("    {line}\n")).collect()
    }
}

/// Checks that the gate would run the stage for a change of this file alone.
fn check_selected(planned: &Break) -> Result<()> {
    let selected = gate::selected(&Change::Paths(vec![planned.file.clone()]));
    if !selected.iter().any(|stage| stage.name == planned.stage) {
        bail!("a change of {} does not select the stage {}", planned.file, planned.stage);
    }
    Ok(())
}

/// The tests that failed, by the lines that Rust's test harness prints.
fn parse_failed_tests(stdout: &str) -> Vec<String> {
    let name =
        |line: &str| line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(str::to_owned);
    stdout.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planter<'a>(root: &'a Path, scratch: &Path) -> Planter<'a> {
        Planter {
            root,
            scratch: scratch.to_owned(),
            log: Some(scratch.join("log")),
            meter: StealMeter::start(),
        }
    }

    fn planned(build: &str, command: &str) -> Break {
        Break {
            krate: "sys".to_owned(),
            file: "crates/sys/src/lib.rs".to_owned(),
            old: "a < b".to_owned(),
            new: "a <= b".to_owned(),
            stage: "unit".to_owned(),
            command: command.to_owned(),
            build: Some(build.to_owned()),
        }
    }

    /// A repository whose `test` passes as long as the line is as it was. `compile`
    /// always passes.
    fn repository() -> tempfile::TempDir {
        let dir = change::repository("crates/sys/src/lib.rs", "fn f() {\n    a < b\n}\n");
        let script = "#!/bin/sh\ngrep -q 'a < b' crates/sys/src/lib.rs && exit 0\n\
                      echo 'test tests::bound ... FAILED'\nexit 101\n";
        fs::write(dir.path().join("test"), script).unwrap();
        dir
    }

    fn judge(build: &str, command: &str) -> Result<String> {
        let (dir, scratch) = (repository(), tempfile::tempdir().unwrap());
        let planter = planter(dir.path(), scratch.path());
        let judged = planter.judge(&planned(build, command)).unwrap();
        let text = fs::read_to_string(dir.path().join("crates/sys/src/lib.rs")).unwrap();
        assert_eq!(text, "fn f() {\n    a < b\n}\n", "it is restored");
        judged
    }

    #[test]
    fn a_test_that_fails_with_the_break_catches_it() {
        let caught = judge("true", "sh ./test").unwrap();
        assert!(caught.starts_with("caught by unit in "), "{caught}");
        assert!(caught.ends_with(": tests::bound"), "{caught}");
    }

    #[test]
    fn a_command_that_passes_or_always_fails_catches_nothing() {
        let why = |build, command| judge(build, command).unwrap_err().to_string();
        assert!(why("true", "true").contains("passes with the break"));
        assert!(why("true", "false").contains("fails without the break"));
        assert!(why("false", "sh ./test").contains("does not build without the break"));
        assert!(why("sh ./test", "sh ./test").contains("does not build with the break"));
        let silent = "grep -q --regexp=<.b crates/sys/src/lib.rs";
        assert!(why("true", silent).contains("no test does"));
    }

    #[test]
    fn a_stage_that_the_path_does_not_select_catches_nothing() {
        let other = Break { stage: "agents".to_owned(), ..planned("true", "true") };
        assert!(check_selected(&other).is_err());
        assert!(check_selected(&planned("true", "true")).is_ok());
    }

    #[test]
    fn each_crate_is_a_case_of_the_log() {
        let (dir, scratch) = (repository(), tempfile::tempdir().unwrap());
        let planter = planter(dir.path(), scratch.path());
        let retry = Some((0.5, "tests::bound".to_owned()));
        planter.write(&planned("", ""), Instant::now(), Outcome::Retried, retry).unwrap();
        planter.write(&planned("", ""), Instant::now(), Outcome::Failed, None).unwrap();
        let cases = Cases::read(&scratch.path().join("log")).unwrap();
        let failed: Vec<_> = cases.failed().map(|case| (&*case.suite, &*case.case)).collect();
        assert_eq!(failed, [("planted", "sys")]);
        let whys: Vec<_> = cases.retries().map(|case| case.why.as_deref()).collect();
        assert_eq!(whys, [Some("tests::bound")]);
    }

    #[test]
    fn failed_tests_are_read_from_the_harness() {
        let text = "running 3 tests\ntest a::b ... ok\ntest a::c ... FAILED\n\
                    test d - should panic ... FAILED\nfailures:\n    a::c\n";
        assert_eq!(parse_failed_tests(text), ["a::c", "d - should panic"]);
    }
}
