//! What an answer of a model costs, read while it passes.

use std::collections::VecDeque;
use std::fmt;

use belljar_domain::network::Charge;
use belljar_llm::dialect::Dialect;
use belljar_llm::price::{Price, Reservation};
use belljar_llm::tap::{Form, Options, Pass, Tap};
use belljar_llm::usage::Usage;
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap};

use super::echo::{Echo, Echoed, Needle};
use super::refuse;
use crate::budget::Amount;
use crate::tokens::Death;

/// How an answer came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    /// The client left before.
    Gone,
    Token(Death),
    /// The credential was in it.
    Echoed,
    /// The upstream broke off.
    Upstream,
    /// The upstream said nothing for too long.
    Idle,
    /// The upstream said more than is passed on.
    TooLong,
}

/// What one request may cost, and what it does.
#[derive(Debug)]
pub(super) struct Metering {
    pub(super) dialect: Dialect,
    /// As the upstream calls it.
    pub(super) model: String,
    pub(super) price: Price,
    pub(super) reserved: Reservation,
    pub(super) drop_usage: bool,
    pub(super) state: State,
}

#[derive(Debug)]
pub(super) enum State {
    /// Nothing has been answered.
    Waiting,
    /// It was refused, or failed: providers do not charge for that.
    Free,
    Passing {
        tap: Box<Tap>,
        form: Form,
        text: Echo,
    },
}

/// So much of a credential's beginning is no accident: what holds it waits until
/// the next event tells. Shorter beginnings are public anyway (`sk-`).
const SUSPICIOUS: usize = 4;

/// What an answer's text says about the credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Nothing,
    ItsBeginning,
}

impl Metering {
    /// The head of the answer is here.
    /// `listens`: its text will be searched.
    pub(super) fn answered(&mut self, status: StatusCode, headers: &HeaderMap, listens: bool) {
        if !status.is_success() {
            self.state = State::Free;
            return;
        }
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let form = Form::of(content_type);
        let options = Options { drop_usage: self.drop_usage, ..Options::default() };
        let mut tap = Box::new(Tap::new(self.dialect, form, options));
        if listens {
            tap.listen();
        }
        self.state = State::Passing { tap, form, text: Echo::default() };
    }

    /// Whether what goes on can be other than what came.
    pub(super) fn changes(&self) -> bool {
        self.drop_usage && matches!(self.state, State::Passing { form: Form::Stream, .. })
    }

    pub(super) fn feed(&mut self, chunk: Bytes, on: &mut VecDeque<Bytes>) {
        let State::Passing { tap, .. } = &mut self.state else { return on.push_back(chunk) };
        match tap.push(&chunk) {
            Pass::Same => on.push_back(chunk),
            Pass::These(these) if these.is_empty() => {}
            Pass::These(these) => on.push_back(these.into()),
        }
    }

    /// Searches the text that has come since the last time.
    pub(super) fn search(&mut self, needle: &Needle) -> Result<Said, Echoed> {
        let State::Passing { tap, text, .. } = &mut self.state else { return Ok(Said::Nothing) };
        match tap.hear(|heard| text.hear(needle, heard)).transpose()? {
            Some(matched) if matched >= SUSPICIOUS => Ok(Said::ItsBeginning),
            _ => Ok(Said::Nothing),
        }
    }

    /// An event in the client's own words that says why there is no more; none
    /// where it could not be told from what came before.
    pub(super) fn last_words(&self, end: End) -> Option<Bytes> {
        match &self.state {
            State::Passing { tap, form: Form::Stream, .. } if tap.is_between_events() => {
                Some(refuse::event(self.dialect, end))
            }
            _ => None,
        }
    }

    /// What is charged if nothing more is heard of it.
    pub(super) fn assumed(&self) -> Charge {
        self.reserved.usage.charge(&self.model, self.reserved.nano_dollars, true)
    }

    /// The same, of a request whose gateway ends before it does.
    pub(super) fn estimated(&self) -> Charge {
        Charge { assumed: false, estimated: true, ..self.assumed() }
    }

    /// The cost of a stream, once its last usage has come by: a client may hold the answer for whole
    /// from now on.
    pub(super) fn settled(&self) -> Option<Charge> {
        let State::Passing { tap, form: Form::Stream, .. } = &self.state else { return None };
        let usage = tap.settled()?;
        Some(usage.charge(&self.model, self.price.cost(&usage), false))
    }

    /// The answer is over: what is left to pass on, and what it cost.
    pub(super) fn finish(self) -> (Bytes, Charge) {
        let (held, usage, assumed) = match self.state {
            State::Passing { tap, .. } => {
                let (held, report) = tap.finish();
                let (usage, assumed) = report.settle(self.reserved.usage);
                (held, usage, assumed)
            }
            State::Free => (vec![], Usage::default(), false),
            State::Waiting => (vec![], self.reserved.usage, true),
        };
        let cost = self.price.cost(&usage);
        // What we only assume is never more than what was put aside for it.
        let nano = if assumed { cost.min(self.reserved.nano_dollars) } else { cost };
        (held.into(), usage.charge(&self.model, nano, assumed))
    }
}

/// What a charge takes from a budget.
pub(super) fn amount(charge: &Charge) -> Amount {
    let tokens = [charge.cache_read, charge.cache_write, charge.output]
        .into_iter()
        .fold(charge.input, u64::saturating_add);
    Amount { requests: 1, tokens, nano_dollars: charge.nano_dollars }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Complete => "the response is complete",
            Self::Gone => "the client left",
            Self::Token(Death::Expired) => "the token expired during the response",
            Self::Token(Death::Revoked) => "the token was revoked during the response",
            Self::Echoed => "the response had content that must not be forwarded",
            Self::Upstream => "the upstream ended its response early",
            Self::Idle => "the upstream sent nothing for too long",
            Self::TooLong => "the upstream's response is too long",
        })
    }
}
