//! The step of a run of a program between two of its calls, decided from its log and the clock.
//!
//! ```text
//!   forked, or its sandbox was lost ─► continue, from the last session that was kept
//!   it reported success ─────────────► close: answered
//!   a bound ended it ────────────────► say which, close: exhausted
//!   otherwise ───────────────────────► close: failed
//! ```

use belljar_domain::EndReason;
use belljar_journal::RunView;
use belljar_journal::event::{
    Body, ErrorCategory, Event, Limit, LimitHit, Outcome, RunCreated, ToolFault,
};
use belljar_pipeline::AgentKind;
use time::OffsetDateTime;

use crate::budget::Clause;
use crate::decide::{Closing, Step, used_up};
use crate::story::Story;

/// Sandboxes that a run may lose.
const MAX_LOSSES: u32 = 3;

/// The message by which a program goes on.
pub(crate) const CONTINUE: &str =
    "Your work was interrupted. Look at the state of the files, then go on where you stopped.";

/// Categories of a program's failure.
const FAILED: &str = "program";
const NO_TURNS: &str = "turns";
const NO_MONEY: &str = "budget";
const TOO_SLOW: &str = "timeout";

/// The category of a failure that the program explained like this.
pub(crate) fn category(why: &str, is_penniless: bool) -> &'static str {
    match why {
        _ if is_penniless => NO_MONEY,
        why if why.contains("max_turns") => NO_TURNS,
        _ => FAILED,
    }
}

/// A run of a program, folded from its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramRun {
    pub(crate) agent: AgentKind,
    /// The end of its last call in this run; none: it has not ended yet.
    last: Option<ProgramEnd>,
    losses: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ProgramEnd {
    reason: EndReason,
    text: String,
    fault: Option<ToolFault>,
}

impl ProgramRun {
    /// None: the run's agent is no program.
    pub(crate) fn begin(created: &RunCreated) -> Option<Self> {
        let agent = created.agent();
        agent.is_program().then_some(Self { agent, last: None, losses: 0 })
    }

    /// Takes one more event into account; the view has all before it.
    pub(crate) fn apply(&mut self, view: &RunView, event: &Event) {
        match &event.body {
            Body::ForkedFrom(_) => (self.last, self.losses) = (None, 0),
            Body::ToolFinished(finished)
                if view.calls.iter().any(|it| it.call == finished.call) =>
            {
                let (reason, fault) = (finished.reason, finished.fault.clone());
                self.losses += u32::from(reason == EndReason::Lost);
                self.last = Some(ProgramEnd { reason, text: finished.shown.clone(), fault });
            }
            _ => {}
        }
    }
}

/// The one thing to do now; no call is unfinished.
pub(crate) fn between<'a>(
    story: &'a Story,
    run: &ProgramRun,
    now: OffsetDateTime,
    turn: u32,
) -> Step<'a> {
    let is_lost = |end: &ProgramEnd| end.reason == EndReason::Lost;
    let Some(end) = run.last.as_ref().filter(|end| !is_lost(end)) else {
        if let Some(clause) = used_up(story, now).first() {
            return exhaust(story, clause.hit(turn), clause.reason());
        }
        if run.losses > MAX_LOSSES {
            let why = "the sandbox was lost time and again";
            return Step::Close(Closing::failed(ErrorCategory::Sandbox, why));
        }
        return Step::Continue;
    };
    let Some(fault) = &end.fault else {
        let result = (!end.text.is_empty()).then(|| end.text.clone());
        return Step::Close(Closing { result, ..Closing::of(Outcome::Answered) });
    };
    match limit(story, fault, now, turn) {
        Some(hit) => exhaust(story, hit, fault.message.clone()),
        None => Step::Close(Closing::failed(ErrorCategory::NoResult, &fault.message)),
    }
}

/// Says which bound ended it, then ends it.
fn exhaust(story: &Story, hit: LimitHit, why: String) -> Step<'_> {
    if !story.view.limits.contains(&hit.limit) {
        return Step::Limit(hit);
    }
    Step::Close(Closing { message: Some(why), ..Closing::of(Outcome::Exhausted) })
}

/// The bound that a program failed for.
fn limit(story: &Story, fault: &ToolFault, now: OffsetDateTime, turn: u32) -> Option<LimitHit> {
    if let Some(clause) = used_up(story, now).first() {
        return Some(clause.hit(turn));
    }
    let limit = match fault.category.as_str() {
        NO_TURNS => Limit::Turns,
        NO_MONEY => Limit::Money,
        TOO_SLOW => Limit::Wall,
        _ => return None,
    };
    let clauses = Clause::all(&story.view, story.began.unwrap_or(now), now);
    let clause = clauses.into_iter().find(|clause| clause.limit == limit);
    clause.map(|clause| clause.hit(turn))
}

#[cfg(test)]
mod tests {
    use belljar_domain::Sequence;
    use belljar_journal::PROGRAM_CALL;
    use belljar_journal::event::{Brief, Budget, CallRef, ToolFinished, Used, Wish};

    use super::*;
    use crate::decide::decide;
    use crate::invented::{created, moment};

    /// A run of Claude Code and the end of its first call.
    fn story(budget: Budget, reason: EndReason, fault: Option<&str>) -> Story {
        let call = CallRef { turn: 1, id: format!("{PROGRAM_CALL}:1") };
        story_of(budget, call, reason, fault)
    }

    /// A run of Claude Code and the end of a call.
    fn story_of(budget: Budget, call: CallRef, reason: EndReason, fault: Option<&str>) -> Story {
        let brief = Brief { agent: AgentKind::ClaudeCode, ..Brief::default() };
        let wish = Wish {
            template: "claude-code".into(),
            environment: belljar_journal::event::Environment::default(),
            network: Box::default(),
            brief: Box::new(brief),
            operation: None,
            request: None,
            questions: false,
            traceparent: None,
        };
        let created = RunCreated { wish: Some(wish), ..created(budget) };
        let fault = fault
            .map(|category| ToolFault { category: category.to_owned(), message: "why".to_owned() });
        let finished = ToolFinished {
            call,
            exec: None,
            reason,
            exit_code: None,
            shown: "text".into(),
            cut: None,
            outputs: vec![],
            fault,
            used: Used::default(),
        };
        let mut story = Story::default();
        for (seq, body) in [Body::from(created), Body::from(finished)].into_iter().enumerate() {
            let seq = Sequence(seq as u64 + 1);
            story.apply(&Event { seq, at: moment(seq.0), lease: None, key: None, body });
        }
        story
    }

    fn step(story: &Story) -> Step<'_> {
        decide(story, moment(9))
    }

    #[test]
    fn an_answer_closes_the_run_and_a_failure_too() {
        let well = story(Budget::default(), EndReason::Done, None);
        let Step::Close(closing) = step(&well) else { panic!("{:?}", step(&well)) };
        assert_eq!((closing.outcome, closing.result.as_deref()), (Outcome::Answered, Some("text")));
        let failed = story(Budget::default(), EndReason::Exit, Some(FAILED));
        let Step::Close(closing) = step(&failed) else { panic!("{:?}", step(&failed)) };
        assert_eq!((closing.outcome, closing.message.as_deref()), (Outcome::Failed, Some("why")));
    }

    #[test]
    fn only_the_end_of_a_call_of_the_run_ends_its_program() {
        for (turn, id) in [(2, "belljar:program:1"), (1, "belljar:program:2"), (1, "t")] {
            let call = CallRef { turn, id: id.to_owned() };
            let forged = story_of(Budget::default(), call, EndReason::Done, None);
            assert!(matches!(step(&forged), Step::Intend(_)), "{turn} {id}");
            assert!(forged.program.is_some_and(|run| run.last.is_none()), "{turn} {id}");
        }
    }

    #[test]
    fn a_lost_sandbox_is_replaced_as_long_as_there_is_time() {
        assert_eq!(step(&story(Budget::default(), EndReason::Lost, Some("lost"))), Step::Continue);
        let short = Budget { wall_ms: Some(1000), ..Budget::default() };
        let late = story(short, EndReason::Lost, Some("lost"));
        assert!(matches!(step(&late), Step::Limit(hit) if hit.limit == Limit::Wall));
    }

    #[test]
    fn a_program_that_the_gateway_stopped_is_exhausted() {
        let budget = Budget { nano_dollars: Some(7), turns: Some(9), ..Budget::default() };
        let mut poor = story(budget, EndReason::Exit, Some(NO_MONEY));
        let Step::Limit(hit) = step(&poor) else { panic!("{:?}", step(&poor)) };
        assert_eq!((hit.limit, hit.allowed), (Limit::Money, 7));
        poor.view.limits.insert(Limit::Money);
        let Step::Close(closing) = step(&poor) else { panic!("{:?}", step(&poor)) };
        assert_eq!(closing.outcome, Outcome::Exhausted);
        let cut = story(budget, EndReason::Exit, Some(NO_TURNS));
        assert!(matches!(step(&cut), Step::Limit(hit) if hit.limit == Limit::Turns));
    }
}
