//! Reads every transcript when all runs are over: what was promised, by counts alone.
//!
//! Requirements: P5, P8

use std::collections::BTreeSet;
use std::time::Duration;

use belljar_domain::SandboxId;
use belljar_journal::event::{Body, Event, Finished, Outcome};
use belljar_journal::{Address, Journal, read_all};
use serde::Serialize;

use super::load::CreatedRun;
use super::model::ModelTimes;
use super::script::{Script, counter, result};

/// The ends of all runs.
#[derive(Debug, Default, Serialize)]
pub(super) struct Verdict {
    pub(super) answered: usize,
    /// With the kind of the failure; each had a sandbox on the killed node.
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
    /// Of each run: from its creation until it had a worker.
    #[serde(skip)]
    pub(super) claims: Vec<Duration>,
    /// Of each run whose worker and sandbox lived: its life less the time of the model.
    #[serde(skip)]
    pub(super) overheads: Vec<Duration>,
    /// The same of the others.
    #[serde(skip)]
    pub(super) disturbed: Vec<Duration>,
}

/// The things that transcripts are compared with.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) script: Script,
    /// Sandboxes of the node that was killed. Their runs alone may fail.
    pub(super) lost: BTreeSet<SandboxId>,
}

pub(super) async fn verify(
    journal: &dyn Journal,
    tenant: &str,
    created: &[CreatedRun],
    times: &ModelTimes,
    expected: &Expected,
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
        if let Err(why) = verdict.add(run.number, &events, model.answers, expected) {
            verdict.wrong.push(format!("{}: {why}", run.id));
        }
        let Some((first, last)) = events.first().zip(events.last()) else { continue };
        let claimed = events.iter().find(|event| matches!(event.body, Body::LeaseTaken(_)));
        if let Some(claimed) = claimed {
            let wait = Duration::try_from(claimed.at - first.at).unwrap_or_default();
            verdict.claims.push(wait);
        }
        let life = Duration::try_from(last.at - first.at).unwrap_or_default();
        let overhead = life.saturating_sub(Duration::from_micros(model.micros));
        match is_disturbed(&events, expected) {
            true => verdict.disturbed.push(overhead),
            false => verdict.overheads.push(overhead),
        }
    }
    Ok(verdict)
}

impl Verdict {
    fn add(
        &mut self,
        number: u32,
        events: &[Event],
        answers: u32,
        expected: &Expected,
    ) -> Result<(), String> {
        self.events += events.len();
        self.turns += count(events, "llm_requested");
        self.sandboxes += count(events, "sandbox_attached");
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
        answered_once(events, answers)?;
        executed_once(events, is_disturbed(events, expected))?;
        match (finished.outcome, &finished.error) {
            (Outcome::Answered, _) => {
                let given = finished.result.as_deref().map(str::trim);
                if given != Some(&*result(number)) {
                    return Err(format!("the answer is {given:?}"));
                }
                let (turns, script) = (count(events, "llm_responded"), expected.script);
                if turns != script.turns as usize {
                    return Err(format!("it has {turns} turns, not {}", script.turns));
                }
                let wanted = script.calls.min(script.turns - 1) as usize;
                let counted = events.iter().filter(|event| is_counted(event)).count();
                if counted != wanted && !is_disturbed(events, expected) {
                    return Err(format!("{counted} calls in the sandbox, not {wanted}"));
                }
                self.answered += 1;
            }
            (Outcome::Failed, Some(_)) if has_lost_sandbox(events, expected) => self.failed += 1,
            (Outcome::Failed, Some(error)) => {
                return Err(format!("it failed, and no kill could hit it: {error:?}"));
            }
            (outcome, error) => return Err(format!("it ended as {outcome:?}, {error:?}")),
        }
        Ok(())
    }
}

/// Compares the answers that the model gave with those in the transcript. Each worker that took
/// the run over may have asked once more for an answer that the one before did not write.
fn answered_once(events: &[Event], answers: u32) -> Result<(), String> {
    let written = count(events, "llm_responded");
    let most = written + leases(events).saturating_sub(1);
    match (written..=most).contains(&(answers as usize)) {
        true => Ok(()),
        false => Err(format!("the model gave {answers} answers; {written} are in the transcript")),
    }
}

/// Compares the counters that the calls printed. Each sandbox begins with 1. A call whose end is
/// lost has no counter and may have been executed; its interpreter may be another one after it.
fn executed_once(events: &[Event], is_disturbed: bool) -> Result<(), String> {
    // The counters that the next call may print.
    let mut next = vec![1];
    for event in events {
        let finished = match &event.body {
            Body::SandboxAttached(_) => {
                next = vec![1];
                continue;
            }
            Body::ToolFinished(finished) if finished.exec.is_some() => finished,
            _ => continue,
        };
        match counter(&finished.shown) {
            Some(counted) if next.contains(&counted) => next = vec![counted + 1],
            Some(counted) => {
                return Err(format!("a call counted {counted}, which is not in {next:?}"));
            }
            None if is_disturbed => {
                let executed = next.iter().map(|counted| counted + 1).collect::<Vec<_>>();
                next.extend(executed);
                next.push(1);
            }
            None => return Err(format!("a call did not count: {}", finished.shown)),
        }
    }
    Ok(())
}

/// Returns true if a worker or a sandbox of the run was lost, or could be.
fn is_disturbed(events: &[Event], expected: &Expected) -> bool {
    leases(events) > 1
        || count(events, "sandbox_attached") > 1
        || has_lost_sandbox(events, expected)
}

fn has_lost_sandbox(events: &[Event], expected: &Expected) -> bool {
    events.iter().any(|event| match &event.body {
        Body::SandboxAttached(attached) => expected.lost.contains(&attached.sandbox),
        _ => false,
    })
}

fn count(events: &[Event], kind: &str) -> usize {
    events.iter().filter(|event| event.body.kind() == kind).count()
}

fn is_counted(event: &Event) -> bool {
    match &event.body {
        Body::ToolFinished(finished) => counter(&finished.shown).is_some(),
        _ => false,
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

fn leases(events: &[Event]) -> usize {
    count(events, "lease_taken")
}

#[cfg(test)]
mod tests {
    use belljar_domain::{EndReason, Generation, Sequence};
    use belljar_journal::event::{CallRef, ErrorCategory, LlmResponded, ToolFinished};
    use belljar_journal::event::{LeaseTaken, SandboxAttached, Tokens, Used};
    use time::OffsetDateTime;

    use super::*;

    fn transcript(bodies: Vec<Body>) -> Vec<Event> {
        let number = |(place, body)| Event {
            seq: Sequence(place as u64 + 1),
            at: OffsetDateTime::UNIX_EPOCH,
            lease: None,
            key: None,
            body,
        };
        bodies.into_iter().enumerate().map(number).collect()
    }

    fn finished(outcome: Outcome, error: Option<ErrorCategory>, text: &str) -> Body {
        Finished { outcome, error, message: None, result: Some(text.to_owned()) }.into()
    }

    fn responded(turn: u32) -> Body {
        LlmResponded {
            turn,
            asked: Sequence(1),
            blocks: Vec::new(),
            stop: "end_turn".to_owned(),
            tokens: Tokens::default(),
            nano_dollars: 0,
            assumed: false,
            upstream_request: None,
            raw: None,
            first_token_micros: None,
            micros: 0,
        }
        .into()
    }

    fn taken() -> Body {
        LeaseTaken { generation: Generation(1), owner: "a".to_owned(), took_over: None }.into()
    }

    fn sandbox() -> SandboxId {
        SandboxId::from_random([7; 16])
    }

    fn attached() -> Body {
        SandboxAttached {
            sandbox: sandbox(),
            number: 1,
            template: "t".to_owned(),
            restored: None,
            data: None,
            environment: None,
        }
        .into()
    }

    fn call(turn: u32, shown: &str) -> Body {
        let call = CallRef { turn, id: format!("c{turn}") };
        let run = belljar_domain::RunId::from_bits([1; 16]);
        ToolFinished {
            exec: Some(call.exec(&run, 1)),
            call,
            reason: EndReason::Done,
            exit_code: Some(0),
            shown: shown.to_owned(),
            cut: None,
            outputs: Vec::new(),
            fault: None,
            used: Used::default(),
        }
        .into()
    }

    fn expected(lost: &[SandboxId]) -> Expected {
        let script = Script { turns: 3, calls: 2 };
        Expected { script, lost: lost.iter().cloned().collect() }
    }

    /// A run of three turns whose calls printed this.
    fn run(shown: [&str; 2], last: Body) -> Vec<Body> {
        let [first, second] = shown;
        let calls = [attached(), responded(1), call(1, first), responded(2), call(2, second)];
        [vec![taken()], calls.to_vec(), vec![responded(3), last]].concat()
    }

    fn judged(bodies: Vec<Body>, answers: u32, lost: &[SandboxId]) -> Result<Verdict, String> {
        let mut verdict = Verdict::default();
        verdict.add(3, &transcript(bodies), answers, &expected(lost)).map(|()| verdict)
    }

    fn right() -> Body {
        finished(Outcome::Answered, None, &result(3))
    }

    #[test]
    fn a_run_that_ends_twice_or_never_or_wrongly_is_wrong() {
        let counted = ["counted 1", "counted 2"];
        let verdict = judged(run(counted, right()), 3, &[]).unwrap();
        assert_eq!((verdict.answered, verdict.calls), (1, 2));
        let wrong = [
            vec![],
            [run(counted, right()), vec![right()]].concat(),
            vec![right()],
            run(counted, finished(Outcome::Answered, None, &result(4))),
            run(counted, finished(Outcome::Failed, None, "without a kind")),
            run(counted, finished(Outcome::Exhausted, None, &result(3))),
        ];
        for bodies in wrong {
            assert!(judged(bodies.clone(), 3, &[]).is_err(), "{bodies:?}");
        }
        let mut gap = transcript(run(counted, right()));
        gap.remove(2);
        assert!(Verdict::default().add(3, &gap, 3, &expected(&[])).is_err());
    }

    #[test]
    fn a_call_that_is_executed_twice_is_wrong() {
        for shown in [["counted 2", "counted 3"], ["counted 1", "counted 3"]] {
            assert!(judged(run(shown, right()), 3, &[]).is_err(), "{shown:?}");
        }
        let lost = ["the sandbox is gone", "counted 2"];
        assert!(judged(run(lost, right()), 3, &[]).is_err());
        assert!(judged(run(lost, right()), 3, &[sandbox()]).is_ok());
        let twice = ["the sandbox is gone", "counted 3"];
        assert!(judged(run(twice, right()), 3, &[sandbox()]).is_err());
    }

    #[test]
    fn an_answer_is_paid_for_twice_only_if_a_worker_died() {
        let bodies = || run(["counted 1", "counted 2"], right());
        assert!(judged(bodies(), 4, &[]).is_err() && judged(bodies(), 2, &[]).is_err());
        let disturbed = || [vec![taken()], bodies()].concat();
        assert!(judged(disturbed(), 4, &[]).is_ok());
        assert!(judged(disturbed(), 5, &[]).is_err());
    }

    #[test]
    fn runs_of_the_killed_node_alone_may_fail() {
        let failed = || {
            let last = finished(Outcome::Failed, Some(ErrorCategory::Sandbox), "");
            run(["counted 1", "counted 2"], last)
        };
        assert!(judged(failed(), 3, &[]).is_err());
        assert_eq!(judged(failed(), 3, &[sandbox()]).unwrap().failed, 1);
    }
}
