//! What a run may use, what it has used, and how the model is told.

use belljar_journal::RunView;
use belljar_journal::event::{Budget, Limit, LimitHit};
use time::OffsetDateTime;

use crate::money::dollars;
use crate::shorten::counted;

/// One bound of a budget, and how near it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clause {
    pub limit: Limit,
    pub used: u64,
    pub allowed: u64,
}

impl Clause {
    /// Every bound that a run has. Time is counted from its creation on, without that of approvals.
    pub fn all(view: &RunView, began: OffsetDateTime, now: OffsetDateTime) -> Vec<Self> {
        let Budget { turns, wall_ms, tokens, nano_dollars, output_bytes, cpu_ms } = view.budget;
        let spent = &view.spent;
        let passed = now - began - view.waited;
        let passed = u64::try_from(passed.whole_milliseconds()).unwrap_or(0);
        let clause =
            |limit, used, allowed: Option<u64>| Some(Self { limit, used, allowed: allowed? });
        [
            clause(Limit::Turns, view.turns.into(), turns.map(Into::into)),
            clause(Limit::Wall, passed, wall_ms),
            clause(Limit::Tokens, spent.tokens.total(), tokens),
            clause(Limit::Money, spent.nano_dollars, nano_dollars),
            clause(Limit::Output, spent.output_bytes, output_bytes),
            clause(Limit::Cpu, spent.cpu_micros / 1000, cpu_ms),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    pub fn is_used_up(&self) -> bool {
        self.used >= self.allowed
    }

    pub(crate) fn hit(&self, turn: u32) -> LimitHit {
        LimitHit { limit: self.limit, turn, used: self.used, allowed: self.allowed }
    }

    /// As a sentence about its end.
    pub(crate) fn end(&self) -> String {
        let amount = amount(self.limit, self.allowed);
        match self.limit {
            Limit::Turns => format!("All {amount} are used."),
            Limit::Wall => format!("The time for this question, {amount}, is over."),
            Limit::Tokens => format!("The {amount} for this question are used."),
            Limit::Money if !self.is_used_up() => {
                format!("What is left of the {amount} for this question is for this answer.")
            }
            Limit::Money => format!("The {amount} for this question are spent."),
            Limit::Output => format!("The {amount} of output for this question are used."),
            Limit::Cpu => format!("The {amount} of computing time for this question are used."),
        }
    }

    /// Why a run ended, for people.
    pub(crate) fn reason(&self) -> String {
        format!("the budget of {} is used up", named(self.limit, self.allowed))
    }
}

/// How many turns are left, if they are counted.
pub(crate) fn turns_left(view: &RunView) -> Option<u32> {
    view.budget.turns.map(|turns| turns.saturating_sub(view.turns))
}

/// The whole budget, for the beginning and for when it changes.
pub(crate) fn described(budget: &Budget) -> String {
    let part = |limit, allowed: Option<u64>| allowed.map(|allowed| named(limit, allowed));
    let parts: Vec<String> = [
        part(Limit::Turns, budget.turns.map(Into::into)),
        part(Limit::Wall, budget.wall_ms),
        part(Limit::Cpu, budget.cpu_ms),
        part(Limit::Tokens, budget.tokens),
        part(Limit::Money, budget.nano_dollars),
        part(Limit::Output, budget.output_bytes),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() {
        return "There is no limit on turns.".to_owned();
    }
    format!("Budget: {}.", parts.join(", "))
}

/// Where the run stands, said with every round of results. What is measured, such
/// as time, is said only in steps: a prompt should be the same when it is asked again.
pub(crate) fn status(view: &RunView, began: OffsetDateTime, now: OffsetDateTime) -> Option<String> {
    let parts: Vec<String> = Clause::all(view, began, now).iter().filter_map(standing).collect();
    (!parts.is_empty()).then(|| format!("[{}]", parts.join("; ")))
}

fn standing(clause: &Clause) -> Option<String> {
    let Clause { limit, used, allowed } = *clause;
    match limit {
        Limit::Turns => Some(format!("turn {used} of {allowed} is done")),
        Limit::Money => Some(format!("{} of {} spent", dollars(used), dollars(allowed))),
        Limit::Tokens => Some(format!("{} of {} tokens used", counted(used), counted(allowed))),
        Limit::Wall | Limit::Output | Limit::Cpu => {
            let share = used.saturating_mul(100) / allowed.max(1);
            let step = [90, 75, 50].into_iter().find(|step| share >= *step)?;
            let what = match limit {
                Limit::Wall => "time",
                Limit::Output => "output",
                _ => "computing time",
            };
            Some(format!("more than {step} % of the {what} is used"))
        }
    }
}

/// An amount, and of what.
fn named(limit: Limit, allowed: u64) -> String {
    let amount = amount(limit, allowed);
    match limit {
        Limit::Wall => format!("{amount} on the clock"),
        Limit::Cpu => format!("{amount} of computing"),
        Limit::Output => format!("{amount} of output"),
        Limit::Turns | Limit::Tokens | Limit::Money => amount,
    }
}

fn amount(limit: Limit, allowed: u64) -> String {
    match limit {
        Limit::Turns if allowed == 1 => "1 turn".to_owned(),
        Limit::Turns => format!("{} turns", counted(allowed)),
        Limit::Wall | Limit::Cpu => span(allowed),
        Limit::Tokens => format!("{} tokens", counted(allowed)),
        Limit::Money => dollars(allowed),
        Limit::Output => format!("{} bytes", counted(allowed)),
    }
}

fn span(millis: u64) -> String {
    match millis / 1000 {
        0 => format!("{millis} ms"),
        seconds if seconds >= 120 && seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        seconds => format!("{} seconds", counted(seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_said_in_words() {
        let budget = Budget {
            turns: Some(30),
            wall_ms: Some(600_000),
            tokens: Some(1_000_000),
            nano_dollars: Some(1_500_000_000),
            output_bytes: None,
            cpu_ms: Some(90_000),
        };
        assert_eq!(
            described(&budget),
            "Budget: 30 turns, 10 minutes on the clock, 90 seconds of computing, 1,000,000 tokens, $1.50."
        );
        assert_eq!(described(&Budget::default()), "There is no limit on turns.");
    }

    #[test]
    fn what_is_measured_is_said_in_steps() {
        let said = |used| standing(&Clause { limit: Limit::Wall, used, allowed: 1000 });
        assert_eq!(said(499), None);
        assert_eq!(said(500), said(749));
        assert_eq!(said(990).unwrap(), "more than 90 % of the time is used");
    }
}
