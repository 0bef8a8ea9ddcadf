//! Works through the grid: some trials at a time, and never more money than was allowed.

use std::cell::RefCell;
use std::collections::VecDeque;

use belljar_eval::{Trial, TrialKey};
use belljar_objects::Digest;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;

use super::asked::{NotRun, Source, Stop, Wanted};
use super::book::Book;
use super::grid::{Grid, Planned};
use super::scoring::{Judges, Scorer};
use crate::cli::Eval;
use crate::commands::runs::dollars;
use crate::output::Printer;
use crate::session::Interrupt;

/// Runs that may fail to begin before the grid is given up.
const MAX_FAILED: usize = 3;

pub(super) struct Work<'w> {
    grid: &'w Grid,
    scorer: &'w Scorer<'w>,
    options: &'w Eval,
    printer: &'w Printer,
}

/// The end of the grid.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Complete,
    Interrupted,
    /// The money does not suffice for another trial.
    OutOfMoney {
        missing: usize,
    },
    /// Runs could not be made; the last error.
    Failed {
        missing: usize,
        last: String,
    },
    /// Trials that no run was recorded of.
    NotRecorded {
        missing: usize,
    },
}

impl Ended {
    /// The reason why trials are missing.
    pub(super) fn reason(&self) -> Option<String> {
        Some(match self {
            Self::Complete => return None,
            Self::Interrupted => "interrupted".to_owned(),
            Self::OutOfMoney { missing } => {
                format!("--max-cost does not suffice for {missing} more trials")
            }
            Self::Failed { missing, last } => format!("{missing} trials could not be run: {last}"),
            Self::NotRecorded { missing } => format!("{missing} trials have no recorded run"),
        })
    }
}

/// Money of the whole grid, in billionths of a dollar.
#[derive(Debug)]
struct Purse {
    most: Option<u64>,
    spent: u64,
    reserved: u64,
}

impl Purse {
    /// Reserves the most that a trial can cost. Returns false if that is not left.
    fn reserve(&mut self, nano_dollars: u64) -> bool {
        let total = self.spent.saturating_add(self.reserved).saturating_add(nano_dollars);
        if self.most.is_some_and(|most| total > most) {
            return false;
        }
        self.reserved = self.reserved.saturating_add(nano_dollars);
        true
    }

    /// Returns true if all that is spent and reserved is allowed.
    fn is_within(&self) -> bool {
        let total = self.spent.saturating_add(self.reserved);
        self.most.is_none_or(|most| total <= most)
    }

    /// Reserves what a trial can cost that has begun before: it may be spent already.
    fn owe(&mut self, nano_dollars: u64) {
        self.reserved = self.reserved.saturating_add(nano_dollars);
    }

    /// Settles a trial that is over. The cost of one that failed is not known: it may have come to
    /// all that was reserved.
    fn settle(&mut self, reserved: u64, spent: Option<u64>) {
        self.reserved = self.reserved.saturating_sub(reserved);
        self.spent = self.spent.saturating_add(spent.unwrap_or(reserved));
    }
}

/// The money of a grid of which a part was run before.
fn purse(book: &Book, waiting: &VecDeque<(Planned<'_>, Start)>, most: Option<u64>) -> Purse {
    let done = book.done.values().map(cost);
    let spent = done.fold(book.lost_nano_dollars, u64::saturating_add);
    let mut purse = Purse { most, spent, reserved: 0 };
    for (planned, start) in waiting {
        if start.is_owed() {
            purse.owe(planned.nano_dollars);
        }
    }
    // Others began, too, and are not among the chosen tasks.
    let is_waiting = |key: &TrialKey| waiting.iter().any(|(planned, _)| planned.key == *key);
    for (_, begun) in book.begun.iter().filter(|(key, _)| !is_waiting(key)) {
        purse.owe(begun.nano_dollars);
    }
    purse
}

fn cost(trial: &Trial) -> u64 {
    trial.figures.nano_dollars.saturating_add(trial.judge_nano_dollars)
}

impl<'w> Work<'w> {
    pub(super) fn new(
        grid: &'w Grid,
        scorer: &'w Scorer<'w>,
        options: &'w Eval,
        printer: &'w Printer,
    ) -> Self {
        Self { grid, scorer, options, printer }
    }

    /// Runs what is missing. Returns all trials that have a run.
    pub(super) async fn run(
        &self,
        mut book: Book,
        mut interrupt: Interrupt,
    ) -> anyhow::Result<(Vec<Trial>, Ended)> {
        let planned = self.grid.trials()?;
        let total = planned.len();
        let mut trials: Vec<Trial> = Vec::new();
        let mut waiting: VecDeque<(Planned<'_>, Start)> = VecDeque::new();
        let mut missing = 0;
        for planned in planned {
            let start = match (book.done.get(&planned.key), book.begun.get(&planned.key)) {
                (Some(trial), _) if self.options.replay => Start::replay(trial),
                (None, Some(begun)) if self.options.replay => Start {
                    source: Source::Replayed { run: begun.run.clone() },
                    judges: Some(Vec::new()),
                },
                (None, None) if self.options.replay => {
                    missing += 1;
                    continue;
                }
                (Some(trial), _) => {
                    trials.push(trial.clone());
                    continue;
                }
                (None, Some(begun)) => Start::of(Source::Resumed { run: begun.run.clone() }),
                (None, None) => Start::of(Source::New { name: name(&book.head.id, &planned.key) }),
            };
            waiting.push_back((planned, start));
        }
        let mut purse = purse(&book, &waiting, self.options.max_cost);
        book.done.clear();
        let (tell, stop) = watch::channel(false);
        let id = book.head.id.clone();
        let book = RefCell::new(book);
        let (mut is_stopped, mut is_short, mut failed) = (false, false, Vec::new());
        let mut running = FuturesUnordered::new();
        loop {
            let is_given_up = failed.len() >= MAX_FAILED;
            while !is_stopped
                && !is_given_up
                && running.len() < usize::try_from(self.options.jobs).unwrap_or(1)
                && let Some((planned, start)) = waiting.front()
            {
                let is_left = match start.is_owed() {
                    true => purse.is_within(),
                    false => purse.reserve(planned.nano_dollars),
                };
                if !is_left {
                    // Trials under way may cost less than they reserve.
                    is_short = running.is_empty();
                    break;
                }
                let Some((planned, start)) = waiting.pop_front() else { break };
                running.push(Box::pin(self.trial(planned, start, &id, &book, stop.clone())));
            }
            if running.is_empty() {
                break;
            }
            tokio::select! {
                Some((planned, made)) = running.next() => {
                    purse.settle(planned.nano_dollars, made.as_ref().ok().map(cost));
                    match made {
                        Ok(trial) => {
                            book.borrow_mut().finish(&trial)?;
                            trials.push(trial);
                            self.tell(trials.last(), trials.len(), total);
                        }
                        Err(NotRun::Interrupted) => is_stopped = true,
                        Err(NotRun::Failed(error)) => {
                            self.printer.report(&error.context(place(&planned.key)));
                            failed.push(planned.key);
                        }
                    }
                }
                () = interrupt.wait(), if !is_stopped => {
                    is_stopped = true;
                    self.printer.always("interrupted: waiting for the runs under way to stop");
                    // The runs that listen may all be over.
                    let _ = tell.send(true);
                }
            }
        }
        let left = waiting.len();
        let ended = match (is_stopped, is_short, failed.last(), missing) {
            (true, ..) => Ended::Interrupted,
            (_, true, ..) => Ended::OutOfMoney { missing: left },
            (_, _, Some(last), _) => {
                Ended::Failed { missing: failed.len() + left, last: place(last) }
            }
            (.., 1..) => Ended::NotRecorded { missing },
            _ => Ended::Complete,
        };
        Ok((trials, ended))
    }

    /// Makes the run of a trial and scores it.
    async fn trial<'p>(
        &self,
        planned: Planned<'p>,
        start: Start,
        id: &str,
        book: &RefCell<Book>,
        stop: Stop,
    ) -> (Planned<'p>, Result<Trial, NotRun>) {
        let made = self.made(&planned, start, id, book, stop).await;
        (planned, made)
    }

    async fn made(
        &self,
        planned: &Planned<'_>,
        start: Start,
        id: &str,
        book: &RefCell<Book>,
        stop: Stop,
    ) -> Result<Trial, NotRun> {
        let wanted = Wanted {
            question: &planned.task.question,
            data: &planned.task.data,
            settings: &planned.settings,
            model: planned.model,
            source: start.source,
        };
        let (key, most) = (&planned.key, planned.nano_dollars);
        let mut began = |run: &str| book.borrow_mut().begin(key, run, most);
        let over = self.scorer.runner.ask(&wanted, stop.clone(), &mut began).await?;
        let mut asked = |nano_dollars: u64| book.borrow_mut().judge(key, nano_dollars);
        let name = name(id, key);
        let judges = Judges { name: &name, runs: start.judges.as_deref(), asked: &mut asked };
        Box::pin(self.scorer.scored(planned, &over, judges, stop)).await
    }

    fn tell(&self, trial: Option<&Trial>, count: usize, total: usize) {
        let Some(trial) = trial else { return };
        let result = match (trial.passed, trial.category()) {
            (true, _) => "passed".to_owned(),
            (false, category) => format!("{}: {}", category.unwrap_or("wrong"), trial.reason),
        };
        self.printer.progress(format_args!(
            "{count}/{total} {}: {result} (run {}, {} turns, {})",
            place(&trial.key),
            trial.run.get(..8).unwrap_or(&trial.run),
            trial.figures.turns,
            dollars(trial.figures.nano_dollars),
        ));
    }
}

/// The beginning of a trial.
#[derive(Debug)]
struct Start {
    source: Source,
    /// The judge's runs to replay.
    judges: Option<Vec<String>>,
}

impl Start {
    fn of(source: Source) -> Self {
        Self { source, judges: None }
    }

    fn replay(trial: &Trial) -> Self {
        let source = Source::Replayed { run: trial.run.clone() };
        Self { source, judges: Some(trial.judged_by.clone()) }
    }

    /// Returns true if the trial began before, so that its money is reserved from the beginning.
    fn is_owed(&self) -> bool {
        matches!(self.source, Source::Resumed { .. })
    }
}

/// The name of a trial, for people.
fn place(key: &TrialKey) -> String {
    let TrialKey { task, model, variant, repeat } = key;
    let variant = if variant.is_empty() { String::new() } else { format!(" {variant}") };
    format!("{task} {model}{variant} #{repeat}")
}

/// The name of a trial's run: the same for the same trial of the same grid.
fn name(id: &str, key: &TrialKey) -> String {
    let TrialKey { task, model, variant, repeat } = key;
    let text = format!("{task}\0{model}\0{variant}\0{repeat}");
    let digest = Digest::of(text.as_bytes()).to_string();
    format!("eval-{id}-{}", digest.get(..16).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use belljar_client::Key;
    use belljar_domain::RecordingName;

    use super::*;

    #[test]
    fn trials_under_way_and_done_never_cost_more_than_allowed() {
        let mut purse = Purse { most: Some(100), spent: 0, reserved: 0 };
        assert!(purse.reserve(50) && purse.reserve(50) && !purse.reserve(1));
        purse.settle(50, Some(10));
        assert!(purse.reserve(40) && !purse.reserve(1));
        purse.settle(50, Some(50));
        purse.settle(40, Some(0));
        assert_eq!((purse.spent, purse.reserved), (60, 0));
        let mut unbounded = Purse { most: None, spent: u64::MAX, reserved: 1 };
        assert!(unbounded.reserve(u64::MAX));
    }

    /// Its run may have asked a model, and nothing is known of the answer.
    #[test]
    fn a_trial_that_failed_costs_its_reservation() {
        let mut purse = Purse { most: Some(100), spent: 0, reserved: 0 };
        assert!(purse.reserve(60));
        purse.settle(60, None);
        assert_eq!((purse.spent, purse.reserved), (60, 0));
        assert!(!purse.reserve(60) && purse.reserve(40));
        // An earlier trial is reserved, even if it is more than was allowed.
        assert!(purse.is_within());
        purse.owe(500);
        assert!(!purse.is_within() && !purse.reserve(1));
    }

    #[test]
    fn names_of_cells_are_keys_and_recordings() {
        let key = |repeat| TrialKey {
            task: "t".repeat(64),
            model: "claude=model".into(),
            variant: "on".into(),
            repeat,
        };
        let one = name("0123456789abcdef", &key(1));
        assert_ne!(one, name("0123456789abcdef", &key(2)));
        assert!(one.parse::<Key>().is_ok());
        assert!(format!("{one}-j2-01234567").parse::<RecordingName>().is_ok());
        assert_eq!(place(&key(2)), format!("{} claude=model on #2", "t".repeat(64)));
    }
}
