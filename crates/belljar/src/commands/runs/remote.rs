//! `belljar runs … --server`: the same commands for the runs of a server or a platform.

use anyhow::{Context as _, anyhow};
use belljar_api::run::{
    AnswerRun, ChangeRun, FollowRun, ListRuns, RetryRun, Run, RunBreakpoints, RunBudget, RunEvent,
    RunLine, TellRun,
};
use belljar_client::{Client, Error, RunNews, RunWish};
use belljar_journal::event::{Budget, Event};

use super::teller::{Detail, Teller};
use crate::cli::{RunName, RunsAction};
use crate::output::{Hint as _, Printer, hinted, printable};
use crate::page::{Align, Grid, Page};

/// Entries of one page, as the server bounds them.
const PAGE: u64 = 100;
/// Letters of a whole id.
const WHOLE: usize = 26;
/// The hint when a server refuses.
const LIST: &str = "`belljar runs list --server URL` shows runs and their states";

pub(super) async fn run(
    client: &Client,
    action: &RunsAction,
    page: Option<Page>,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let remote = Remote { client, page, printer };
    match action {
        RunsAction::List { most } => remote.list(*most).await?,
        RunsAction::Show { run } => remote.show(run).await?,
        RunsAction::Watch { run } => remote.watch(run).await?,
        RunsAction::Turn { run, turn } => {
            let run = remote.named(run).await?;
            let turn = client.turn(&run, *turn).await;
            super::turn::print(&turn.context("cannot read the turn").hint(LIST)?, printer)?;
        }
        RunsAction::Export { run } => remote.export(run).await?,
        RunsAction::Pause { run } => remote.steer(run, RunWish::Pause).await?,
        RunsAction::Resume { run } => remote.steer(run, RunWish::Resume).await?,
        RunsAction::Step { run } => remote.steer(run, RunWish::Step).await?,
        RunsAction::Cancel { run } => remote.steer(run, RunWish::Cancel).await?,
        RunsAction::Tell { run, text } => {
            let text = text.clone().try_into().map_err(|error| anyhow!("message: {error}"))?;
            remote.steer(run, RunWish::Tell(TellRun { text })).await?;
        }
        RunsAction::Answer { run, text } => {
            let text = text.clone().try_into().map_err(|error| anyhow!("answer: {error}"))?;
            remote.steer(run, RunWish::Answer(AnswerRun { text })).await?;
        }
        RunsAction::Break { run, turns, calls } => {
            let points = RunBreakpoints { turns: *turns, calls: *calls };
            remote.steer(run, RunWish::Breakpoints(points)).await?;
        }
        RunsAction::Budget { run, budget } => {
            let change = ChangeRun { budget: told(&budget.budget())? };
            remote.steer(run, RunWish::Budget(change)).await?;
        }
        RunsAction::Retry { run, memory, budget } => {
            let memory_bytes = memory.map(count).transpose()?;
            let wish = RetryRun { budget: told(&budget.budget())?, memory_bytes };
            let run = remote.named(run).await?;
            let made = client.retry_run(&run, &wish).await.hint(LIST)?;
            remote.say(&made)?;
        }
        RunsAction::Cost { .. } | RunsAction::Stats { .. } => {
            let error = anyhow!("this command has no --server");
            return Err(hinted(
                error,
                "`belljar usage --server URL --by run` has the cost, GET /v1/stats the figures",
            ));
        }
    }
    Ok(0)
}

/// The id of the run that is meant.
pub(super) async fn named(
    client: &Client,
    name: &RunName,
    printer: &Printer,
) -> anyhow::Result<String> {
    Remote { client, page: None, printer }.named(name).await
}

struct Remote<'a> {
    client: &'a Client,
    page: Option<Page>,
    printer: &'a Printer,
}

impl Remote<'_> {
    /// Up to `most` runs, the newest first.
    async fn lines(&self, most: usize) -> anyhow::Result<Vec<RunLine>> {
        let mut lines = Vec::new();
        let mut after = None;
        while lines.len() < most {
            let left = PAGE.min((most - lines.len()) as u64);
            let limit = left.try_into().map_err(|error| anyhow!("--limit: {error}"))?;
            let query = ListRuns { state: None, limit: Some(limit), after };
            let found = self.client.runs(&query).await.context("cannot list runs")?;
            lines.extend(found.items);
            after = found.next;
            if after.is_none() {
                break;
            }
        }
        Ok(lines)
    }

    /// The id of the run that is meant.
    async fn named(&self, name: &RunName) -> anyhow::Result<String> {
        let name = name.as_str();
        if name.len() == WHOLE {
            return Ok(name.to_owned());
        }
        let mut found = self.lines(usize::MAX).await?;
        found.retain(|line| line.id.starts_with(name));
        match found.len() {
            1 => Ok(found.remove(0).id),
            0 => Err(hinted(anyhow!("there is no run `{name}`"), LIST)),
            count => Err(hinted(anyhow!("`{name}` matches {count} runs"), LIST)),
        }
    }

    async fn list(&self, most: usize) -> anyhow::Result<()> {
        let lines = self.lines(most).await?;
        if self.printer.is_json() {
            return self.printer.document(&lines);
        }
        if lines.is_empty() {
            self.printer.note("there are no runs\nhint: POST /v1/runs creates one");
            return Ok(());
        }
        let columns = ["RUN", "MADE", "STATE", "QUESTION"].map(|name| (name, Align::Left));
        let mut grid = Grid::new(&columns);
        for line in lines {
            let state = word(&line.state);
            let title = printable(&line.title).replace(['\n', '\t'], " ");
            grid.row(vec![line.id, line.made_at.0, state, title]);
        }
        let (width, has_colour) =
            self.page.map_or((None, false), |page| (Some(page.width), page.has_colour));
        Ok(self.printer.data(grid.to_text(width, has_colour).trim_end())?)
    }

    /// Prints all events so far.
    async fn show(&self, name: &RunName) -> anyhow::Result<()> {
        let run = self.named(name).await?;
        let shown = self.client.run(&run).await.hint(LIST)?;
        if self.printer.is_json() {
            return self.printer.document(&shown);
        }
        let mut teller = Teller::new(Detail::Full, self.page);
        for event in self.past(&shown).await? {
            if let Some(text) = teller.tell(&read(event)?) {
                self.printer.data(printable(&text))?;
            }
        }
        if let Some(question) = &shown.question_asked {
            let text = printable(question);
            self.printer.note(format_args!("it waits for an answer: {text}"));
        }
        Ok(())
    }

    async fn export(&self, name: &RunName) -> anyhow::Result<()> {
        let run = self.named(name).await?;
        let shown = self.client.run(&run).await.hint(LIST)?;
        for event in self.past(&shown).await? {
            self.printer.data(serde_json::to_string(&event)?)?;
        }
        Ok(())
    }

    /// The events that there were when the run was looked at.
    async fn past(&self, run: &Run) -> anyhow::Result<Vec<RunEvent>> {
        let query = FollowRun { from: None, deltas: None };
        let mut events = self.client.follow_run(&run.id, &query).await.hint(LIST)?;
        let mut all = Vec::new();
        while let Some(news) = events.next().await? {
            let RunNews::Event(event) = news else { continue };
            let is_last = event.seq >= run.events;
            all.push(event);
            if is_last {
                break;
            }
        }
        Ok(all)
    }

    /// Events and words as they come. A stream that breaks is taken up after the last event.
    async fn watch(&self, name: &RunName) -> anyhow::Result<()> {
        let run = self.named(name).await?;
        let mut teller = Teller::new(Detail::Full, self.page);
        let mut next = 1_u64;
        loop {
            let query = FollowRun { from: Some(count(next)?), deltas: Some(true) };
            let mut events = self.client.follow_run(&run, &query).await.hint(LIST)?;
            loop {
                match events.next().await {
                    Ok(Some(RunNews::Event(event))) => {
                        next = event.seq + 1;
                        let is_last = event.kind == "finished";
                        self.tell(&mut teller, event)?;
                        if is_last {
                            return Ok(());
                        }
                    }
                    Ok(Some(RunNews::Delta(delta))) if !self.printer.is_json() => {
                        self.printer.progress(printable(&delta.text));
                    }
                    Ok(Some(RunNews::Delta(_))) => {}
                    Ok(None) | Err(Error::Transport(_)) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    }

    fn tell(&self, teller: &mut Teller, event: RunEvent) -> anyhow::Result<()> {
        if self.printer.is_json() {
            return Ok(self.printer.data(serde_json::to_string(&event)?)?);
        }
        if let Some(text) = teller.tell(&read(event)?) {
            self.printer.data(printable(&text))?;
        }
        Ok(())
    }

    async fn steer(&self, name: &RunName, wish: RunWish) -> anyhow::Result<()> {
        let run = self.named(name).await?;
        let run = self.client.steer_run(&run, &wish, None).await.hint(LIST)?;
        self.say(&run)
    }

    fn say(&self, run: &Run) -> anyhow::Result<()> {
        if self.printer.is_json() {
            return self.printer.document(run);
        }
        Ok(self.printer.data(format_args!("{} {}", run.id, word(&run.state)))?)
    }
}

/// An event as the local commands know it: both have one shape.
pub(in crate::commands) fn read(event: RunEvent) -> anyhow::Result<Event> {
    let value = serde_json::to_value(event)?;
    serde_json::from_value(value).context("the server is of a newer version")
}

fn word(state: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(state).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

fn count(number: u64) -> anyhow::Result<belljar_api::bounds::Count> {
    number.try_into().map_err(|error| anyhow!("{number}: {error}"))
}

fn told(budget: &Budget) -> anyhow::Result<RunBudget> {
    let turns = budget.turns.map(|turns| u64::from(turns).try_into());
    Ok(RunBudget {
        turns: turns.transpose().map_err(|error| anyhow!("--turns: {error}"))?,
        wall_ms: budget.wall_ms.map(count).transpose()?,
        tokens: budget.tokens.map(count).transpose()?,
        nano_dollars: budget.nano_dollars.map(count).transpose()?,
        output_bytes: budget.output_bytes.map(count).transpose()?,
        cpu_ms: budget.cpu_ms.map(count).transpose()?,
    })
}
