//! How long an answer takes at a rate that everybody can keep up with.
//!
//! A tail of a hundredth is lost in that of a machine whose host gives its cores to
//! others for ten milliseconds at a time: then all contestants have such a tail, and
//! their difference says nothing about them, whichever way it points. So rounds are
//! taken until enough of them were undisturbed, and every turn is reported, with what
//! was kept from it; if there were not enough, all are shown and nothing is judged.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

use super::super::machine;
use super::super::stats::Summary;
use super::client::Times;
use super::{Bench, Contestant, GATEWAY, load};

/// A round is disturbed when the host kept more of one core.
const DISTURBED_PERCENT: f64 = 1.0;

/// How many rounds are tried for each that is wanted.
const TRIES: u32 = 5;

#[derive(Debug, Serialize)]
pub(super) struct Latency {
    pub(super) name: &'static str,
    pub(super) first_byte: Option<Summary>,
    pub(super) whole: Option<Summary>,
    pub(super) turns: Vec<Turn>,
}

/// One contestant's part of one round.
#[derive(Debug, Serialize)]
pub(super) struct Turn {
    /// Of one core, what the host did not give although it was asked for.
    kept_percent: f64,
    first_byte_p99_ms: f64,
    /// Whether the figures above include it.
    pub(super) counts: bool,
    #[serde(skip)]
    times: Vec<Times>,
}

impl Bench<'_> {
    pub(super) fn latency(&mut self, rate: f64) -> anyhow::Result<Vec<Latency>> {
        let mut all: Vec<Vec<Turn>> = self.contestants.iter().map(|_| Vec::new()).collect();
        self.printer.note(format_args!("{rate:.0} a second of each, evenly"));
        let mut undisturbed = 0;
        let most_rounds = self.options.rounds * TRIES;
        for round in 0..most_rounds {
            for index in self.order(round) {
                all[index].push(self.turn(index, rate, round)?);
            }
            self.gateway.keep()?;
            let kept = all.iter().filter_map(|turns| turns.last()).map(|turn| turn.kept_percent);
            let most = kept.fold(0.0, f64::max);
            let is_disturbed = most > DISTURBED_PERCENT;
            undisturbed += u32::from(!is_disturbed);
            let besides = if is_disturbed { ": disturbed" } else { "" };
            self.printer.note(format_args!(
                "round {} of at most {most_rounds}: the host kept {most:.1} % of a core{besides}",
                round + 1
            ));
            for turn in all.iter_mut().filter_map(|turns| turns.last_mut()) {
                turn.counts = !is_disturbed;
            }
            if undisturbed == self.options.rounds {
                break;
            }
        }
        if undisturbed < self.options.rounds {
            self.printer.note(
                "the host disturbed too many rounds: all are shown, but their tails are not \
                 judged\n\
                 hint: try again when it is less busy",
            );
            all.iter_mut().flatten().for_each(|turn| turn.counts = true);
        }
        let names = self.contestants.iter().map(|contestant| contestant.name);
        Ok(names.zip(all).map(|(name, turns)| Latency::of(name, turns)).collect())
    }

    fn turn(&mut self, index: usize, rate: f64, round: u32) -> anyhow::Result<Turn> {
        let Contestant { name, target, .. } = &self.contestants[index];
        let (begin, before) = (Instant::now(), machine::stolen()?);
        let times = load::open(target, self.options.clients, rate, self.options.seconds)
            .with_context(|| format!("{name}, round {round}"))?;
        let kept = machine::stolen()?.saturating_sub(before);
        let kept_percent = 100.0 * kept.as_secs_f64() / begin.elapsed().as_secs_f64();
        if *name == GATEWAY {
            self.asked += times.len() as u64;
            self.gateway.await_rows(self.asked)?;
        }
        let first = summary(&[&times], |times| times.first);
        let first_byte_p99_ms = first.map_or(0.0, |summary| summary.p99_ms);
        Ok(Turn { kept_percent, first_byte_p99_ms, counts: true, times })
    }
}

impl Latency {
    fn of(name: &'static str, turns: Vec<Turn>) -> Self {
        let counted: Vec<&[Times]> =
            turns.iter().filter(|turn| turn.counts).map(|turn| turn.times.as_slice()).collect();
        let first_byte = summary(&counted, |times| times.first);
        let whole = summary(&counted, |times| times.whole);
        Self { name, first_byte, whole, turns }
    }

    /// Whether its figures are of turns in which the machine had its cores.
    pub(super) fn is_undisturbed(&self) -> bool {
        let mut counted = self.turns.iter().filter(|turn| turn.counts);
        counted.all(|turn| turn.kept_percent <= DISTURBED_PERCENT)
    }
}

fn summary(turns: &[&[Times]], which: fn(&Times) -> Duration) -> Option<Summary> {
    Summary::of(&turns.iter().copied().flatten().map(which).collect::<Vec<_>>())
}
