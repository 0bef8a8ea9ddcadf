//! The run of a command, in the journal of this machine: `belljar runs` shows it like others.

use std::sync::Arc;

use belljar_agent::program::Program;
use belljar_agent::{ProgramOutcome, ProgramRecorder, Texts};
use belljar_domain::ChosenLimits;
use belljar_journal::Journal;
use belljar_journal::event::{Brief, Budget, Environment, NetworkAccess, RunCreated, Tokens, Wish};
use time::OffsetDateTime;

use super::choose::Choice;
use super::report::Outcome;
use crate::cli::AgentRun;
use crate::commands::runs;
use crate::config::Config;
use crate::network::Traffic;
use crate::session::Session;

/// Writes the beginning of the run down.
pub(super) async fn begin(
    program: &Program,
    choice: &Choice,
    options: &AgentRun,
    template: &str,
    config: &Config,
) -> anyhow::Result<ProgramRecorder> {
    let journal: Arc<dyn Journal> = Arc::new(runs::open(config)?);
    let operations = choice.operations.clone();
    let network = NetworkAccess { operations, ..NetworkAccess::default() };
    let agent = options.program.kind();
    let created = RunCreated {
        question: options.task.clone(),
        datasets: Vec::new(),
        model: choice.model.clone(),
        prompt: Texts::newest_of(agent, &network).prompt(),
        budget: Budget {
            turns: options.turns,
            nano_dollars: options.budget_nano_dollars,
            ..Budget::default()
        },
        now: OffsetDateTime::now_utc(),
        wish: Some(Wish {
            template: template.to_owned(),
            environment: Environment::default(),
            network: Box::new(network),
            brief: Box::new(Brief { agent, ..Brief::default() }),
            operation: choice.operations.first().cloned(),
            request: None,
            questions: false,
            traceparent: None,
        }),
    };
    let address = runs::address(runs::fresh_id()?);
    let owner = format!("agent-{}", std::process::id());
    Ok(ProgramRecorder::begin(journal, address, created, program.events, &owner).await?)
}

/// Writes down that the program is begun.
pub(super) async fn start(recorder: &mut ProgramRecorder, session: &Session) -> anyhow::Result<()> {
    let limits =
        ChosenLimits { memory_bytes: Some(session.limits.memory_bytes), ..ChosenLimits::NONE };
    let environment = Environment { tier: Some(session.tier), limits };
    let sandbox = session.sandbox.id().clone();
    Ok(recorder.start(sandbox, environment, session.limits.wall).await?)
}

/// Writes the end of the run down. Neither an outcome nor an error: it was interrupted.
pub(super) async fn finish(
    recorder: ProgramRecorder,
    outcome: Option<&Outcome>,
    error: Option<String>,
    traffic: &Traffic,
) -> anyhow::Result<()> {
    let charge = &traffic.charge;
    let is_well = outcome.is_some_and(Outcome::is_well);
    let ended = ProgramOutcome {
        end: outcome.map(|outcome| outcome.followed.end.clone()),
        answer: outcome.filter(|_| is_well).map(|outcome| outcome.text().to_owned()),
        why: match outcome {
            Some(outcome) => outcome.why(),
            None => error.clone().or_else(|| Some("the command was interrupted".to_owned())),
        },
        is_interrupted: outcome.is_none() && error.is_none(),
        tokens: Tokens {
            input: charge.input,
            cache_read: charge.cache_read,
            cache_write: charge.cache_write,
            output: charge.output,
        },
        nano_dollars: charge.nano_dollars,
        is_penniless: traffic.refused_requests > 0 && !is_well,
    };
    Ok(recorder.finish(ended).await?)
}
