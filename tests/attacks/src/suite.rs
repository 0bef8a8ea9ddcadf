//! Runs the selected attacks and their controls.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use belljar_model::{RootFs, Spec, Tier};
use belljar_node::{Defence, Node, Weakened};
use belljar_testkit::{Attempt, CapturedLog, CaseLog, OwnEngines, print_retry};
use tokio::task::JoinSet;

use crate::Options;
use crate::attack::{Act, Attack, Control, Seen};
use crate::catalogue::applies;
use crate::harness::canary::Canaries;
use crate::harness::launch::Planted;
use crate::harness::neighbour::Neighbour;
use crate::harness::oracle::Oracle;
use crate::harness::programs::Programs;
use crate::harness::smuggled::Smuggled;
use crate::harness::stage::{Ledger, Stage};
use crate::harness::warm::{Made, Warm};
use crate::report::{Outcome, Results};

/// No run may take longer; one that does hangs.
const LONGEST: Duration = Duration::from_secs(180);

/// One run of one attack.
#[derive(Debug, Clone, Copy)]
struct Job {
    attack: Attack,
    mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Real,
    Control(&'static [Defence]),
    OwnControl,
}

pub(crate) async fn run(
    options: &Options,
    attacks: Vec<Attack>,
    programs: Programs,
    planted: Planted,
) -> anyhow::Result<Results> {
    let begin = Instant::now();
    let store = std::env::temp_dir().join("belljar-attacks-store");
    let template = belljar_template::host::prepare(&store).context("cannot make the template")?;
    let _lease = template.lease()?;
    let state = tempfile::Builder::new().prefix("belljar-attacks-").tempdir()?;
    let node = Node::start(Some(state.path())).await?;
    let canaries = Arc::new(Mutex::new(Canaries::set_out(planted)?));
    let is_staged = |attack: &&Attack| applies::attack(attack, options.tier).is_ok();
    let wants_warm = options.stage != Made::Plain
        || attacks.iter().filter(is_staged).any(Attack::is_warm)
        || options.tier == Tier::Microvm;
    let warm = match Warm::find() {
        Ok(warm) if wants_warm => Some(Arc::new(warm)),
        Ok(_) => None,
        Err(_) if options.skip_without_template || !wants_warm => None,
        Err(error) => return Err(error),
    };
    let root = match &warm {
        // Directories of the host cannot be shown in a machine of its own.
        Some(warm) if options.tier == Tier::Microvm => warm.root(),
        _ => template.root,
    };
    let warm = warm.filter(|_| options.tier == Tier::Jail);
    if let Some(warm) = &warm {
        warm.up(&node, options.stage).await?;
    }
    anyhow::ensure!(options.stage == Made::Plain || warm.is_some(), "there is no warm template");
    let engines = Arc::new(find_engines(&node, state.path(), options.tier, &root).await?);
    let stage = Stage {
        node,
        engines: engines.clone(),
        tier: options.tier,
        root,
        warm,
        made: options.stage,
        weakened: Weakened::default(),
        canaries: canaries.clone(),
        smuggled: Arc::new(Smuggled::pack(&programs)?),
        programs: Arc::new(programs),
        ledger: Arc::default(),
        bless: options.bless,
    };
    warm_up(&stage).await?;
    let log = CaseLog::open(log_name(options))?;
    let oracle = Oracle::new(canaries, engines, CapturedLog::install()?);
    oracle.prove().context("growth or a logged secret would not be seen")?;
    let mut suite = Suite { oracle, stage, results: Results::default(), log };
    let mut waiting: Vec<Job> = Vec::new();
    let staged: Vec<Attack> = attacks.iter().filter(is_staged).copied().collect();
    let (jobs, uncontrolled) = jobs(&staged, options);
    suite.results.uncontrolled = uncontrolled;
    for attack in &attacks {
        if let Err(why) = applies::attack(attack, options.tier) {
            suite.finish(Outcome::elsewhere(attack.id, why))?;
        }
    }
    for job in jobs {
        if job.attack.stress {
            suite.batch(std::mem::take(&mut waiting)).await?;
            suite.batch(vec![job]).await?;
        } else {
            waiting.push(job);
            if waiting.len() >= options.jobs {
                suite.batch(std::mem::take(&mut waiting)).await?;
            }
        }
    }
    suite.batch(waiting).await?;
    suite.results.attacks = attacks;
    suite.results.took = begin.elapsed();
    Ok(suite.results)
}

/// Finds the traces of the engine by a sandbox, and shows that leftovers would be seen.
async fn find_engines(
    node: &Node,
    state: &Path,
    tier: Tier,
    root: &RootFs,
) -> anyhow::Result<OwnEngines> {
    let sandbox = node.create(&Spec::new(tier, root.clone())).await?;
    let engines = OwnEngines::find(state, sandbox.pid());
    sandbox.destroy().await?;
    let engines = engines?;
    anyhow::ensure!(!engines.roots().is_empty(), "the engine has no cgroups");
    engines.prove().context("leftovers would not be seen")?;
    Ok(engines)
}

/// The suite's name in the case log: each tier and each stage is one.
fn log_name(options: &Options) -> String {
    match (options.tier, options.stage) {
        (Tier::Jail, Made::Plain) => "attacks".to_owned(),
        (Tier::Jail, made) => format!("attacks/{}", made.as_str()),
        (tier, _) => format!("attacks/{tier}"),
    }
}

/// Whatever is made lazily is made now, before anything is counted.
async fn warm_up(stage: &Stage) -> anyhow::Result<()> {
    let sandbox = stage.sandbox(|_| {}).await?;
    stage.exec(&sandbox, &belljar_node::Command::new(["/bin/true"])).await?;
    drop(sandbox);
    if stage.warm.is_some() {
        // The copy keeps an interpreter that stands still for good.
        for made in [Made::Forked, Made::Copied] {
            let sandbox = stage.warm_sandbox(made, |_| {}).await?;
            stage.python(&sandbox).await?;
        }
    }
    stage.clear().await?;
    stage.at_rest().await
}

/// The runs to do, and attacks whose control cannot be staged, and why.
type Jobs = (Vec<Job>, Vec<(&'static str, &'static str)>);

fn jobs(attacks: &[Attack], options: &Options) -> Jobs {
    let (mut jobs, mut uncontrolled) = (Vec::new(), Vec::new());
    for &attack in attacks {
        jobs.push(Job { attack, mode: Mode::Real });
        if options.no_control || options.stage != Made::Plain {
            continue;
        }
        let sets: &[&[Defence]] = match attack.control {
            Control::Without(defences) => &[defences],
            Control::Each(sets) => sets,
            // Those of the jail switch its own defences off.
            Control::Own(_)
                if options.tier != Tier::Jail
                    && !["OCI", "VM"].contains(&attack.class())
                    && attack.id != "NET-01" =>
            {
                uncontrolled.push((attack.id, "its control is one of the jail"));
                continue;
            }
            Control::Own(_) => {
                jobs.push(Job { attack, mode: Mode::OwnControl });
                continue;
            }
            Control::Because(_) => continue,
        };
        for &set in sets {
            let set = match options.tier {
                Tier::Process => applies::on_the_host_without(&attack, set),
                tier => applies::control(set, tier).map(|()| set),
            };
            match set {
                Ok(set) => jobs.push(Job { attack, mode: Mode::Control(set) }),
                Err(why) => uncontrolled.push((attack.id, why)),
            }
        }
    }
    // Controls come last: while one runs, canaries may be touched.
    jobs.sort_by_key(|job| job.mode != Mode::Real);
    (jobs, uncontrolled)
}

struct Suite {
    stage: Stage,
    oracle: Oracle,
    results: Results,
    log: CaseLog,
}

/// A run that is over, before the oracle has spoken.
struct Report {
    job: Job,
    stage: Stage,
    seen: anyhow::Result<Seen>,
    neighbour: Option<String>,
    /// What the neighbour measured.
    figures: String,
    took: Duration,
}

impl Suite {
    /// Runs jobs, and those again that decided nothing while the host stole the CPU.
    async fn batch(&mut self, mut jobs: Vec<Job>) -> anyhow::Result<()> {
        let mut attempt = Attempt::first();
        while !jobs.is_empty() {
            let judged = self.side_by_side(std::mem::take(&mut jobs)).await;
            let steal = attempt.repeats_for_steal();
            for (job, judgement, outcome) in judged {
                match steal {
                    Some(steal) if judgement == Judgement::Undecided => {
                        let (case, why) = (outcome.case(), outcome.why());
                        print_retry(&case, steal, &why);
                        self.log.retried(&case, outcome.took, steal, &why)?;
                        jobs.push(job);
                    }
                    _ => self.finish(outcome)?,
                }
            }
            if !jobs.is_empty() {
                attempt = attempt.next(tokio::time::sleep).await;
            }
        }
        Ok(())
    }

    fn finish(&mut self, outcome: Outcome) -> anyhow::Result<()> {
        self.log.ended(&outcome.case(), outcome.took, outcome.logged())?;
        self.results.runs.push(outcome);
        Ok(())
    }

    /// Runs jobs side by side, then asks the oracle. What it finds on the host
    /// is held against all of them; what has a sandbox's name, against its run.
    async fn side_by_side(&mut self, jobs: Vec<Job>) -> Vec<(Job, Judgement, Outcome)> {
        let mut set = JoinSet::new();
        for job in jobs {
            let weakened = match job.mode {
                Mode::Control(defences) => Weakened::without_all(defences),
                Mode::Real | Mode::OwnControl => Weakened::default(),
            };
            let ledger = Arc::new(Mutex::new(Ledger::default()));
            let stage = Stage { weakened, ledger, ..self.stage.clone() };
            set.spawn(perform(job, stage));
        }
        let mut reports = set.join_all().await;
        reports.sort_by_key(|report| (report.job.attack.id, report.job.mode != Mode::Real));
        let mut judged = Vec::new();
        for report in reports {
            let mut wrong = Vec::new();
            if let Err(error) = report.stage.clear().await {
                wrong.push(format!("{error:#}"));
            }
            let (traces, output) = {
                let mut ledger = report.stage.ledger();
                (std::mem::take(&mut ledger.traces), std::mem::take(&mut ledger.output))
            };
            wrong.extend(self.oracle.residue(&traces).await);
            let touched_secret = self.leaked(&output);
            if report.job.mode == Mode::Real {
                wrong.extend(touched_secret);
            }
            judged.push((report, wrong));
        }
        let mut shared = self.oracle.host().await;
        let touched = self.oracle.touched();
        let is_real = judged.iter().all(|(report, _)| report.job.mode == Mode::Real);
        let logged = self.oracle.logged();
        shared.extend(self.oracle.grown(!is_real).await);
        // With a defence off, canaries are there to be touched.
        if is_real {
            shared.extend(logged);
            shared.extend(touched);
        } else {
            shared.extend(touched.into_iter().filter(|line| line.starts_with("kernel:")));
        }
        let mut outcomes = Vec::new();
        for (mut report, mut wrong) in judged {
            wrong.extend(shared.iter().cloned());
            let judgement = judge(&report, &wrong);
            wrong.extend(report.neighbour.take());
            outcomes.push((report.job, judgement, outcome(report, wrong)));
        }
        outcomes
    }

    fn leaked(&self, output: &[u8]) -> Vec<String> {
        let secrets = self.stage.canaries().secrets.clone();
        let has = |secret: &str| output.windows(secret.len()).any(|part| part == secret.as_bytes());
        let found = secrets.all().into_iter().filter(|secret| has(secret));
        found.map(|secret| format!("a canary secret was printed: {}…", &secret[..12])).collect()
    }
}

async fn perform(job: Job, stage: Stage) -> Report {
    let begin = Instant::now();
    let watched = job.attack.stress && job.mode == Mode::Real;
    let neighbour = if watched { Neighbour::beside(&stage).await.map(Some) } else { Ok(None) };
    let act = async {
        match (job.mode, job.attack.act, job.attack.control) {
            (Mode::OwnControl, _, Control::Own(run)) => run(stage.clone()).await,
            (_, Act::Payload(payload), _) => payload.run(&stage).await,
            (_, Act::Driven(run), _) => run(stage.clone()).await,
        }
    };
    let inside_only = applies::is_inside_only(&job.attack, stage.tier);
    let seen = match tokio::time::timeout(LONGEST, act).await {
        Ok(Ok(Seen::Breach(text))) if inside_only && job.mode == Mode::Real => {
            Ok(Seen::Held(format!("in its own kernel only: {text}")))
        }
        Ok(seen) => seen,
        Err(_) => Err(anyhow!("it was not over after {} s", LONGEST.as_secs())),
    };
    let (mut felt, mut figures) = (None, String::new());
    match neighbour {
        Ok(None) => {}
        Ok(Some(neighbour)) => match neighbour.leave().await {
            Ok((measured, wrong)) => (figures, felt) = (measured, wrong),
            Err(error) => felt = Some(format!("{error:#}")),
        },
        Err(error) => felt = Some(format!("no neighbour: {error:#}")),
    }
    Report { job, stage, seen, neighbour: felt, figures, took: begin.elapsed() }
}

/// Whether a run has shown anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judgement {
    Decided,
    /// It ran into a deadline, or its neighbour did.
    Undecided,
}

/// Whatever was found on the host, and whatever got out, is decided at once.
fn judge(report: &Report, found: &[String]) -> Judgement {
    let is_undecided = match (&report.seen, report.job.mode) {
        (Ok(Seen::Breach(_)), Mode::Real) => false,
        (Ok(Seen::Held(_)), Mode::Real) => report.neighbour.is_some(),
        // A control whose attack came too late.
        (Ok(Seen::Held(_)), _) | (Ok(Seen::Late(_)) | Err(_), _) => true,
        (Ok(Seen::Breach(_) | Seen::NotHere(_)), _) => false,
    };
    if is_undecided && found.is_empty() { Judgement::Undecided } else { Judgement::Decided }
}

fn outcome(report: Report, wrong: Vec<String>) -> Outcome {
    let expects_breach = report.job.mode != Mode::Real;
    let (said, as_expected) = match &report.seen {
        Ok(Seen::NotHere(why)) => (format!("not here: {why}"), true),
        Ok(Seen::Held(text)) => (format!("HELD {text}"), !expects_breach),
        Ok(Seen::Breach(text)) => (format!("BREACH {text}"), expects_breach),
        Ok(Seen::Late(text)) => (format!("LATE {text}"), false),
        Err(error) => (format!("{error:#}"), false),
    };
    Outcome {
        id: report.job.attack.id,
        control: match report.job.mode {
            Mode::Real => None,
            Mode::Control(defences) => Some(format!("without {defences:?}")),
            Mode::OwnControl => Some("self-test".to_owned()),
        },
        said: if report.figures.is_empty() {
            said
        } else {
            format!("{said} [neighbour: {}]", report.figures)
        },
        wrong,
        not_here: matches!(report.seen, Ok(Seen::NotHere(_))),
        as_expected,
        took: report.took,
    }
}
