//! Does the runs of one lane, and judges them.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use belljar_domain::{RootFs, Spec, Tier};
use belljar_node::{Node, Weakened};
use belljar_template::{Lease, Template};
use belljar_testkit::{Attempt, CapturedLog, CaseLog, OwnEngines, print_retry};
use tempfile::TempDir;

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
use crate::plan::{Job, Mode};
use crate::report::Outcome;

/// No run may take longer; one that does hangs.
const LONGEST: Duration = Duration::from_secs(180);

/// Does runs, one at a time.
#[derive(Debug)]
pub(crate) struct Suite {
    stage: Stage,
    oracle: Oracle,
    log: CaseLog,
    _lease: Lease,
    _state: TempDir,
}

impl Suite {
    /// Starts the engine, and shows that what goes wrong would be seen.
    pub(crate) async fn start(
        options: &Options,
        attacks: &[Attack],
        programs: Programs,
        planted: Planted,
    ) -> anyhow::Result<Self> {
        let template = host_template()?;
        let lease = template.lease()?;
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
        anyhow::ensure!(
            options.stage == Made::Plain || warm.is_some(),
            "there is no warm template"
        );
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
        Ok(Self { oracle, stage, log, _lease: lease, _state: state })
    }

    /// Does a run, again if it decided nothing while the host stole the CPU.
    pub(crate) async fn run(&mut self, job: Job) -> anyhow::Result<Outcome> {
        let mut attempt = Attempt::first();
        loop {
            let (judgement, outcome) = self.attempt(job).await;
            match attempt.repeats_for_steal() {
                Some(steal) if judgement == Judgement::Undecided => {
                    let (case, why) = (outcome.case(), outcome.why());
                    print_retry(&case, steal, &why);
                    self.log.retried(&case, outcome.took, steal, &why)?;
                }
                _ => {
                    self.log.ended(&outcome.case(), outcome.took, outcome.logged())?;
                    return Ok(outcome);
                }
            }
            attempt = attempt.next(tokio::time::sleep).await;
        }
    }

    /// Does the run once, then asks the oracle.
    async fn attempt(&mut self, job: Job) -> (Judgement, Outcome) {
        let weakened = match job.mode {
            Mode::Control(defences) => Weakened::without_all(defences),
            Mode::Real | Mode::OwnControl => Weakened::default(),
        };
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let stage = Stage { weakened, ledger, ..self.stage.clone() };
        let mut report = Box::pin(perform(job, stage)).await;
        let is_real = job.mode == Mode::Real;
        let mut wrong = Vec::new();
        if let Err(error) = report.stage.clear().await {
            wrong.push(format!("{error:#}"));
        }
        let (traces, output) = {
            let mut ledger = report.stage.ledger();
            (std::mem::take(&mut ledger.traces), std::mem::take(&mut ledger.output))
        };
        wrong.extend(self.oracle.residue(&traces).await);
        if is_real {
            wrong.extend(self.leaked(&output));
        }
        wrong.extend(self.oracle.host().await);
        let touched = self.oracle.touched();
        let logged = self.oracle.logged();
        wrong.extend(self.oracle.grown(!is_real).await);
        // With a defence off, canaries are there to be touched.
        if is_real {
            wrong.extend(logged);
            wrong.extend(touched);
        } else {
            wrong.extend(touched.into_iter().filter(|line| line.starts_with("kernel:")));
        }
        let judgement = judge(&report, &wrong);
        wrong.extend(report.neighbour.take());
        (judgement, outcome(report, wrong))
    }

    fn leaked(&self, output: &[u8]) -> Vec<String> {
        let secrets = self.stage.canaries().secrets.clone();
        let has = |secret: &str| output.windows(secret.len()).any(|part| part == secret.as_bytes());
        let found = secrets.all().into_iter().filter(|secret| has(secret));
        found.map(|secret| format!("a canary secret was printed: {}…", &secret[..12])).collect()
    }
}

/// Makes the template of plain sandboxes, or finds it.
pub(crate) fn host_template() -> anyhow::Result<Template> {
    let store = std::env::temp_dir().join("belljar-attacks-store");
    belljar_template::host::prepare(&store).context("cannot make the template")
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
pub(crate) fn log_name(options: &Options) -> String {
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

async fn perform(job: Job, stage: Stage) -> Report {
    let begin = Instant::now();
    let watched = job.attack.alone.is_some() && job.mode == Mode::Real;
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
        id: report.job.attack.id.to_owned(),
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
