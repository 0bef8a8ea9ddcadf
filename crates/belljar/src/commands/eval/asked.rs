//! A run to make, wherever it is made, and the run that came of it.

use belljar_agent::Tally;
use belljar_eval::{RunSettings, TrialFigures};
use belljar_journal::event::Finished;
use belljar_journal::{Event, RunView};
use tokio::sync::watch;

use super::local::Local;
use super::remote::Remote;
use crate::cli::ModelName;

/// A run to make.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) question: &'a str,
    /// As the file of tasks has them.
    pub(super) data: &'a [String],
    pub(super) settings: &'a RunSettings,
    pub(super) model: Option<&'a ModelName>,
    pub(super) source: Source,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// A new run, recorded under a name that begins so.
    New { name: String },
    /// A run that began before.
    Resumed { run: String },
    /// A replay of a recorded run.
    Replayed { run: String },
}

/// A run that is over.
#[derive(Debug)]
pub(super) struct RunOver {
    pub(super) run: String,
    /// Its address on a server.
    pub(super) link: Option<String>,
    pub(super) view: RunView,
    pub(super) finished: Finished,
    pub(super) figures: TrialFigures,
}

/// The reason why there is no such run.
#[derive(Debug)]
pub(super) enum NotRun {
    Interrupted,
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for NotRun {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Heard by all runs; true: the evaluation was interrupted.
pub(super) type Stop = watch::Receiver<bool>;

/// Told the id of a run as soon as it has one.
pub(super) type Began<'a> = &'a mut (dyn FnMut(&str) -> anyhow::Result<()> + 'a);

/// The place where runs are made.
#[derive(Debug)]
pub(super) enum Runner {
    Local(Local),
    Remote(Remote),
}

impl Runner {
    /// Makes a run and waits for its end.
    pub(super) async fn ask(
        &self,
        wanted: &Wanted<'_>,
        stop: Stop,
        began: Began<'_>,
    ) -> Result<RunOver, NotRun> {
        match self {
            Self::Local(local) => Box::pin(local.ask(wanted, stop, began)).await,
            Self::Remote(remote) => Box::pin(remote.ask(wanted, stop, began)).await,
        }
    }

    /// The files that a run made, without directories in their names.
    pub(super) async fn files(&self, over: &RunOver) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        match self {
            Self::Local(local) => local.files(over).await,
            Self::Remote(remote) => remote.files(over).await,
        }
    }
}

impl RunOver {
    /// Reads a run out of all its events; none: it has no end.
    pub(super) fn read(run: String, link: Option<String>, events: &[Event]) -> Option<Self> {
        let view = RunView::of(events);
        let finished = view.finished.clone()?;
        let figures = figures(&run, &view, events);
        Some(Self { run, link, view, finished, figures })
    }
}

/// The figures of a run, as `belljar runs stats` counts them.
fn figures(run: &str, view: &RunView, events: &[Event]) -> TrialFigures {
    let mut tally = Tally::default();
    if let Ok(run) = run.parse() {
        tally.add(run, events);
    }
    let counted = tally.figures();
    let time = match events {
        [first, .., last] => (last.at - first.at).whole_milliseconds(),
        _ => 0,
    };
    TrialFigures {
        nano_dollars: counted.nano_dollars,
        wall_ms: u64::try_from(time).unwrap_or(0),
        model_ms: view.spent.model_micros / 1000,
        turns: view.turns.into(),
        tokens: counted.tokens.total(),
        calls: counted.calls,
        faults: counted.faults,
        guards: counted.guards,
    }
}

#[cfg(test)]
pub(super) mod sample {
    use belljar_eval::{GuardSettings, RunSettings};

    /// A value for every setting, for tests that each one is passed on.
    pub(in super::super) fn settings() -> RunSettings {
        let text = |text: &str| Some(text.to_owned());
        RunSettings {
            template: text("python-data"),
            tier: text("jail"),
            memory: text("1G"),
            instructions: text("Be brief."),
            operations: Some(vec!["search".to_owned(), "mail".to_owned()]),
            turns: Some(5),
            budget_usd: text("0.50"),
            tokens: Some(1000),
            time: text("60s"),
            temperature: Some(0.2),
            effort: text("low"),
            output_tokens: Some(500),
            now: text("2026-03-20"),
            guards: Some(GuardSettings { joins: false, dates: true, turns: false }),
            pass: Some(0.5),
        }
    }
}
