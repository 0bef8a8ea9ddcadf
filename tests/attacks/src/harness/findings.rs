//! What the parts of an act came to, as one verdict.

use std::fmt::Display;

use crate::attack::{Seen, verdict};
use crate::harness::stage::Ran;

#[derive(Debug, Default)]
pub(crate) struct Findings {
    held: Vec<String>,
    breached: Vec<String>,
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
        } else {
            Seen::Held(self.held.join("; "))
        }
    }
}
