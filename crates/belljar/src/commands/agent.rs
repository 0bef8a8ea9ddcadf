//! `belljar agent run`: a program that is an agent, in a sandbox of its own.
//!
//! ```text
//!   task ──► program.rs: how it is started ──► sandbox ──► 127.0.0.1:3128 ──► gateway ──► model
//!                                                │
//!            report.rs ◄── show.rs ◄── dialect.rs: one form of its events
//! ```
//!
//! The program reaches the operations that its token has, and nothing else. What
//! it used and what that cost is read from the gateway's log, never from what it
//! says itself.

mod choose;
mod dialect;
mod follow;
mod program;
mod report;
mod show;

use std::time::Duration;

use anyhow::Context as _;
use belljar_bus::gateway::{Budget, PORT};
use belljar_model::Limits;
use belljar_model::approval::ToolApprovals;
use belljar_node::{Input, Tag};

use self::choose::Choice;
use self::program::{Description, Known, Task, Turns};
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
        AgentAction::Run(options) => give(options, config, printer).await,
    }
}

/// Gives the task to the program.
async fn give(options: &AgentRun, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    let program = program::description(options.program);
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
    let mut outcome = None;
    let act = async |session: &Session| -> anyhow::Result<u8> {
        session.prepare(&sandbox, printer).await?;
        let done = work(session, program, &choice, options, printer).await?;
        session.collect(&sandbox, &done.followed.end, printer).await?;
        let status = done.status();
        outcome = Some(done);
        Ok(status)
    };
    let (status, traffic) =
        session::within_traffic(&sandbox, defaults, config, printer, act).await?;
    if let Some(outcome) = outcome {
        report::report(program, &outcome, &traffic.unwrap_or_default(), printer)?;
    }
    Ok(status)
}

/// What the token may spend.
fn budget(program: &Description, options: &AgentRun) -> Option<Budget> {
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
    program: &'static Description,
    choice: &Choice,
    options: &AgentRun,
    printer: &Printer,
) -> anyhow::Result<Outcome> {
    let gateway = format!("http://127.0.0.1:{PORT}");
    let known = Known {
        task: &options.task,
        model: &choice.model,
        gateway: &gateway,
        turns: options.turns,
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
    let started = session.sandbox.start(&command).await;
    let call = started.with_context(|| format!("cannot run `{}`", program.name))?;
    let followed = follow::follow(call, program, options, &mut show).await?;
    let after = call::changed(session).await;
    let ours = before.map_or_else(Vec::new, |listing| listing.entries);
    let left = after.map_or_else(Vec::new, |listing| listing.entries);
    let is_work = |path: &[u8]| !program.owns(&String::from_utf8_lossy(path));
    let left = left.iter().filter(|entry| !ours.contains(entry) && is_work(&entry.path));
    let files = left.map(call::file).collect();
    let held = show.finish();
    Ok(Outcome { followed, files, held, limits: session.limits.clone() })
}
