//! `belljar ask`: a question and some files in, an answer out, without any service.
//!
//! ```text
//!   model.rs: gateway ◄── worker ──► place.rs: sandboxes of this process, or of a server
//!                           │
//!                           ▼
//!                  journal in a directory ──► runs/teller.rs: what people see of it
//! ```

mod begin;
mod begun;
mod brief;
pub(super) mod model;
mod place;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, anyhow};
use belljar_agent::{Left, More, Settings, WorkError, Worker, try_again};
use belljar_domain::{RunId, Sequence};
use belljar_journal::event::{
    Body, Brief, CallDecision, ControlRequested, Environment, Finished, NetworkAccess, Outcome,
    Request, Verdict,
};
use belljar_journal::{
    Address, CallApproval, ClaimError, Event, Journal, ReadError, Watch, read_all,
};
use belljar_node::Gateway;
use belljar_objects::Shelf;
use belljar_pipeline::AgentKind;
use belljar_runs::TraceRecorder;
use belljar_sandboxes::RowQueue;
use belljar_server::{KEEP_ROWS, RowKeeper};
use belljar_telemetry::Role;
use time::OffsetDateTime;

use self::begun::Begun;
use self::brief::Replayed;
use self::model::Chosen;
use self::place::Sandboxes;
use super::dataset;
use super::runs::{self, Detail, Teller};
use crate::approvals;
use crate::cli::{Ask, trace_command};
use crate::config::Config;
use crate::output::{Hint as _, Printer, hinted, printable};
use crate::page::Page;
use crate::session::Interrupt;

const INTERRUPTED: u8 = 130;

pub(crate) async fn run(options: &Ask, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    check(options)?;
    let telemetry = trace_command(Role::Ask)?;
    let mut interrupt = Interrupt::new()?;
    let journal: Arc<dyn Journal> = Arc::new(runs::open(config)?);
    let (first, begun) = match &options.resume {
        Some(name) => {
            let address = runs::named(&*journal, name).await?;
            let begun = Begun::read(&*journal, &address).await?;
            begun.agrees(options)?;
            (address, begun)
        }
        None => (runs::address(runs::fresh_id()?), Begun::default()),
    };
    if let Some(out) = &options.out {
        // Before anything is paid for.
        make(out)?;
    }
    let rows = RowQueue::new().context("cannot get random numbers")?;
    let shelf = Shelf::new(config.data.join("datasets"));
    let replayed = match &options.brief.replay {
        Some(name) => Some(Replayed::find(name, &config.data, &*journal, &shelf).await?),
        None => None,
    };
    let gateways = Mutex::default();
    let asking = Asking {
        options,
        config,
        printer,
        template: begun.template(options),
        begun,
        replayed,
        shelf,
        journal,
        rows: rows.clone(),
        gateways: &gateways,
    };
    let keeper = RowKeeper::start(rows, Arc::new(runs::rows(config)), KEEP_ROWS);
    let asked = asking.ask(first, &mut interrupt).await;
    drop(asking);
    keeper.stop().await;
    for gateway in gateways.into_inner().unwrap_or_else(PoisonError::into_inner) {
        // It has heard by then of the rows that were stored.
        let _ = gateway.finish().await;
    }
    telemetry.stop().await;
    asked
}

/// Refuses what cannot be answered before a run is made of it.
fn check(options: &Ask) -> anyhow::Result<()> {
    let agent = options.agent.kind();
    if agent == AgentKind::Executor && options.agent.artifact.is_none() {
        let error = anyhow!("the agent `executor` runs a program that you made");
        return Err(hinted(error, "`belljar pipeline exec FILE` runs it"));
    }
    if agent.is_program() && options.model.gateway.is_none() {
        let error = anyhow!("the agent `{agent}` asks its model from inside of the sandbox");
        return Err(hinted(error, "pass the gateway configuration with --gateway; docs/agents.md"));
    }
    let is_new = options.resume.is_none() && options.brief.replay.is_none();
    let needs_data = is_new && agent.is_react();
    if options.data.is_empty() && needs_data && options.model.is_fixed_rules() {
        let error = anyhow!("there is no data to answer from");
        let hint = "--data names the files; a model that needs none is named with --model-url or \
                    --gateway";
        return Err(hinted(error, hint));
    }
    let has_gateway = options.model.gateway.is_some() || options.place.server.is_some();
    if !options.reaches.operations.is_empty() && !has_gateway {
        let error = anyhow!("--operations needs the gateway that has them");
        return Err(hinted(error, "pass its configuration with --gateway, or a --server"));
    }
    for path in &options.data {
        let meta = std::fs::metadata(path);
        let meta = meta.with_context(|| format!("cannot open `{}`", path.display()));
        dataset::check(path, &meta.hint("--data takes files; each needs a name of its own")?)?;
    }
    Ok(())
}

/// What all attempts have in common.
struct Asking<'a> {
    options: &'a Ask,
    config: &'a Config,
    printer: &'a Printer,
    template: String,
    begun: Begun,
    replayed: Option<Replayed>,
    journal: Arc<dyn Journal>,
    shelf: Shelf,
    /// Calls and connections on their way to the data directory.
    rows: RowQueue,
    /// Of models, whose last rows may not be stored yet.
    gateways: &'a Mutex<Vec<Gateway>>,
}

/// One run.
struct Attempt {
    address: Address,
    /// The tier and the limits of its sandboxes.
    environment: Environment,
    /// The network access of its sandboxes.
    network: NetworkAccess,
    /// Whether nobody has written anything of it down.
    is_new: bool,
}

/// An answer is better than what there was when something ended, and that better than
/// what there was when something broke.
fn worth(finished: &Finished) -> u8 {
    match finished.outcome {
        Outcome::Failed => 0,
        Outcome::Exhausted => 1,
        Outcome::Answered | Outcome::Cancelled => 2,
    }
}

impl Asking<'_> {
    /// Asks until there is an answer, or no attempt is left.
    async fn ask(&self, first: Address, interrupt: &mut Interrupt) -> anyhow::Result<u8> {
        let Self { options, config, printer, .. } = *self;
        printer.progress(format_args!("run {}", first.run));
        let mut attempt = self.attempt(first, options.resume.is_none()).await?;
        let mut best: Option<(Address, Finished)> = None;
        loop {
            let gateway = options.model.gateway.as_deref();
            let sandboxes =
                Sandboxes::open(&options.place, config, (&self.shelf, &self.rows), gateway).await?;
            let worked = tokio::select! {
                worked = self.work(&attempt, &sandboxes) => worked,
                () = interrupt.wait() => {
                    printer.always(format_args!(
                        "interrupted\nhint: `{}` resumes the run",
                        begun::again(options, &attempt.address.run)
                    ));
                    sandboxes.close().await;
                    return Ok(INTERRUPTED);
                }
            };
            let room = sandboxes.room(&self.template, &attempt.environment).await;
            let memory_bytes = room.ok().and_then(|room| sandboxes.larger(room.memory_bytes));
            sandboxes.close().await;
            let finished = worked?;
            if best.as_ref().is_none_or(|(_, before)| worth(&finished) >= worth(before)) {
                best = Some((attempt.address.clone(), finished));
            }
            // A recording is of one attempt.
            let is_recorded = options.brief.record.is_some() || self.is_replay();
            let retries = if is_recorded { 0 } else { options.retries };
            let more = More { attempts: retries.saturating_add(1), memory_bytes };
            let Some(next) = try_again(&*self.journal, &attempt.address, more).await? else {
                break;
            };
            attempt = self.attempt(next, false).await?;
        }
        let (address, finished) = best.context("no attempt was made")?;
        if !printer.is_json() {
            let answer = finished.result.unwrap_or_default();
            printer.data(match Page::of_terminal(config) {
                Some(page) => page.markdown(&printable(&answer)),
                None => answer,
            })?;
        }
        let delivered = self.deliver(&address).await;
        delivered.hint(format!(
            "`belljar ask --resume {} --out DIR` writes the files elsewhere without a new run",
            address.run
        ))?;
        Ok(match finished.outcome {
            Outcome::Answered => 0,
            Outcome::Exhausted => 3,
            Outcome::Cancelled => 4,
            Outcome::Failed => 5,
        })
    }
}

impl Asking<'_> {
    /// A run in the environment that it was begun with, or if it is new, that is asked for.
    async fn attempt(&self, address: Address, is_new: bool) -> anyhow::Result<Attempt> {
        let (environment, network) = match read_all(&*self.journal, &address).await {
            Ok(events) => {
                let view = belljar_journal::RunView::of(&events);
                (view.environment, view.network)
            }
            Err(ReadError::NoRun) => {
                (self.options.confines.environment(), self.options.reaches.access())
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Attempt { address, environment, network, is_new })
    }

    /// Returns true if a recording answers.
    fn is_replay(&self) -> bool {
        self.replayed.is_some() || self.begun.is_replay()
    }

    /// Works on a run until it is over.
    async fn work(&self, attempt: &Attempt, sandboxes: &Sandboxes) -> anyhow::Result<Finished> {
        let Self { options, printer, journal, .. } = self;
        let address = &attempt.address;
        let room = sandboxes.room(&self.template, &attempt.environment).await?;
        sandboxes.check_network(&attempt.network).await?;
        let choice = self.begun.choice(&options.model);
        let recorded = self.replayed.as_ref().map(|replayed| replayed.recording.model.as_str());
        let brief = match attempt.is_new {
            true => brief::read(options, self.replayed.as_ref(), &self.shelf)?,
            // It was checked when the run began.
            false => Brief::default(),
        };
        let chosen = match self.is_replay() {
            true => Chosen::recorded(&choice, recorded),
            false => {
                Chosen::open(&choice, self.config, address, (journal, &self.rows), &brief).await?
            }
        };
        if attempt.is_new {
            self.begin(attempt, &chosen, room, brief).await?;
        }
        let settings = Settings {
            owner: format!("ask-{}", std::process::id()),
            template: self.template.clone(),
            data: room.data,
            ..Settings::default()
        };
        let settings = match options.model.max_output {
            Some(most) => Settings { max_output: most.into(), ..settings },
            None => settings,
        };
        let worker = Worker::new(
            journal.clone(),
            sandboxes.client.clone(),
            chosen.provider.clone(),
            Arc::new(self.shelf.clone()),
            chosen.prices.clone(),
            settings,
        );
        let worker = worker.observed_by(Arc::new(TraceRecorder));
        let before = read_all(&**journal, address).await.hint("`belljar runs list` shows runs")?;
        let detail = if options.verbose { Detail::Full } else { Detail::Brief };
        let teller = Teller::new(detail, Page::of_progress(self.config));
        let telling = tell(journal.clone(), address.clone(), before, teller, **printer);
        let telling = tokio::spawn(telling);
        let worked = work(&worker, journal, address, options, printer).await;
        let gateway = chosen.close().await;
        self.gateways.lock().unwrap_or_else(PoisonError::into_inner).extend(gateway);
        worked?;
        telling.await.context("cannot follow the run")??;
        let events = read_all(&**journal, address).await?;
        belljar_journal::RunView::of(&events).finished.context("the run has no end event")
    }
}

/// Works until the run is over, and waits while it is paused.
async fn work(
    worker: &Worker,
    journal: &Arc<dyn Journal>,
    address: &Address,
    options: &Ask,
    printer: &Printer,
) -> anyhow::Result<()> {
    loop {
        let left = worker.work(address).await;
        match left {
            // Nobody tells this worker to stop.
            Ok(Left::Finished | Left::Stopped) | Err(WorkError::Claim(ClaimError::Finished)) => {
                return Ok(());
            }
            Ok(Left::Newer(seq)) => {
                return Err(anyhow!("event {seq} was written by a newer version of belljar"));
            }
            Ok(Left::Paused) => {
                let view = belljar_journal::RunView::of(&read_all(&**journal, address).await?);
                if let Some(asked) = view.undecided() {
                    decide(journal, address, asked).await?;
                    continue;
                }
                let (what, verb) = match view.question {
                    Some(_) => ("waiting for an answer", "answer"),
                    None => ("paused", "resume"),
                };
                printer.note(format_args!(
                    "{what}\nhint: continue with `belljar runs {verb} {}` in another terminal",
                    address.run
                ));
                wait_for_more(journal, address).await?;
            }
            Err(WorkError::Claim(ClaimError::Held { owner })) => {
                let error = anyhow!("`{owner}` is working on this run");
                let hint = format!("`belljar runs watch {}` follows it", address.run);
                return Err(hinted(error, hint));
            }
            Err(error) => {
                let hint = format!("`{}` resumes the run", begun::again(options, &address.run));
                return Err(hinted(error, hint));
            }
        }
    }
}

/// Asks on the terminal for the approval of a call, and writes the decision down.
async fn decide(
    journal: &Arc<dyn Journal>,
    address: &Address,
    asked: &CallApproval,
) -> anyhow::Result<()> {
    let left = asked.until - OffsetDateTime::now_utc();
    let left = std::time::Duration::try_from(left).unwrap_or_default();
    let answering = approvals::ask_for_call(asked.tool.clone());
    let (verdict, message) = match tokio::time::timeout(left, answering).await {
        Err(_) => (Verdict::Expired, None),
        Ok(answer) if answer.is_approved => (Verdict::Approved, None),
        Ok(answer) => (Verdict::Denied, answer.message),
    };
    let decision = CallDecision { call: asked.call.clone(), verdict, message };
    let request = ControlRequested { request: Request::Decide { decision }, by: "terminal".into() };
    let asked = journal.request(address, request, None).await;
    asked.context("cannot write the decision down").map(drop)
}

/// Waits until somebody wants a paused run to go on, or to end.
async fn wait_for_more(journal: &Arc<dyn Journal>, address: &Address) -> anyhow::Result<()> {
    let events = read_all(&**journal, address).await?;
    let is_wanted = |events: &[belljar_journal::Event]| {
        let view = belljar_journal::RunView::of(events);
        !matches!(view.next(), belljar_journal::Next::Rest)
    };
    let mut events = events;
    let next = Sequence(events.len() as u64 + 1);
    let mut watch = Watch::new(journal.clone(), address.clone(), next);
    while !is_wanted(&events) {
        match watch.next().await? {
            Some(event) => events.push(event),
            None => return Ok(()),
        }
    }
    Ok(())
}

/// Shows events as they come, until the run is over; of those that were there before,
/// only how this run began, if nothing else has happened in it.
async fn tell(
    journal: Arc<dyn Journal>,
    address: Address,
    mut before: Vec<Event>,
    mut teller: Teller,
    printer: Printer,
) -> anyhow::Result<()> {
    let is_beginning =
        |event: &mut Event| matches!(event.body, Body::RunCreated(_) | Body::ForkedFrom(_));
    let _ = before.pop_if(is_beginning);
    before.iter().for_each(|event| drop(teller.tell(event)));
    let run = address.run.clone();
    let mut watch = Watch::new(journal, address, Sequence(before.len() as u64 + 1));
    while let Some(event) = watch.next().await? {
        if printer.is_json() {
            printer.data(runs::line(&run, &event)?)?;
        } else if let Some(text) = teller.tell(&event) {
            printer.progress(text);
        }
    }
    Ok(())
}

impl Asking<'_> {
    /// Writes what a run made into the directory that was named; otherwise, it stays with the run.
    async fn deliver(&self, address: &Address) -> anyhow::Result<()> {
        let events = read_all(&*self.journal, address).await?;
        let view = belljar_journal::RunView::of(&events);
        if view.artifacts.is_empty() {
            return Ok(());
        }
        let Some(out) = self.options.out.clone() else {
            let names: Vec<&str> = view.artifacts.iter().map(|made| made.name.as_str()).collect();
            self.printer.note(format_args!(
                "files kept with the run: {}\nhint: `belljar ask --resume {} --out DIR` writes them",
                names.join(", "),
                short(&address.run)
            ));
            return Ok(());
        };
        make(&out)?;
        let mut names = Vec::new();
        for artifact in &view.artifacts {
            // A name comes from inside: it is one of a file, and no path.
            let name = Path::new(&artifact.name).file_name().unwrap_or_default();
            let path = out.join(name);
            let content = self.journal.get_blob(address, &artifact.content).await?;
            std::fs::write(&path, content)
                .with_context(|| format!("cannot write `{}`", path.display()))?;
            names.push(path.display().to_string());
        }
        self.printer.note(format_args!("files: {}", names.join(", ")));
        Ok(())
    }
}

fn make(out: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(out)
        .with_context(|| format!("cannot create `{}`", out.display()))
        .hint("choose another directory with --out")
}

fn short(run: &RunId) -> &str {
    &run.as_str()[..8]
}
