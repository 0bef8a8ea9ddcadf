//! `belljar agent run --server`: the run of a server or a platform, followed to its end.

use std::time::Duration;

use anyhow::Context as _;
use belljar_agent::program::{Program, ProgramEvent, program};
use belljar_api::run::{CreateRun, FollowRun};
use belljar_client::{Client, Error, RunNews};
use belljar_journal::event::{Block, Body, Event, Injected, Outcome};
use belljar_journal::{PROGRAM_CALL, RunView};
use serde_json::{Value, json};

use super::report::dollars;
use super::show::Show;
use crate::cli::{AgentRun, OWN_TEMPLATE};
use crate::commands::{runs, server};
use crate::config::Config;
use crate::output::{Hint as _, Printer, printable};

/// Pause before a stream that broke is taken up again.
const PAUSE: Duration = Duration::from_secs(1);

/// Has the server run the program, and tells what it does.
pub(super) async fn give(
    url: &str,
    options: &AgentRun,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let program = program(options.program.kind()).context("there is no such program")?;
    let client = server::client(url, options.server_key.as_deref(), config)?;
    let wish: CreateRun = serde_json::from_value(wish(program, options))?;
    let made = client.create_run(&wish, None).await.context("cannot create the run");
    let run = made.hint("docs/agents.md says what a server needs for agents")?.id;
    printer.note(format_args!("run {run}"));
    let view = follow(&client, &run, printer).await?;
    report(program, &run, &view, printer)
}

/// The request for the run.
fn wish(program: &Program, options: &AgentRun) -> Value {
    let sandbox = &options.sandbox;
    let mut wish = json!({
        "question": options.task,
        "agent": program.name,
        "budget": { "turns": options.turns, "nano_dollars": options.budget_nano_dollars },
        "limits": {},
    });
    let mut set = |name: &str, value: Value| {
        if !value.is_null() {
            wish[name] = value;
        }
    };
    set("model", json!(options.model));
    set("tier", json!(sandbox.tier.map(|tier| tier.as_str())));
    let template = Some(&sandbox.template).filter(|name| *name != OWN_TEMPLATE);
    set("template", json!(template));
    let mut operations = sandbox.network.operation.iter();
    // The first one is the model's; others are for the program, such as git.
    set("operation", json!(operations.next()));
    let others: Vec<&String> = operations.collect();
    if !others.is_empty() {
        set("operations", json!(others));
    }
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut limits = serde_json::Map::new();
    limits.extend(sandbox.memory.map(|bytes| ("memory_bytes".to_owned(), json!(bytes))));
    limits.extend(sandbox.disk.map(|bytes| ("disk_bytes".to_owned(), json!(bytes))));
    limits.extend(sandbox.time.map(|time| ("wall_ms".to_owned(), json!(millis(time)))));
    set("limits", Value::Object(limits));
    wish
}

/// Tells events as they come, until the run is over. A stream that breaks is taken up again.
async fn follow(client: &Client, run: &str, printer: &Printer) -> anyhow::Result<RunView> {
    let mut show = Show::new(*printer);
    let mut view = RunView::default();
    loop {
        let next = view.head.0 + 1;
        let from = next.try_into().map_err(|error| anyhow::anyhow!("{next}: {error}"))?;
        let query = FollowRun { from: Some(from), deltas: None };
        let mut news = client.follow_run(run, &query).await?;
        loop {
            match news.next().await {
                Ok(Some(RunNews::Event(event))) => {
                    let event = runs::read_event(event)?;
                    view.apply(&event);
                    for told in told(&event) {
                        show.event(told)?;
                    }
                    if view.finished.is_some() {
                        return Ok(view);
                    }
                }
                Ok(Some(RunNews::Delta(_))) => {}
                Ok(None) | Err(Error::Transport(_)) => break,
                Err(error) => return Err(error.into()),
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// An event of the journal, as the program told it.
fn told(event: &Event) -> Vec<ProgramEvent> {
    match &event.body {
        Body::LlmResponded(answer) => answer.blocks.iter().filter_map(said).collect(),
        Body::ToolFinished(finished) if !finished.call.id.starts_with(PROGRAM_CALL) => {
            vec![ProgramEvent::ToolResult {
                id: finished.call.id.clone(),
                output: finished.shown.clone(),
                is_error: finished.fault.is_some(),
            }]
        }
        Body::InjectedMessage(message) => match message.kind {
            Injected::TurnsLeft3 => vec![ProgramEvent::Warning { turns_left: 3 }],
            Injected::TurnsLeft1 => vec![ProgramEvent::Warning { turns_left: 1 }],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn said(block: &Block) -> Option<ProgramEvent> {
    match block {
        Block::Text { text } => Some(ProgramEvent::Text { text: text.clone() }),
        Block::ToolUse { id, name, input } => {
            let (id, tool, input) = (id.clone(), name.clone(), input.clone());
            Some(ProgramEvent::ToolCall { id, tool, input })
        }
        Block::Thinking { .. } | Block::Opaque { .. } => None,
    }
}

/// Prints the answer, and then what it took.
fn report(program: &Program, run: &str, view: &RunView, printer: &Printer) -> anyhow::Result<u8> {
    let finished = view.finished.as_ref().context("the run has no end")?;
    let is_well = finished.outcome == Outcome::Answered;
    let text = finished.result.as_deref().filter(|_| is_well).unwrap_or_default();
    let error = finished.message.as_deref().filter(|_| !is_well);
    let spent = &view.spent;
    let files: Vec<&str> = view.artifacts.iter().map(|made| made.name.as_str()).collect();
    if printer.is_json() {
        printer.data(json!({
            "type": "result",
            "run": run,
            "ok": is_well,
            "text": text,
            "error": error,
            "turns": view.turns,
            "tokens": spent.tokens,
            "nano_dollars": spent.nano_dollars,
            "dollars": dollars(spent.nano_dollars),
            "files": files,
        }))?;
        return Ok(u8::from(!is_well));
    }
    if is_well && !text.is_empty() {
        printer.data(printable(text))?;
    }
    if !is_well {
        let why = error.unwrap_or(finished.outcome.as_str());
        printer.always(format_args!("{}: failed: {why}", program.name));
    }
    printer.note(format_args!(
        "{}: {} turns, {} tokens, ${}, files: {}\nhint: `belljar runs show {run} --server URL` \
         shows the run",
        program.name,
        view.turns,
        spent.tokens.total(),
        dollars(spent.nano_dollars),
        if files.is_empty() { "none".to_owned() } else { files.join(", ") },
    ));
    Ok(u8::from(!is_well))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{AgentAction, Cli, Command};

    fn asked(more: &[&str]) -> Value {
        let line =
            ["belljar", "agent", "run", "--program", "codex", "--server", "http://a", "do it"];
        let Command::Agent(agent) = Cli::parse_from(line.iter().chain(more)).command else {
            panic!()
        };
        let AgentAction::Run(options) = agent.action;
        wish(program(options.program.kind()).unwrap(), &options)
    }

    #[test]
    fn a_request_has_what_was_asked_for_and_no_more() {
        let plain = asked(&[]);
        assert_eq!((plain["agent"].as_str(), plain.get("template")), (Some("codex"), None));
        let full =
            asked(&["--turns", "4", "--operation", "openai", "--operation", "git", "--time", "9s"]);
        assert_eq!(full["operation"], "openai");
        assert_eq!(full["operations"], json!(["git"]));
        assert_eq!(
            (&full["budget"]["turns"], &full["limits"]["wall_ms"]),
            (&json!(4), &json!(9000))
        );
        for wish in [plain, full] {
            serde_json::from_value::<CreateRun>(wish).unwrap();
        }
    }

    #[test]
    fn the_programs_own_call_is_not_told_as_one_of_its_model() {
        let finished = |id: &str| {
            let event = json!({
                "seq": 2, "at": "2026-01-02T03:04:05Z", "kind": "tool_finished", "v": 1,
                "call": { "turn": 1, "id": id }, "reason": "done", "shown": "out",
                "used": { "wall_micros": 0, "cpu_micros": 0, "written_bytes": 0, "output_bytes": 3 },
            });
            told(&serde_json::from_value(event).unwrap()).len()
        };
        assert_eq!((finished("t"), finished("belljar:program:1")), (1, 0));
    }
}
