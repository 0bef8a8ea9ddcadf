//! `belljar runs`: the runs of this machine, looked at and steered through their journal.

mod cost;
mod list;
mod remote;
mod retry;
mod show;
mod stats;
mod teller;
mod turn;

use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use belljar_agent::Larger;
use belljar_client::Client;
use belljar_domain::{RunId, Sequence};
use belljar_journal::event::{Breakpoints, Budget, BudgetPatch, ControlRequested, Event, Request};
use belljar_journal::{
    Address, Directory, Journal, LedgerDirectory, ListQuery, RowDirectory, RunRow, RunView, State,
    Watch, read_all,
};
use time::OffsetDateTime;

pub(super) use remote::read as read_event;
pub(super) use teller::{Detail, Teller, dollars};

use super::server;
use crate::cli::{RunName, Runs, RunsAction};
use crate::config::Config;
use crate::output::{Hint as _, Printer, hinted};
use crate::page::Page;

/// Runs that are looked through at once.
const PAGE: usize = 500;

/// Who acts, where nobody else is served.
pub(super) const TENANT: &str = "local";

pub(crate) async fn run(options: &Runs, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    if let Some(url) = &options.server {
        let client = server::client(url, options.server_key.as_deref(), config)?;
        return remote::run(&client, &options.action, Page::of_terminal(config), printer).await;
    }
    let journal = open(config)?;
    match &options.action {
        RunsAction::List { most } => {
            list::list(&journal, *most, Page::of_terminal(config), printer).await?;
        }
        RunsAction::Show { run } => {
            let address = named(&journal, run).await?;
            show::show(&journal, &address, Page::of_terminal(config), printer).await?;
        }
        RunsAction::Watch { run } => {
            let address = named(&journal, run).await?;
            watch(journal, address, Page::of_terminal(config), printer).await?;
        }
        RunsAction::Cost { runs } => {
            let mut chosen = Vec::new();
            for run in runs {
                chosen.push(named(&journal, run).await?.run);
            }
            cost::cost(&journal, &chosen, Page::of_terminal(config), printer).await?;
        }
        RunsAction::Stats { most } => stats::stats(&journal, *most, printer).await?,
        RunsAction::Turn { run, turn } => {
            let address = named(&journal, run).await?;
            turn::turn(&journal, &rows(config), &address, *turn, printer).await?;
        }
        RunsAction::Export { run } => {
            let run = named(&journal, run).await?.run;
            for event in events(&journal, &run).await? {
                printer.data(line(&run, &event)?)?;
            }
        }
        RunsAction::Pause { run } => ask(&journal, run, Request::Pause, printer).await?,
        RunsAction::Resume { run } => ask(&journal, run, Request::Resume, printer).await?,
        RunsAction::Cancel { run } => ask(&journal, run, Request::Cancel, printer).await?,
        RunsAction::Tell { run, text } => {
            ask(&journal, run, Request::Tell { text: text.clone() }, printer).await?;
        }
        RunsAction::Step { run } => ask(&journal, run, Request::Step, printer).await?,
        RunsAction::Break { run, turns, calls } => {
            let breakpoints = Breakpoints { turns: *turns, calls: *calls };
            ask(&journal, run, Request::Breakpoints { breakpoints }, printer).await?;
        }
        RunsAction::Answer { run, text } => {
            answer(&journal, run, text, printer).await?;
        }
        RunsAction::Retry { run, memory, budget } => {
            let larger = Larger { budget: budget.budget(), memory_bytes: *memory };
            let run = named(&journal, run).await?;
            retry::retry(&journal, &run, &larger, printer).await?;
        }
        RunsAction::Budget { run, budget } => {
            let change = budget.budget();
            if change == Budget::default() {
                let error = anyhow!("no budget option is given");
                return Err(hinted(
                    error,
                    "for example --turns 40; see `belljar runs budget --help`",
                ));
            }
            let change = BudgetPatch(change);
            ask(&journal, run, Request::Budget { change }, printer).await?;
        }
    }
    Ok(0)
}

/// The run that is meant.
pub(super) async fn named(journal: &dyn Journal, name: &RunName) -> anyhow::Result<Address> {
    let name = name.as_str();
    if let Ok(run) = name.parse() {
        return Ok(address(run));
    }
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let query = ListQuery { tenant: TENANT, state: None, after: after.as_ref(), most: PAGE };
        let listed = journal.list(query).await.context("cannot list runs")?;
        let rows = listed.rows.into_iter().map(|row| row.address);
        found.extend(rows.filter(|address| address.run.as_str().starts_with(name)));
        after = listed.next;
        if after.is_none() {
            break;
        }
    }
    let hint = "`belljar runs list` shows runs";
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(hinted(anyhow!("there is no run `{name}`"), hint)),
        count => Err(hinted(anyhow!("`{name}` matches {count} runs"), hint)),
    }
}

/// The id of the run of a server that is meant.
pub(super) async fn named_at(
    client: &Client,
    name: &RunName,
    printer: &Printer,
) -> anyhow::Result<String> {
    remote::named(client, name, printer).await
}

/// An event as one line, with the run that it is of.
pub(super) fn line(run: &RunId, event: &Event) -> anyhow::Result<String> {
    let mut line = serde_json::to_value(event)?;
    if let Some(fields) = line.as_object_mut() {
        fields.insert("run".to_owned(), run.as_str().into());
    }
    Ok(line.to_string())
}

/// As many letters of each id as tell it from all others, and no fewer than people know from `ask`.
/// Commands take them for the whole id.
pub(super) fn short_ids(runs: &[&RunId]) -> Vec<String> {
    const SHORTEST: usize = 8;
    let is_one = |run: &RunId, length: usize| {
        let same = runs.iter().filter(|other| other.as_str()[..length] == run.as_str()[..length]);
        same.count() == 1
    };
    let length = |run: &RunId| (SHORTEST..run.as_str().len()).find(|length| is_one(run, *length));
    let short = |run: &&RunId| {
        let length = length(run).unwrap_or(run.as_str().len());
        run.as_str()[..length].to_owned()
    };
    runs.iter().map(short).collect()
}

/// Where runs of this machine are kept.
pub(super) fn open(config: &Config) -> anyhow::Result<Directory> {
    let place = config.data.join("runs");
    Directory::open(&place).hint("choose a writable directory with BELLJAR_DATA")
}

/// The directory of the rows of their calls and connections.
pub(super) fn rows(config: &Config) -> RowDirectory {
    RowDirectory::new(config.data.join("rows"), config.data.join("runs"), ledger(config))
}

/// The charges of this machine.
pub(super) fn ledger(config: &Config) -> LedgerDirectory {
    LedgerDirectory::new(config.data.join("ledger"))
}

pub(super) fn address(run: RunId) -> Address {
    Address { tenant: TENANT.to_owned(), run }
}

pub(super) fn fresh_id() -> anyhow::Result<RunId> {
    Ok(RunId::from_bits(random()?))
}

pub(super) fn random() -> anyhow::Result<[u8; 16]> {
    let mut bits = [0; 16];
    let mut source = std::fs::File::open("/dev/urandom").context("cannot get random numbers")?;
    std::io::Read::read_exact(&mut source, &mut bits).context("cannot get random numbers")?;
    Ok(bits)
}

async fn events(journal: &Directory, run: &RunId) -> anyhow::Result<Vec<Event>> {
    let events = read_all(journal, &address(run.clone())).await;
    events.hint("`belljar runs list` shows runs")
}

/// Whether whoever worked on a run is gone, and nobody has come since.
fn is_left(row: &RunRow) -> bool {
    let is_held = row.lease_until.is_some_and(|until| until > OffsetDateTime::now_utc());
    row.state == State::Running && !is_held
}

async fn watch(
    journal: Directory,
    address: Address,
    page: Option<Page>,
    printer: &Printer,
) -> anyhow::Result<()> {
    let mut teller = Teller::new(Detail::Full, page);
    let row = journal.find(&address).await.hint("`belljar runs list` shows runs")?;
    if is_left(&row) {
        printer.note(format_args!(
            "no process is working on it\nhint: `belljar ask --resume {}` resumes it",
            address.run
        ));
    }
    let run = address.run.clone();
    let mut watch = Watch::new(Arc::new(journal), address, Sequence(1));
    while let Some(event) = watch.next().await.hint("`belljar runs list` shows runs")? {
        if printer.is_json() {
            printer.data(line(&run, &event)?)?;
        } else if let Some(text) = teller.tell(&event) {
            printer.data(crate::output::printable(&text))?;
        }
    }
    Ok(())
}

/// Answers the question of a run, if it has asked one.
async fn answer(
    journal: &Directory,
    run: &RunName,
    text: &str,
    printer: &Printer,
) -> anyhow::Result<()> {
    let address = named(journal, run).await?;
    let events = events(journal, &address.run).await?;
    if RunView::of(&events).question.is_none() {
        let error = anyhow!("the run has asked no question");
        return Err(hinted(error, "`belljar runs tell` sends it a message"));
    }
    ask(journal, run, Request::Answer { text: text.to_owned() }, printer).await
}

async fn ask(
    journal: &Directory,
    run: &RunName,
    request: Request,
    printer: &Printer,
) -> anyhow::Result<()> {
    let address = named(journal, run).await?;
    let request = ControlRequested { request, by: TENANT.to_owned() };
    let asked = journal.request(&address, request, None).await;
    asked.hint("`belljar runs list` shows runs and their states")?;
    let row = journal.find(&address).await?;
    if is_left(&row) {
        printer.note(format_args!(
            "the request is recorded; no process is working on the run\n\
             hint: `belljar ask --resume {}` resumes it",
            address.run
        ));
    }
    Ok(())
}
