//! The ledger: what may be spent, by whom, and what has been.
//!
//! ```text
//!   reserve ──► dispatch ──► settle (what it really was)
//!      │            └──────► dropped: all that was reserved is charged
//!      └───────────────────► dropped: given back
//! ```
//!
//! Before a request goes out, the most that it can cost is reserved in every
//! account that it draws on (its token's, its operation's, its tenant's), in one
//! step under one lock: either all of them can bear it or none is touched. So the
//! sum of what is spent and what is reserved never passes a limit, however many
//! ask at the same moment.
//!
//! The bound on that promise: a reservation is the most that the request can cost
//! because the gateway itself sets the largest answer. An upstream that charges
//! more all the same has broken its word; the true amount is written, whatever
//! the limit, and the account lets nothing through from then on. What passes the
//! limit is at most the excess of the requests that were under way.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

mod minute;
#[cfg(test)]
mod tests;

pub(crate) use minute::Minute;

/// What may be spent. Absent: not bounded by this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Limit {
    pub(crate) requests: Option<u64>,
    /// All kinds together.
    pub(crate) tokens: Option<u64>,
    pub(crate) nano_dollars: Option<u64>,
    pub(crate) requests_per_minute: Option<u32>,
    /// How long it takes until the account begins anew; none: never.
    pub(crate) every: Option<Duration>,
}

impl From<belljar_bus::gateway::Budget> for Limit {
    fn from(budget: belljar_bus::gateway::Budget) -> Self {
        Self {
            requests: budget.requests,
            tokens: budget.tokens,
            nano_dollars: budget.nano_dollars,
            requests_per_minute: budget.requests_per_minute,
            every: None,
        }
    }
}

/// What is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Amount {
    pub(crate) requests: u64,
    pub(crate) tokens: u64,
    pub(crate) nano_dollars: u64,
}

/// Whose account it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Token,
    Operation,
    Tenant,
}

/// What an account is out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Requests,
    Tokens,
    Dollars,
    Rate,
}

/// Why nothing was reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the budget of this {scope} has no {what} left for this request")]
pub(crate) struct Exhausted {
    pub(crate) scope: Scope,
    pub(crate) what: What,
    /// When asking again can help: the rate has room by then, or requests that
    /// are under way may give back what they do not use.
    pub(crate) retry: Option<Duration>,
}

/// One account. It is closed when the last who holds it is gone.
#[derive(Debug)]
pub(crate) struct Account {
    number: u64,
    scope: Scope,
    ledger: Arc<Ledger>,
}

/// All accounts, under one lock.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    next: AtomicU64,
    states: Mutex<HashMap<u64, State>>,
}

#[derive(Debug)]
struct State {
    limit: Limit,
    spent: Amount,
    reserved: Amount,
    minute: Minute,
    began: Instant,
}

/// What was put aside for one request.
#[derive(Debug)]
pub(crate) struct Reservation {
    ledger: Arc<Ledger>,
    accounts: Vec<Arc<Account>>,
    amount: Amount,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Reserved,
    Dispatched,
    Settled,
}

impl Ledger {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn open(self: &Arc<Self>, scope: Scope, limit: Limit) -> Arc<Account> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let state = State {
            limit,
            spent: Amount::default(),
            reserved: Amount::default(),
            minute: Minute::default(),
            began: Instant::now(),
        };
        self.lock().insert(number, state);
        Arc::new(Account { number, scope, ledger: Arc::clone(self) })
    }

    /// Puts `amount` aside in all of `accounts`, or in none.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        accounts: Vec<Arc<Account>>,
        amount: Amount,
    ) -> Result<Reservation, Exhausted> {
        let now = Instant::now();
        let mut states = self.lock();
        for account in &accounts {
            let Some(state) = states.get_mut(&account.number) else { continue };
            state.begin_anew_if_due(now);
            state.check(amount, now).map_err(|(what, retry)| Exhausted {
                scope: account.scope,
                what,
                retry,
            })?;
        }
        for account in &accounts {
            if let Some(state) = states.get_mut(&account.number) {
                state.reserved = state.reserved.plus(amount);
                state.minute.count(now);
            }
        }
        drop(states);
        Ok(Reservation { ledger: Arc::clone(self), accounts, amount, stage: Stage::Reserved })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    #[cfg(test)]
    fn spent(&self) -> Amount {
        self.ledger.lock().get(&self.number).map(|state| state.spent).unwrap_or_default()
    }

    #[cfg(test)]
    fn reserved(&self) -> Amount {
        self.ledger.lock().get(&self.number).map(|state| state.reserved).unwrap_or_default()
    }

    /// Another limit from now on; what was spent stays spent.
    pub(crate) fn change(&self, limit: Limit) {
        if let Some(state) = self.ledger.lock().get_mut(&self.number) {
            state.limit = limit;
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.ledger.lock().remove(&self.number);
    }
}

impl Reservation {
    /// From now on it may have cost something: dropping charges all of it.
    pub(crate) fn dispatch(&mut self) {
        self.stage = Stage::Dispatched;
    }

    /// Charges what it really was and gives the rest back.
    pub(crate) fn settle(mut self, actual: Amount) {
        self.close(actual);
    }

    fn close(&mut self, actual: Amount) {
        self.stage = Stage::Settled;
        let mut states = self.ledger.lock();
        for account in &self.accounts {
            if let Some(state) = states.get_mut(&account.number) {
                state.reserved = state.reserved.minus(self.amount);
                state.spent = state.spent.plus(actual);
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        match self.stage {
            Stage::Reserved => self.close(Amount::default()),
            Stage::Dispatched => self.close(self.amount),
            Stage::Settled => {}
        }
    }
}

impl State {
    fn begin_anew_if_due(&mut self, now: Instant) {
        if self.limit.every.is_some_and(|every| now - self.began >= every) {
            self.began = now;
            self.spent = Amount::default();
        }
    }

    fn check(&mut self, more: Amount, now: Instant) -> Result<(), (What, Option<Duration>)> {
        let Self { limit, spent, reserved, .. } = self;
        let checks = [
            (What::Requests, limit.requests, spent.requests, reserved.requests, more.requests),
            (What::Tokens, limit.tokens, spent.tokens, reserved.tokens, more.tokens),
            (
                What::Dollars,
                limit.nano_dollars,
                spent.nano_dollars,
                reserved.nano_dollars,
                more.nano_dollars,
            ),
        ];
        for (what, limit, spent, reserved, more) in checks {
            let Some(limit) = limit else { continue };
            let fits = |base: u64| base.checked_add(more).is_some_and(|sum| sum <= limit);
            if fits(spent.saturating_add(reserved)) {
                continue;
            }
            // Only what others have put aside is in the way, and they may yet
            // use less.
            let retry = fits(spent).then_some(Duration::from_secs(1));
            return Err((what, retry));
        }
        match self.limit.requests_per_minute {
            Some(most) => self.minute.room(most, now).map_err(|wait| (What::Rate, Some(wait))),
            None => Ok(()),
        }
    }
}

impl Amount {
    fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            tokens: self.tokens.saturating_add(other.tokens),
            nano_dollars: self.nano_dollars.saturating_add(other.nano_dollars),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(other.requests),
            tokens: self.tokens.saturating_sub(other.tokens),
            nano_dollars: self.nano_dollars.saturating_sub(other.nano_dollars),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token => "token",
            Self::Operation => "operation",
            Self::Tenant => "tenant",
        })
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Dollars => "money",
            Self::Rate => "requests this minute",
        })
    }
}
