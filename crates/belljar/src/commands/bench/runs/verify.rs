//! Reads every transcript when all runs are over: what was promised, by counts alone.
//!
//! Requirements: P5, P8

use std::collections::BTreeSet;
use std::time::Duration;

use belljar_journal::event::{Body, Event, Finished, Outcome};
use belljar_journal::{Address, Journal, read_all};
use serde::Serialize;

use super::load::CreatedRun;
use super::model::ModelTimes;
use super::script::result;

/// The ends of all runs.
#[derive(Debug, Default, Serialize)]
pub(super) struct Verdict {
    pub(super) answered: usize,
    /// With the kind of the failure.
    pub(super) failed: usize,
    /// Runs that do not end, end without a word, end twice, or have a wrong answer or a wrong
    /// transcript.
    pub(super) wrong: Vec<String>,
    /// Runs that another worker took over.
    pub(super) taken_over: usize,
    pub(super) sandboxes: usize,
    /// Requests to the model, repeated ones included.
    pub(super) turns: usize,
    pub(super) calls: usize,
    pub(super) events: usize,
    /// Of each run whose worker and sandbox lived: its life less the time of the model.
    #[serde(skip)]
    pub(super) overheads: Vec<Duration>,
    /// The same of the others.
    #[serde(skip)]
    pub(super) disturbed: Vec<Duration>,
}

pub(super) async fn verify(
    journal: &dyn Journal,
    tenant: &str,
    created: &[CreatedRun],
    times: &ModelTimes,
) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::default();
    let ids: BTreeSet<_> = created.iter().map(|run| &run.id).collect();
    if ids.len() < created.len() {
        verdict.wrong.push(format!("{} runs have {} ids", created.len(), ids.len()));
    }
    for run in created {
        let address = Address { tenant: tenant.to_owned(), run: run.id.clone() };
        let events = read_all(journal, &address).await?;
        let model = times.get(&run.number).copied().unwrap_or_default();
        if let Err(why) = verdict.add(run.number, &events) {
            verdict.wrong.push(format!("{}: {why}", run.id));
        }
        let Some((first, last)) = events.first().zip(events.last()) else { continue };
        let life = Duration::try_from(last.at - first.at).unwrap_or_default();
        let overhead = life.saturating_sub(Duration::from_micros(model.micros));
        match leases(&events) > 1 || sandboxes(&events) > 1 {
            true => verdict.disturbed.push(overhead),
            false => verdict.overheads.push(overhead),
        }
    }
    Ok(verdict)
}

impl Verdict {
    fn add(&mut self, number: u32, events: &[Event]) -> Result<(), String> {
        let count = |kind: &str| events.iter().filter(|event| event.body.kind() == kind).count();
        self.events += events.len();
        self.turns += count("llm_requested");
        self.sandboxes += sandboxes(events);
        self.taken_over += usize::from(leases(events) > 1);
        let mut ended: Vec<_> = events.iter().filter_map(ended_call).collect();
        let calls = ended.len();
        self.calls += calls;
        ended.sort();
        ended.dedup();
        let finished = end(events)?;
        if ended.len() < calls {
            return Err("a call has two ends".to_owned());
        }
        match (finished.outcome, &finished.error) {
            (Outcome::Answered, _) => {
                let given = finished.result.as_deref().map(str::trim);
                if given != Some(&*result(number)) {
                    return Err(format!("the answer is {given:?}"));
                }
                self.answered += 1;
            }
            (Outcome::Failed, Some(_)) => self.failed += 1,
            (outcome, error) => return Err(format!("it ended as {outcome:?}, {error:?}")),
        }
        Ok(())
    }
}

/// The end of a transcript without gaps; there is one, and it is the last event.
fn end(events: &[Event]) -> Result<&Finished, String> {
    for (place, event) in events.iter().enumerate() {
        if event.seq.0 != place as u64 + 1 {
            return Err(format!("event {} has the number {}", place + 1, event.seq));
        }
    }
    let mut ends = events.iter().filter_map(|event| match &event.body {
        Body::Finished(finished) => Some(finished),
        _ => None,
    });
    let finished = ends.next().ok_or("it does not end")?;
    let is_last = events.last().is_some_and(|event| event.body.kind() == "finished");
    match is_last && ends.next().is_none() {
        true => Ok(finished),
        false => Err("it goes on after its end".to_owned()),
    }
}

fn ended_call(event: &Event) -> Option<(u32, &str)> {
    match &event.body {
        Body::ToolFinished(finished) => Some((finished.call.turn, finished.call.id.as_str())),
        _ => None,
    }
}

fn sandboxes(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event.body, Body::SandboxAttached(_))).count()
}

fn leases(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event.body, Body::LeaseTaken(_))).count()
}

#[cfg(test)]
mod tests {
    use belljar_model::Sequence;
    use time::OffsetDateTime;

    use super::*;

    fn event(seq: u64, outcome: Outcome, text: &str) -> Event {
        let finished =
            Finished { outcome, error: None, message: None, result: Some(text.to_owned()) };
        let at = OffsetDateTime::UNIX_EPOCH;
        Event { seq: Sequence(seq), at, lease: None, key: None, body: finished.into() }
    }

    #[test]
    fn a_run_that_ends_twice_or_never_or_wrongly_is_wrong() {
        let right = event(1, Outcome::Answered, &result(3));
        let mut verdict = Verdict::default();
        verdict.add(3, std::slice::from_ref(&right)).unwrap();
        assert_eq!((verdict.answered, verdict.events), (1, 1));
        let wrong = [
            vec![],
            vec![right.clone(), Event { seq: Sequence(2), ..right.clone() }],
            vec![Event { seq: Sequence(2), ..right.clone() }],
            vec![event(1, Outcome::Answered, &result(4))],
            vec![event(1, Outcome::Failed, "without a kind")],
            vec![event(1, Outcome::Exhausted, &result(3))],
        ];
        for events in wrong {
            assert!(verdict.add(3, &events).is_err(), "{events:?}");
        }
        assert_eq!((verdict.answered, verdict.failed), (1, 0));
    }
}
