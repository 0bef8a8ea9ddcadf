//! A process that does runs, one at a time, as the suite tells it by their numbers.
//!
//! A run waits more than it computes, so several lanes do more. Each has its own engine,
//! canaries, network and secrets, and its oracle looks only at what its own engine has made.

use std::collections::VecDeque;
use std::env;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, bail};
use belljar_testkit::CaseLog;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;

use crate::Options;
use crate::attack::Attack;
use crate::harness::launch::Planted;
use crate::harness::programs::Programs;
use crate::plan::{Plan, Round};
use crate::report::{Outcome, Results};
use crate::suite::{Suite, host_template, log_name};

/// The runs that are worth the engine of one more lane.
const RUNS_PER_LANE: usize = 8;

/// The line that a lane writes for each run. Its other lines are for people.
#[derive(Debug, Serialize, Deserialize)]
struct Ended {
    number: usize,
    outcome: Outcome,
}

/// Does the runs whose numbers come on standard input, until its end.
pub(crate) async fn serve(
    options: &Options,
    attacks: &[Attack],
    programs: Programs,
    planted: Planted,
) -> anyhow::Result<()> {
    let plan = Plan::of(attacks, options);
    let mut suite = Suite::start(options, attacks, programs, planted).await?;
    let mut numbers = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = numbers.next_line().await? {
        let number: usize = line.parse().context("understand the number of a run")?;
        let job = *plan.jobs.get(number).with_context(|| format!("there is no run {number}"))?;
        let outcome = suite.run(job).await?;
        println!("{}", serde_json::to_string(&Ended { number, outcome })?);
    }
    Ok(())
}

/// Does all runs, in as many lanes as the options want.
pub(crate) async fn run_all(options: &Options, attacks: &[Attack]) -> anyhow::Result<Results> {
    let begin = Instant::now();
    let plan = Plan::of(attacks, options);
    let mut outcomes: Vec<Option<Outcome>> = Vec::new();
    outcomes.resize_with(plan.jobs.len(), || None);
    let wanted = (plan.jobs.len() / RUNS_PER_LANE).clamp(1, options.jobs.max(1));
    // Once, before several lanes would make it at the same time.
    host_template()?;
    let mut lanes = Vec::new();
    if !plan.jobs.is_empty() {
        for _ in 0..wanted {
            lanes.push(Lane::start()?);
        }
    }
    for round in Round::ALL {
        // An idle engine has a pool and daemons, so those of other lanes end.
        while round == Round::Alone && lanes.len() > 1 {
            let Some(lane) = lanes.pop() else { break };
            lane.end().await?;
        }
        let done;
        (lanes, done) = side_by_side(lanes, plan.round(round)).await?;
        for (number, outcome) in done {
            outcomes[number] = Some(outcome);
        }
    }
    for lane in lanes {
        lane.end().await?;
    }
    let log = CaseLog::open(log_name(options))?;
    let mut results = Results { uncontrolled: plan.uncontrolled.clone(), ..Results::default() };
    for attack in attacks {
        if let Some((id, why)) = plan.elsewhere.iter().find(|(id, _)| *id == attack.id) {
            let outcome = Outcome::elsewhere(id, why);
            log.ended(&outcome.case(), outcome.took, outcome.logged())?;
            results.runs.push(outcome);
        }
        let jobs = plan.jobs.iter().zip(&mut outcomes);
        for (job, outcome) in jobs.filter(|(job, _)| job.attack.id == attack.id) {
            let outcome = outcome.take().with_context(|| format!("{} did not run", job.attack.id));
            results.runs.push(outcome?);
        }
    }
    results.attacks = attacks.to_vec();
    results.took = begin.elapsed();
    Ok(results)
}

/// Does the waiting runs: each lane takes the next when it has done one. Returns the lanes.
async fn side_by_side(
    lanes: Vec<Lane>,
    waiting: impl Iterator<Item = usize>,
) -> anyhow::Result<(Vec<Lane>, Vec<(usize, Outcome)>)> {
    let waiting = Arc::new(Mutex::new(waiting.collect::<VecDeque<usize>>()));
    let mut working = JoinSet::new();
    for mut lane in lanes {
        let waiting = waiting.clone();
        working.spawn(async move {
            let mut done = Vec::new();
            loop {
                let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let Some(number) = next else { return anyhow::Ok((lane, done)) };
                done.push((number, lane.run(number).await?));
            }
        });
    }
    let (mut lanes, mut all) = (Vec::new(), Vec::new());
    while let Some(ended) = working.join_next().await {
        let (lane, done) = ended??;
        lanes.push(lane);
        all.extend(done);
    }
    Ok((lanes, all))
}

#[derive(Debug)]
struct Lane {
    process: Child,
    numbers: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Lane {
    fn start() -> anyhow::Result<Self> {
        let mut command = Command::new(env::current_exe().context("cannot find this program")?);
        command.arg("--lane").args(env::args_os().skip(1));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().context("cannot start a lane")?;
        let numbers = process.stdin.take().context("a lane has no standard input")?;
        let lines = process.stdout.take().context("a lane has no standard output")?;
        Ok(Self { process, numbers, lines: BufReader::new(lines).lines() })
    }

    async fn run(&mut self, number: usize) -> anyhow::Result<Outcome> {
        // A lane that has ended shows it by the end of its output.
        let _ = self.numbers.write_all(format!("{number}\n").as_bytes()).await;
        while let Some(line) = self.lines.next_line().await? {
            match serde_json::from_str::<Ended>(&line) {
                Ok(ended) if ended.number == number => return Ok(ended.outcome),
                Ok(ended) => bail!("a lane did run {} instead of {number}", ended.number),
                Err(_) => println!("{line}"),
            }
        }
        let status = self.process.wait().await?;
        bail!("a lane ended with {status} in run {number}")
    }

    /// Has it end as it does after its last run.
    async fn end(self) -> anyhow::Result<()> {
        let Self { mut process, numbers, lines: _lines } = self;
        drop(numbers);
        let status = process.wait().await?;
        anyhow::ensure!(status.success(), "a lane ended with {status}");
        Ok(())
    }
}
