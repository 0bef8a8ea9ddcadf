//! `belljar bench turns`: time of a turn outside of model and code, of each agent.
//!
//! ```text
//!   react      call in a new sandbox ─► call in it ─► answer
//!   pipeline   plan ─► program, which fails ─► its repair, in another sandbox
//! ```
//!
//! The model answers at once, over the protocol of a provider and through the gateway. Both agents
//! are measured on the same server, in turn, so that a slow minute is slow for both.

mod measure;
mod model;
mod show;

use anyhow::{Context as _, bail, ensure};
use belljar_api::run::{CreateRun, FollowRun};
use belljar_client::{Client, Dial, RunNews, Trust};
use belljar_journal::Event;
use belljar_journal::event::{Body, Outcome};
use serde::Serialize;
use serde_json::json;

use self::measure::{Stage, Turn, turns};
use self::model::{Model, RESULT};
use super::report::{self, Aim};
use super::runs::MODEL;
use super::stats::Summary;
use super::tti::server::Served;
use crate::cli::{BenchTurns, TurnAgent};
use crate::commands::runs::read_event;
use crate::config::Config;
use crate::output::Printer;

/// The most that a turn may take, in milliseconds.
const MAX_TURN_MS: f64 = 15.0;
/// Runs of each agent that are not measured.
const WARM_UPS: u32 = 3;

#[derive(Debug, Serialize)]
struct Report {
    cores: usize,
    template: String,
    rounds: u32,
    agents: Vec<AgentTurns>,
    aims: Vec<Aim>,
}

/// The turns of all runs of an agent.
#[derive(Debug, Serialize)]
struct AgentTurns {
    agent: &'static str,
    turns: Option<Summary>,
    stages: Vec<StageTurns>,
}

#[derive(Debug, Serialize)]
struct StageTurns {
    stage: Stage,
    turns: Option<Summary>,
    /// The part until the stage had its sandbox.
    sandbox: Option<Summary>,
}

pub(super) async fn run(
    options: &BenchTurns,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let model = Model::start().await?;
    let dir = tempfile::tempdir().context("cannot create a directory")?;
    let (key, gateway) = (dir.path().join("key"), dir.path().join("gateway.toml"));
    std::fs::write(&key, "key-of-the-provider")?;
    let operation = format!(
        "[operations.llm]\nkind = \"model\"\ndialects = [\"anthropic-messages\"]\n\
         upstream = \"http://{}\"\nplaintext = true\n\
         credential = {{ file = {key:?}, as = \"x-api-key\" }}\nmodels = [\"{MODEL}\"]\n",
        model.address
    );
    std::fs::write(&gateway, operation)?;
    let served = Served::start(options.pool, Some(&gateway), config, printer).await?;
    let measured = measure(options, &served, printer).await;
    served.stop().await?;
    let agents = measured?;
    let aims = agents.iter().map(|agent| {
        let what = format!("{}, a turn outside of model and code, p50 in ms, at most", agent.agent);
        Aim::at_most(&what, MAX_TURN_MS, agent.turns.map(|turns| turns.p50_ms))
    });
    let report = Report {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        template: options.template.clone(),
        rounds: options.count,
        aims: aims.collect(),
        agents,
    };
    report::publish(
        &report,
        &show::table(&report),
        &show::figure(&report),
        &options.output,
        printer,
    )?;
    Ok(0)
}

async fn measure(
    options: &BenchTurns,
    served: &Served,
    printer: &Printer,
) -> anyhow::Result<Vec<AgentTurns>> {
    let dial = Dial::new(&format!("http://{}", served.address), &served.key, &Trust::Host);
    let client = Client::new(dial.context("cannot reach the server")?);
    let mut all: Vec<(TurnAgent, Vec<Turn>)> =
        options.agent.iter().map(|agent| (*agent, Vec::new())).collect();
    printer.note(format_args!("{} rounds, the agents in turn", options.count));
    for round in 0..WARM_UPS + options.count {
        // The first agent of a round is not always the same.
        all.rotate_left(1);
        for (agent, found) in &mut all {
            let events = one(&client, *agent, &options.template).await;
            let events = events.with_context(|| format!("a run of {}", agent.name()))?;
            if round >= WARM_UPS {
                found.extend(turns(&events));
            }
        }
    }
    // The last rotation is undone by the order of the options.
    let of = |agent: &TurnAgent| all.iter().find(|(other, _)| other == agent);
    let found = options.agent.iter().filter_map(of);
    Ok(found.map(|(agent, turns)| AgentTurns::of(*agent, turns)).collect())
}

impl TurnAgent {
    fn name(self) -> &'static str {
        match self {
            Self::React => "react",
            Self::Pipeline => "pipeline",
        }
    }
}

impl AgentTurns {
    fn of(agent: TurnAgent, turns: &[Turn]) -> Self {
        let outside: Vec<_> = turns.iter().map(|turn| turn.outside).collect();
        let stages = Stage::ALL.into_iter().filter_map(|stage| {
            let those = || turns.iter().filter(move |turn| turn.stage == stage);
            let outside: Vec<_> = those().map(|turn| turn.outside).collect();
            let sandbox: Vec<_> = those().filter_map(|turn| turn.sandbox).collect();
            let turns = Summary::of(&outside);
            turns.is_some().then(|| StageTurns { stage, turns, sandbox: Summary::of(&sandbox) })
        });
        Self { agent: agent.name(), turns: Summary::of(&outside), stages: stages.collect() }
    }
}

/// Has a run made, and follows it to its end.
async fn one(client: &Client, agent: TurnAgent, template: &str) -> anyhow::Result<Vec<Event>> {
    let wish = json!({
        "question": model::QUESTION, "template": template, "agent": agent.name(),
    });
    let wish: CreateRun = serde_json::from_value(wish).context("the template has no valid name")?;
    let run = client.create_run(&wish, None).await.context("cannot create the run")?.id;
    let query = FollowRun { from: None, deltas: None };
    let mut news = client.follow_run(&run, &query).await?;
    let mut events = Vec::new();
    while let Some(news) = news.next().await? {
        if let RunNews::Event(event) = news {
            events.push(read_event(event)?);
        }
    }
    let Some(Body::Finished(finished)) = events.last().map(|event| &event.body) else {
        bail!("{run} has no end");
    };
    let result = finished.result.as_deref().map(str::trim);
    ensure!(
        finished.outcome == Outcome::Answered && result == Some(RESULT),
        "{run} ended as {:?}, {:?}: {result:?}",
        finished.outcome,
        finished.message
    );
    Ok(events)
}
