//! `belljar agent run`: a program that is an agent, in a sandbox of its own.
//!
//! ```text
//!   task ──► how a program is started ──► sandbox ──► 127.0.0.1:3128 ──► gateway ──► model
//!                                           │
//!   report.rs ◄── show.rs ◄── follow.rs: its events
//!                                  └──► record.rs: a run in the journal of this machine
//! ```
//!
//! The program reaches the operations that its token has, and nothing else. What
//! it used and what that cost is read from the gateway's log, never from what it
//! says itself.

mod choose;
mod follow;
mod record;
mod remote;
mod report;
mod show;

use std::time::Duration;

use anyhow::Context as _;
use belljar_agent::ProgramRecorder;
use belljar_agent::program::{Known, Program, Task, Turns, program};
use belljar_domain::Limits;
use belljar_domain::approval::ToolApprovals;
use belljar_node::{Input, Tag};
use belljar_peer_proto::gateway::{Budget, PORT};

use self::choose::Choice;
use self::report::Outcome;
use self::show::Show;
use super::call;
use crate::cli::{Agent, AgentAction, AgentRun, OWN_TEMPLATE};
use crate::config::Config;
use crate::network::Terms;
use crate::output::Printer;
use crate::session::{self, Session};

/// How long a program may take when nobody says otherwise.
const TIME: Duration = Duration::from_secs(30 * 60);

pub(crate) async fn run(options: &Agent, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    match &options.action {
        AgentAction::Run(options) => match &options.server {
            Some(url) => remote::give(url, options, config, printer).await,
            None => give(options, config, printer).await,
        },
    }
}

/// Gives the task to the program.
async fn give(options: &AgentRun, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    let program = program(options.program.kind()).context("there is no such program")?;
    let choice = choose::choose(program, &options.sandbox.network, options.model.as_deref())?;
    let mut sandbox = options.sandbox.clone();
    if sandbox.template == OWN_TEMPLATE {
        program.template.clone_into(&mut sandbox.template);
    }
    sandbox.network.operation.clone_from(&choice.operations);
    sandbox.network.terms = Terms {
        agent: Some(program.name.to_owned()),
        budget: budget(program, options),
        approvals: approvals(options),
    };
    if options.turns.is_some() && program.task == Task::Argument {
        printer.note(format_args!(
            "note: {} supports no turn warnings; the gateway ends it after the last turn",
            program.name
        ));
    }
    let defaults = Limits { wall: TIME, ..Limits::default() };
    let mut recorder: Option<ProgramRecorder> = None;
    let mut outcome = None;
    let act = async |session: &Session| -> anyhow::Result<u8> {
        session.prepare(&sandbox, printer).await?;
        let begun = record::begin(program, &choice, options, &sandbox.template, config).await?;
        let recorder = recorder.insert(begun);
        let done = work(session, program, &choice, options, printer, recorder).await?;
        session.collect(&sandbox, &done.followed.end, printer).await?;
        let status = done.status();
        outcome = Some(done);
        Ok(status)
    };
    let acted = session::within_traffic(&sandbox, defaults, config, printer, act).await;
    let error = acted.as_ref().err().map(ToString::to_string);
    let traffic = acted.as_ref().ok().and_then(|(_, traffic)| traffic.clone()).unwrap_or_default();
    if let Some(recorder) = recorder {
        record::finish(recorder, outcome.as_ref(), error, &traffic).await?;
    }
    let (status, _) = acted?;
    if let Some(outcome) = outcome {
        report::report(program, &outcome, &traffic, printer)?;
    }
    Ok(status)
}

/// What the token may spend.
fn budget(program: &Program, options: &AgentRun) -> Option<Budget> {
    let requests = match program.turns {
        Turns::Requests => options.turns.map(u64::from),
        Turns::Arguments(_) => None,
    };
    let nano_dollars = options.budget_nano_dollars;
    let budget = Budget { requests, nano_dollars, ..Budget::default() };
    (budget != Budget::default()).then_some(budget)
}

/// The tool calls that wait for the human at the terminal.
fn approvals(options: &AgentRun) -> Option<ToolApprovals> {
    let approvals =
        ToolApprovals { policy: options.approve.clone(), seconds: options.approval_seconds };
    (!approvals.is_never()).then_some(approvals)
}

/// Runs the program as one call.
async fn work(
    session: &Session,
    program: &'static Program,
    choice: &Choice,
    options: &AgentRun,
    printer: &Printer,
    recorder: &mut ProgramRecorder,
) -> anyhow::Result<Outcome> {
    let gateway = format!("http://127.0.0.1:{PORT}");
    let known = Known {
        task: &options.task,
        model: &choice.model,
        gateway: &gateway,
        turns: options.turns,
        session: None,
    };
    let mut command = session.command(program.argv(&known), &options.sandbox);
    // What was said with --env holds.
    let given = std::mem::take(&mut command.env);
    command.env = program.env(&known).map(|(name, value)| (name.into(), value.into())).collect();
    command.env.extend(given);
    command.input = match program.task {
        Task::Argument => Input::Empty,
        Task::Message => Input::Stream,
    };
    command.tag = Tag { name: Some(program.name.to_owned()), ..Tag::default() };
    let before = call::changed(session).await;
    let mut show = Show::new(*printer);
    show.started(session, program, choice)?;
    record::start(recorder, session).await?;
    let started = session.sandbox.start(&command).await;
    let call = started.with_context(|| format!("cannot run `{}`", program.name))?;
    let followed = follow::follow(call, program, options, &mut show, recorder).await?;
    let after = call::changed(session).await;
    let ours = before.map_or_else(Vec::new, |listing| listing.entries);
    let left = after.map_or_else(Vec::new, |listing| listing.entries);
    let is_work = |path: &[u8]| !program.owns(&String::from_utf8_lossy(path));
    let left = left.iter().filter(|entry| !ours.contains(entry) && is_work(&entry.path));
    let files = left.map(call::file).collect();
    let held = show.finish();
    Ok(Outcome { followed, files, held, limits: session.limits.clone() })
}
