//! `belljar workflow`: here, or on a server or a platform.

mod local;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use belljar_api::workflow::{CreateWorkflow, ListWorkflows, Workflow, WorkflowInput};
use belljar_client::Client;
use belljar_workflow::{DefinitionError, InputKind, check, graph};

use super::server;
use crate::cli::{self, WorkflowAction, WorkflowRun};
use crate::config::Config;
use crate::output::{Hint as _, Printer, hinted, printable};
use crate::page::{Align, Grid, Page};
use crate::session::Interrupt;
use local::Local;

const POLL: Duration = Duration::from_millis(300);
/// The status after Ctrl-C, as shells show it.
const INTERRUPTED: u8 = 130;
const LIST: &str = "`belljar workflow list` shows workflows and their ids";

pub(crate) async fn run(
    options: &cli::Workflow,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    match &options.action {
        WorkflowAction::Validate { file } => return validate(file, printer),
        WorkflowAction::Graph { file, out } => return draw(file, out.as_deref(), printer),
        _ => {}
    }
    let gateway = match &options.action {
        WorkflowAction::Run(run) => run.gateway.as_deref(),
        _ => None,
    };
    let local = match &options.server {
        Some(_) => None,
        None => Some(Local::open(config, gateway).await?),
    };
    let client = match (&options.server, &local) {
        (Some(url), _) => server::client(url, options.server_key.as_deref(), config)?,
        (None, Some(local)) => local.client(),
        (None, None) => return Err(anyhow!("there is no server")),
    };
    let command =
        Command { client, local: local.as_ref(), printer, page: Page::of_terminal(config) };
    let done = match &options.action {
        WorkflowAction::Run(run) => command.run(run).await,
        WorkflowAction::List { limit } => command.list(*limit).await,
        WorkflowAction::Show { workflow } => command.show(workflow).await,
        WorkflowAction::Cancel { workflow } => command.cancel(workflow).await,
        WorkflowAction::Validate { .. } | WorkflowAction::Graph { .. } => Ok(0),
    };
    if let Some(local) = local {
        local.close().await;
    }
    done
}

fn read(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file);
    text.with_context(|| format!("cannot read `{}`", file.display()))
}

fn invalid(file: &Path, error: &DefinitionError) -> anyhow::Error {
    let lines: Vec<_> =
        error.0.iter().map(|problem| format!("{}: {problem}", file.display())).collect();
    hinted(anyhow!("{}", lines.join("\n")), "docs/workflows.md describes the file")
}

fn validate(file: &Path, printer: &Printer) -> anyhow::Result<u8> {
    let definition = check(&read(file)?).map_err(|error| invalid(file, &error))?;
    if printer.is_json() {
        printer.document(&definition)?;
    } else {
        let steps = definition.steps.len();
        printer.data(format_args!("{}: {steps} steps, no mistakes", definition.name))?;
    }
    Ok(0)
}

fn draw(file: &Path, out: Option<&Path>, printer: &Printer) -> anyhow::Result<u8> {
    let definition = check(&read(file)?).map_err(|error| invalid(file, &error))?;
    let svg = graph(&definition, None);
    match out {
        Some(path) => std::fs::write(path, svg)
            .with_context(|| format!("cannot write `{}`", path.display()))?,
        None => printer.data(svg.trim_end())?,
    }
    Ok(0)
}

struct Command<'a> {
    client: Client,
    local: Option<&'a Local>,
    printer: &'a Printer,
    page: Option<Page>,
}

impl Command<'_> {
    async fn run(&self, options: &WorkflowRun) -> anyhow::Result<u8> {
        let mut interrupt = Interrupt::new()?;
        let id = match (&options.resume, &options.file) {
            (Some(id), _) => id.clone(),
            (None, Some(file)) => self.create(file, &options.inputs).await?,
            (None, None) => return Err(anyhow!("there is no workflow to run")),
        };
        let workflow = tokio::select! {
            ended = self.follow(&id) => ended?,
            () = interrupt.wait() => {
                self.printer.note(format_args!(
                    "interrupted; go on with `belljar workflow run --resume {id}`"
                ));
                return Ok(INTERRUPTED);
            }
        };
        if let Some(directory) = &options.out {
            self.save(&workflow, directory).await?;
        }
        self.print(&workflow)?;
        Ok(u8::from(workflow.state != "done"))
    }

    async fn create(&self, file: &Path, inputs: &[String]) -> anyhow::Result<String> {
        let text = read(file)?;
        let definition = check(&text).map_err(|error| invalid(file, &error))?;
        let mut given = BTreeMap::new();
        for input in inputs {
            let (name, value) = input.split_once('=').context("--input is NAME=PATH")?;
            let input = match definition.inputs.get(name) {
                Some(InputKind::File) => {
                    let content = read(Path::new(value))?;
                    WorkflowInput { content: Some(content), ..WorkflowInput::default() }
                }
                Some(InputKind::Value) => {
                    // A text needs no quotes.
                    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
                    WorkflowInput { value: Some(value), ..WorkflowInput::default() }
                }
                None => return Err(anyhow!("the workflow has no input `{name}`")),
            };
            given.insert(name.to_owned(), input);
        }
        let definition = text.try_into().map_err(|error| anyhow!("the file: {error}"))?;
        let new = CreateWorkflow { definition, inputs: given };
        let made = self.client.create_workflow(&new, None).await;
        let made = made.context("cannot create the workflow")?;
        self.printer.note(format_args!("workflow {}", made.id));
        Ok(made.id)
    }

    /// Waits for the end, and says what changes.
    async fn follow(&self, id: &str) -> anyhow::Result<Workflow> {
        if let Some(local) = self.local {
            Box::pin(local.work_on(id)).await?;
        }
        let mut said: BTreeMap<String, String> = BTreeMap::new();
        loop {
            let workflow = self.client.workflow(id).await.hint(LIST)?;
            for step in &workflow.steps {
                let before = said.insert(step.name.clone(), step.state.clone());
                if step.state != "waiting" && before.as_ref() != Some(&step.state) {
                    self.printer.note(format_args!("{}: {}", printable(&step.name), step.state));
                }
            }
            if workflow.state != "running" {
                return Ok(workflow);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn save(&self, workflow: &Workflow, directory: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot create `{}`", directory.display()))?;
        for (name, output) in &workflow.outputs {
            // A name with directories would leave the directory.
            let is_plain = !name.contains(['/', '\0']) && name != "." && name != "..";
            if output.file.is_none() || !is_plain {
                continue;
            }
            let content = self.client.workflow_file(&workflow.id, name).await;
            let content = content.with_context(|| format!("cannot read the output `{name}`"))?;
            let path = directory.join(name);
            std::fs::write(&path, content)
                .with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        Ok(())
    }

    fn print(&self, workflow: &Workflow) -> anyhow::Result<()> {
        if self.printer.is_json() {
            return self.printer.document(workflow);
        }
        if let Some(error) = &workflow.error {
            self.printer.note(format_args!("{}: {}", workflow.state, printable(error)));
        }
        for (name, output) in &workflow.outputs {
            let text = match (&output.file, &output.value) {
                (Some(file), _) => format!("{} bytes, sha256 {}", file.bytes, file.sha256),
                (None, Some(serde_json::Value::String(text))) => text.clone(),
                (None, value) => value.as_ref().map(ToString::to_string).unwrap_or_default(),
            };
            self.printer.data(format_args!("{}: {}", printable(name), printable(&text)))?;
        }
        Ok(())
    }

    async fn show(&self, id: &str) -> anyhow::Result<u8> {
        let workflow = self.client.workflow(id).await.hint(LIST)?;
        if self.printer.is_json() {
            self.printer.document(&workflow)?;
            return Ok(0);
        }
        let rows = workflow.steps.iter().map(|step| {
            let reason = printable(step.reason.as_deref().unwrap_or_default());
            let (name, attempts) = (printable(&step.name), step.attempts.len().to_string());
            vec![name, step.kind.clone(), step.state.clone(), attempts, reason]
        });
        self.table(&["STEP", "KIND", "STATE", "ATTEMPTS", "REASON"], rows.collect())?;
        self.printer.note(format_args!("{}: {}", workflow.id, workflow.state));
        self.print(&workflow)?;
        Ok(0)
    }

    async fn list(&self, limit: u64) -> anyhow::Result<u8> {
        let limit = limit.try_into().map_err(|error| anyhow!("--limit: {error}"))?;
        let found = self.client.workflows(&ListWorkflows { limit: Some(limit) }).await;
        let found = found.context("cannot list workflows")?;
        if self.printer.is_json() {
            self.printer.document(&found.items)?;
            return Ok(0);
        }
        let rows = found.items.into_iter().map(|line| {
            vec![
                line.id,
                line.state,
                line.events.to_string(),
                line.made_at.0,
                printable(&line.name),
            ]
        });
        self.table(&["WORKFLOW", "STATE", "EVENTS", "MADE", "NAME"], rows.collect())?;
        Ok(0)
    }

    async fn cancel(&self, id: &str) -> anyhow::Result<u8> {
        let workflow = self.client.cancel_workflow(id).await.hint(LIST)?;
        if let Some(local) = self.local {
            Box::pin(local.cancel_runs(&workflow)).await?;
        }
        self.printer.note(format_args!("cancelling {id}"));
        Ok(0)
    }

    fn table(&self, columns: &[&str], rows: Vec<Vec<String>>) -> anyhow::Result<()> {
        let columns: Vec<_> = columns.iter().map(|name| (*name, Align::Left)).collect();
        let mut grid = Grid::new(&columns);
        rows.into_iter().for_each(|row| grid.row(row));
        let (width, has_colour) =
            self.page.map_or((None, false), |page| (Some(page.width), page.has_colour));
        Ok(self.printer.data(grid.to_text(width, has_colour).trim_end())?)
    }
}
