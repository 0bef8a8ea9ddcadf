//! The gate and the nightly.
//!
//! `.ci/run` prepares the machine and calls `cargo xtask gate`; `.ci/nightly` does
//! the same with `cargo xtask nightly`.

pub(crate) mod cases;
pub(crate) mod plan;
mod quality;
mod record;
mod runner;
mod stages;
pub(crate) mod steal;
mod unit;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use plan::{Change, Choice};
use record::{Records, Run, StageTime};
use runner::{Runner, StageResult};
use stages::{GATE, NIGHTLY, Stage};

/// Runs the gate: every stage that the change selects, or only `names`.
pub(crate) fn gate(root: &Path, names: &[String]) -> Result<()> {
    let records = Records::open(&cache()?, "gate")?;
    let commit = commit(root)?;
    let chosen = if names.is_empty() {
        let passed = records.passed_commit();
        let change = Change::since(root, passed.as_deref());
        select(&change, passed.as_deref())
    } else {
        named(GATE, names)?
    };
    let mut session = Session::begin(root, &records, &commit);
    for stage in chosen {
        if session.run(stage).is_err() {
            break;
        }
    }
    let run = session.finish();
    print!("{}", summary(&run));
    let passed = run.passed;
    // Parts of a gate are no gate, so they are not kept.
    if names.is_empty() {
        records.add(run)?;
        if passed && is_clean(root) {
            records.set_passed_commit(&commit)?;
        }
    }
    if !passed {
        bail!("the gate failed");
    }
    println!("ci: passed");
    Ok(())
}

/// Runs the nightly: every stage, or only `names`. A stage that fails does not stop the
/// others. Appends a row for each to `docs/quality.md` of the clone it was started in.
pub(crate) fn nightly(root: &Path, names: &[String]) -> Result<()> {
    let records = Records::open(&cache()?, "nightly")?;
    let commit = commit(root)?;
    let chosen = if names.is_empty() { NIGHTLY.to_vec() } else { named(NIGHTLY, names)? };
    let origin = env::var_os("BELLJAR_ORIGIN").map_or_else(|| root.to_owned(), PathBuf::from);
    let page = origin.join("docs/quality.md");
    let date = now()?;
    let date = date.split(' ').next().unwrap_or_default();
    let mut session = Session::begin(root, &records, &commit);
    // A row is written as soon as its stage has ended: a nightly may be cut off.
    let mut rows = 0;
    let mut write = |ended: &[StageResult]| -> Result<()> {
        for it in ended.iter().skip(rows) {
            let (suite, seconds) = (it.stage.name, it.time.seconds);
            let row = quality::Row { date, commit: &commit, suite, counts: it.counts(), seconds };
            quality::append(&page, &row)?;
            rows += 1;
        }
        Ok(())
    };
    for stage in chosen {
        let _ = session.run(stage);
        write(&session.ended)?;
    }
    session.wait();
    write(&session.ended)?;
    let failed = session.ended.iter().filter(|it| it.result.is_err());
    let failed: Vec<_> = failed.map(|it| it.stage.name).collect();
    let run = session.finish();
    print!("{}", summary(&run));
    records.add(run)?;
    if !failed.is_empty() {
        bail!("these stages of the nightly failed: {}", failed.join(", "));
    }
    println!("nightly: passed");
    Ok(())
}

/// Prints the last five gates side by side.
pub(crate) fn times() -> Result<()> {
    let runs = Records::open(&cache()?, "gate")?.runs();
    if runs.is_empty() {
        bail!("no gate has run yet with this cache");
    }
    print!("{}", record::table(&runs));
    let Some(run) = runs.last() else { return Ok(()) };
    println!("\nslowest cases of the last run:");
    for stage in &run.stages {
        for (suite, cases) in &stage.slowest {
            println!("  {} / {suite}", stage.name);
            cases.iter().for_each(|(case, seconds)| println!("    {seconds:7.2} s  {case}"));
        }
    }
    Ok(())
}

/// Prints which stages the gate would run now, and why.
pub(crate) fn print_plan(root: &Path) -> Result<()> {
    let passed = Records::open(&cache()?, "gate")?.passed_commit();
    select(&Change::since(root, passed.as_deref()), passed.as_deref());
    Ok(())
}

/// The stages of the gate that a change selects.
pub(crate) fn selected(change: &Change) -> Vec<Stage> {
    let runs = |stage: &&Stage| matches!(change.choose(stage), Choice::Run(_));
    GATE.iter().filter(runs).copied().collect()
}

/// A list of stages.
#[derive(Debug, Clone, Copy)]
pub(crate) enum List {
    Gate,
    Nightly,
}

pub(crate) fn print_names(list: List) {
    let stages = match list {
        List::Gate => GATE,
        List::Nightly => NIGHTLY,
    };
    stages.iter().for_each(|stage| println!("{}", stage.name));
}

fn select(change: &Change, passed: Option<&str>) -> Vec<Stage> {
    println!("compared with the last commit that passed: {}", passed.unwrap_or("unknown"));
    for stage in GATE {
        match change.choose(stage) {
            Choice::Run(why) => println!("  {:<22} runs: {why}", stage.name),
            Choice::Skip => println!("  {:<22} is left out: nothing it tests changed", stage.name),
        }
    }
    selected(change)
}

fn named(stages: &[Stage], names: &[String]) -> Result<Vec<Stage>> {
    let find = |name: &String| {
        let found = stages.iter().find(|stage| stage.name == name);
        found.copied().with_context(|| {
            let known: Vec<&str> = stages.iter().map(|stage| stage.name).collect();
            format!("there is no stage `{name}`; the stages are: {}", known.join(" "))
        })
    };
    names.iter().map(find).collect()
}

/// One run, stage by stage.
struct Session<'a> {
    runner: Runner<'a>,
    ended: Vec<StageResult>,
    started: String,
    begin: Instant,
    commit: String,
}

impl<'a> Session<'a> {
    fn begin(root: &'a Path, records: &'a Records, commit: &str) -> Self {
        Self {
            runner: Runner::new(root, records),
            ended: Vec::new(),
            started: now().unwrap_or_default(),
            begin: Instant::now(),
            commit: commit.to_owned(),
        }
    }

    /// Runs a stage. Fails if it, or one before it in the background, failed.
    fn run(&mut self, stage: Stage) -> Result<()> {
        let ended = self.runner.run(stage);
        let failed = ended.iter().any(|ended| ended.result.is_err());
        self.ended.extend(ended);
        if failed {
            bail!("a stage failed");
        }
        Ok(())
    }

    fn wait(&mut self) {
        self.ended.extend(self.runner.wait());
    }

    fn finish(mut self) -> Run {
        self.wait();
        let prepared = env::var("BELLJAR_PREPARE_SECONDS").ok().and_then(|text| text.parse().ok());
        let prepared: f64 = prepared.unwrap_or(0.0);
        let mut stages = vec![StageTime {
            name: "prepare".to_owned(),
            seconds: prepared,
            slowest: Default::default(),
        }];
        let passed = self.ended.iter().all(|ended| ended.result.is_ok());
        let retries = self.ended.iter().flat_map(|ended| ended.cases.retries().cloned()).collect();
        stages.extend(self.ended.into_iter().map(|ended| ended.time));
        let seconds = prepared + self.begin.elapsed().as_secs_f64();
        Run { started: self.started, commit: self.commit, passed, seconds, stages, retries }
    }
}

fn summary(run: &Run) -> String {
    let mut text = String::from("\n");
    for stage in &run.stages {
        text += &format!("  {:<22} {:>9.1} s\n", stage.name, stage.seconds);
    }
    text += &format!("  {:<22} {:>9.1} s\n", "total", run.seconds);
    if run.retries.is_empty() {
        text += "no case was tried again\n";
    } else {
        text += &format!("{} attempts were thrown away because of CPU steal:\n", run.retries.len());
    }
    for case in &run.retries {
        let (steal, why) = (100.0 * case.steal.unwrap_or(0.0), case.why.as_deref().unwrap_or(""));
        text += &format!("  {} {}: {steal:.0} % stolen: {why}\n", case.suite, case.case);
    }
    text
}

fn cache() -> Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(cache) = set("BELLJAR_CACHE") {
        return Ok(cache);
    }
    let home = || set("HOME").map(|home| home.join(".cache"));
    let base = set("XDG_CACHE_HOME").or_else(home).context("HOME is not set")?;
    Ok(base.join("belljar"))
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn commit(root: &Path) -> Result<String> {
    output(Command::new("git").arg("-C").arg(root).args(["rev-parse", "HEAD"]))
}

/// Whether the work tree is exactly its commit.
fn is_clean(root: &Path) -> bool {
    output(Command::new("git").arg("-C").arg(root).args(["status", "--porcelain"]))
        .is_ok_and(|text| text.is_empty())
}

fn now() -> Result<String> {
    output(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M:%S"]))
}
