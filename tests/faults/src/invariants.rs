//! What must hold after every fault. Each is a function over [`Evidence`], and
//! each was shown a violation once: see [`planted`].

pub(crate) mod planted;

mod books;
mod hosts;
mod promises;

use crate::evidence::Evidence;

/// The twelve of the fault catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invariant {
    /// Nothing lost: what was accepted is there, or has its end on record, once.
    I1,
    /// Nothing twice.
    I2,
    /// All reaped: nothing is on a host that is not on the books.
    I3,
    /// Tokens of the dead open nothing.
    I4,
    /// The bill is right, and so are the quotas.
    I5,
    /// One owner: nothing lives on two nodes, or on one that was given up.
    I6,
    /// Fails closed.
    I7,
    /// No half-jailed code.
    I8,
    /// Bounded: what is used comes back.
    I9,
    /// Honest: every request ends in time, with an answer that says something.
    I10,
    /// Heals by itself.
    I11,
    /// Every connection is on record, or a gap is.
    I12,
}

/// What is wrong, in words; empty: it holds. An error: nothing could be looked at.
type Found = Result<Vec<String>, &'static str>;

impl Invariant {
    pub(crate) const ALL: [Self; 12] = [
        Self::I1,
        Self::I2,
        Self::I3,
        Self::I4,
        Self::I5,
        Self::I6,
        Self::I7,
        Self::I8,
        Self::I9,
        Self::I10,
        Self::I11,
        Self::I12,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::I1 => "I1 nothing lost",
            Self::I2 => "I2 nothing twice",
            Self::I3 => "I3 all reaped",
            Self::I4 => "I4 tokens dead",
            Self::I5 => "I5 bill right",
            Self::I6 => "I6 one owner",
            Self::I7 => "I7 fails closed",
            Self::I8 => "I8 no half-jailed code",
            Self::I9 => "I9 bounded",
            Self::I10 => "I10 honest",
            Self::I11 => "I11 heals itself",
            Self::I12 => "I12 all on record",
        }
    }

    pub(crate) fn number(self) -> &'static str {
        self.name().split(' ').next().unwrap_or_default()
    }

    fn check(self, evidence: &Evidence) -> Found {
        match self {
            Self::I1 => books::nothing_lost(evidence),
            Self::I2 => books::nothing_twice(evidence),
            Self::I3 => hosts::all_reaped(evidence),
            Self::I4 => promises::tokens_dead(evidence),
            Self::I5 => books::bill_right(evidence),
            Self::I6 => hosts::one_owner(evidence),
            Self::I7 => promises::fails_closed(evidence),
            Self::I8 => hosts::no_half_jailed(evidence),
            Self::I9 => promises::bounded(evidence),
            Self::I10 => promises::honest(evidence),
            Self::I11 => promises::heals_itself(evidence),
            Self::I12 => promises::all_on_record(evidence),
        }
    }

    /// What was not in time.
    fn late(self, evidence: &Evidence) -> Vec<String> {
        match self {
            Self::I10 => promises::late_answers(evidence),
            Self::I11 => promises::late_healing(evidence),
            _ => Vec::new(),
        }
    }
}

/// The violations that were found, in words, each with the name of its invariant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Violations {
    /// A promise that was broken; no host is so slow that it excuses these.
    pub(crate) broken: Vec<String>,
    /// Something that came after its time limit, or had not come by then.
    pub(crate) late: Vec<String>,
}

impl Violations {
    pub(crate) fn is_empty(&self) -> bool {
        self.broken.is_empty() && self.late.is_empty()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &String> {
        self.broken.iter().chain(&self.late)
    }
}

/// Judges the evidence by these invariants.
pub(crate) fn violations(of: &[Invariant], evidence: &Evidence) -> Violations {
    let mut found = Violations::default();
    for invariant in of {
        let named = |what: String| format!("{}: {what}", invariant.name());
        match invariant.check(evidence) {
            Ok(wrong) => found.broken.extend(wrong.into_iter().map(named)),
            Err(missing) => found.broken.push(named(format!("cannot be judged: {missing}"))),
        }
        found.late.extend(invariant.late(evidence).into_iter().map(named));
    }
    found
}
