//! What the parts of an act came to, as one verdict.

use std::fmt::Display;
use std::time::Duration;

use crate::attack::{Seen, verdict};
use crate::harness::files::HANG_LIMIT;
use crate::harness::stage::Ran;

#[derive(Debug, Default)]
pub(crate) struct Findings {
    held: Vec<String>,
    breached: Vec<String>,
    late: Vec<String>,
}

impl Findings {
    /// What must be so; otherwise what was seen instead is a breach.
    pub(crate) fn expect(&mut self, is_so: bool, what: &str, instead: impl Display) {
        if is_so {
            self.held(what);
        } else {
            self.breached.push(format!("not so: {what}; {instead}"));
        }
    }

    /// What must be over before it counts as hanging.
    pub(crate) fn in_time(&mut self, took: Duration, what: &str) {
        self.expect_in_time(took < HANG_LIMIT, what, format!("{took:?}"));
    }

    /// What only a host without its cores may miss; otherwise it counts against the act.
    pub(crate) fn expect_in_time(&mut self, is_so: bool, what: &str, instead: impl Display) {
        if is_so {
            self.held(what);
        } else {
            self.late.push(format!("not in time: {what}; {instead}"));
        }
    }

    pub(crate) fn breach(&mut self, text: impl Into<String>) {
        self.breached.push(text.into());
    }

    /// The same is said once, however often it is so.
    pub(crate) fn held(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.held.contains(&text) {
            self.held.push(text);
        }
    }

    pub(crate) fn add(&mut self, seen: Seen) {
        match seen {
            Seen::Held(text) | Seen::NotHere(text) => self.held(text),
            Seen::Breach(text) => self.breached.push(text),
            Seen::Late(text) => self.late.push(text),
        }
    }

    /// Adds the verdict that a payload printed.
    pub(crate) fn verdict(&mut self, ran: &Ran) -> anyhow::Result<()> {
        self.add(verdict(ran)?);
        Ok(())
    }

    /// One breach is enough: in a control run, the rest need not be tried.
    pub(crate) fn is_breached(&self) -> bool {
        !self.breached.is_empty()
    }

    pub(crate) fn seen(self) -> Seen {
        if self.is_breached() {
            Seen::Breach(self.breached.join("; "))
        } else if !self.late.is_empty() {
            Seen::Late(self.late.join("; "))
        } else {
            Seen::Held(self.held.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_is_no_breach_and_hides_none() {
        let mut findings = Findings::default();
        findings.in_time(HANG_LIMIT / 2, "in time");
        assert_eq!(findings.seen(), Seen::Held("in time".to_owned()));
        let mut findings = Findings::default();
        findings.in_time(HANG_LIMIT, "destroyed");
        findings.held("stopped");
        let late = format!("not in time: destroyed; {HANG_LIMIT:?}");
        assert_eq!(findings.seen(), Seen::Late(late));
        let mut findings = Findings::default();
        findings.in_time(HANG_LIMIT, "destroyed");
        findings.breach("it got out");
        assert_eq!(findings.seen(), Seen::Breach("it got out".to_owned()));
    }
}
