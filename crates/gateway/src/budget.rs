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
//!
//! Budgets of operations and tenants are shared by all gateways. Such an account holds slices
//! that it leases ([`lessee`], [`slices`]), and spends those in the same way. A rate of theirs is a
//! budget of requests whose window is a minute, beside the count of this gateway ([`Minute`]).

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) use belljar_domain::budget::BudgetAmount as Amount;
use belljar_domain::budget::BudgetLimit;
use tokio::time::Instant;

#[cfg(test)]
mod lease_tests;
mod lessee;
mod minute;
#[cfg(test)]
mod rate_tests;
mod slices;
#[cfg(test)]
mod tests;

pub(crate) use lessee::{Lessee, Refused};
pub(crate) use minute::Minute;
use slices::Holding;

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

impl From<belljar_peer_proto::gateway::Budget> for Limit {
    fn from(budget: belljar_peer_proto::gateway::Budget) -> Self {
        Self {
            requests: budget.requests,
            tokens: budget.tokens,
            nano_dollars: budget.nano_dollars,
            requests_per_minute: budget.requests_per_minute,
            every: None,
        }
    }
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

/// The reason that no reservation was made.
#[derive(Debug)]
enum NotReserved {
    Exhausted(Exhausted),
    /// The slices of an account have too little.
    Short(Short),
}

#[derive(Debug)]
struct Short {
    account: Arc<Account>,
    what: What,
}

/// The window of a rate that gateways share.
const RATE_WINDOW: Duration = Duration::from_secs(60);

impl Limit {
    /// The rate as a budget of its own.
    pub(crate) fn rate(self) -> Option<Self> {
        let requests = Some(u64::from(self.requests_per_minute?));
        Some(Self { requests, every: Some(RATE_WINDOW), ..Self::default() })
    }

    /// The budgets that gateways share for this limit of an operation: name, window, and size.
    pub(crate) fn shared(
        self,
        operation: &str,
    ) -> impl Iterator<Item = (String, u64, BudgetLimit)> {
        let rate = self.rate().map(|rate| (rate_name(operation), rate));
        let all = std::iter::once((operation.to_owned(), self)).chain(rate);
        all.map(|(name, limit)| (name, slices::every_seconds(limit), limit.into()))
    }
}

/// The name of the rate's budget. No operation can have it, so no other budget has its key.
fn rate_name(operation: &str) -> String {
    format!("{operation}#minute")
}

/// One account. It is closed when the last who holds it is gone.
#[derive(Debug)]
pub(crate) struct Account {
    number: u64,
    scope: Scope,
    /// It bounds requests of a minute, which this gateway counts as well.
    is_rate: bool,
    ledger: Arc<Ledger>,
    /// One request at a time leases a slice. It leaves a note for the others if it got none.
    turn: tokio::sync::Mutex<Option<lessee::Refusal>>,
}

/// All accounts, under one lock.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    next: AtomicU64,
    states: Mutex<HashMap<u64, State>>,
    /// None: all accounts are in memory.
    lessee: Option<Lessee>,
}

#[derive(Debug)]
struct State {
    limit: Limit,
    spent: Amount,
    reserved: Amount,
    minute: Minute,
    began: Instant,
    /// Slices, where others spend from the same budget.
    holding: Option<Holding>,
    /// Counts windows of a leased account: a request that began in one is no concern of the next.
    window: u64,
}

/// What was put aside for one request.
#[derive(Debug)]
pub(crate) struct Reservation {
    ledger: Arc<Ledger>,
    /// With the window that each was in.
    accounts: Vec<(Arc<Account>, u64)>,
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
    #[cfg(test)]
    pub(crate) fn new() -> Arc<Self> {
        Self::with(None)
    }

    pub(crate) fn with(lessee: Option<Lessee>) -> Arc<Self> {
        Arc::new(Self { lessee, ..Self::default() })
    }

    pub(crate) fn lessee(&self) -> Option<&Lessee> {
        self.lessee.as_ref()
    }

    /// An account of this gateway alone.
    pub(crate) fn open(self: &Arc<Self>, scope: Scope, limit: Limit) -> Arc<Account> {
        self.open_with(scope, limit, None, false)
    }

    /// An account of all gateways, if slices can be leased here.
    pub(crate) fn open_shared(
        self: &Arc<Self>,
        limit: Limit,
        operation: &str,
        tenant: Option<&str>,
    ) -> Arc<Account> {
        let scope = if tenant.is_some() { Scope::Tenant } else { Scope::Operation };
        let holding = self.lessee.is_some().then(|| Holding::new(operation, tenant, limit));
        self.open_with(scope, limit, holding, false)
    }

    /// An account of the requests that all gateways let through in a minute. None: no slices can be
    /// leased here, and this gateway counts for itself.
    pub(crate) fn open_rate(
        self: &Arc<Self>,
        limit: Limit,
        operation: &str,
        tenant: Option<&str>,
    ) -> Option<Arc<Account>> {
        self.lessee.as_ref()?;
        let scope = if tenant.is_some() { Scope::Tenant } else { Scope::Operation };
        let holding = Holding::new(&rate_name(operation), tenant, limit);
        Some(self.open_with(scope, limit, Some(holding), true))
    }

    fn open_with(
        self: &Arc<Self>,
        scope: Scope,
        limit: Limit,
        holding: Option<Holding>,
        is_rate: bool,
    ) -> Arc<Account> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let state = State {
            limit,
            spent: Amount::default(),
            reserved: Amount::default(),
            minute: Minute::default(),
            began: Instant::now(),
            holding,
            window: 0,
        };
        self.lock().insert(number, state);
        let turn = tokio::sync::Mutex::default();
        Arc::new(Account { number, scope, is_rate, ledger: Arc::clone(self), turn })
    }

    /// Puts `amount` aside in all of `accounts`, or in none.
    #[cfg(test)]
    pub(crate) fn reserve(
        self: &Arc<Self>,
        accounts: Vec<Arc<Account>>,
        amount: Amount,
    ) -> Result<Reservation, Exhausted> {
        self.try_reserve(&accounts, amount).map_err(|refused| match refused {
            NotReserved::Exhausted(exhausted) => exhausted,
            NotReserved::Short(Short { account, what }) => {
                Exhausted { scope: account.scope, what, retry: None }
            }
        })
    }

    /// Puts `amount` aside in all of `accounts`, or in none, without leasing anything.
    fn try_reserve(
        self: &Arc<Self>,
        accounts: &[Arc<Account>],
        amount: Amount,
    ) -> Result<Reservation, NotReserved> {
        let now = Instant::now();
        let mut states = self.lock();
        for account in accounts {
            let Some(state) = states.get_mut(&account.number) else { continue };
            state.begin_anew_if_due(now);
            state.check(amount, now).map_err(|denied| match denied {
                Denied::Exhausted(what, retry) => {
                    NotReserved::Exhausted(account.exhausted(what, retry))
                }
                Denied::Short(what) => {
                    NotReserved::Short(Short { account: Arc::clone(account), what })
                }
            })?;
        }
        let mut reserved = Vec::with_capacity(accounts.len());
        for account in accounts {
            if let Some(state) = states.get_mut(&account.number) {
                state.reserved = state.reserved.plus(amount);
                state.minute.count(now);
                if let Some(holding) = &mut state.holding {
                    holding.used = now;
                }
                reserved.push((Arc::clone(account), state.window));
            }
        }
        drop(states);
        let (ledger, accounts) = (Arc::clone(self), reserved);
        Ok(Reservation { ledger, accounts, amount, stage: Stage::Reserved })
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

    fn exhausted(&self, what: What, retry: Option<Duration>) -> Exhausted {
        let scope = self.scope;
        match self.is_rate {
            // At the latest, there is room in the next minute.
            true => {
                Exhausted { scope, what: What::Rate, retry: Some(retry.unwrap_or(RATE_WINDOW)) }
            }
            false => Exhausted { scope, what, retry },
        }
    }

    /// Another limit from now on; what was spent stays spent.
    pub(crate) fn change(&self, limit: Limit) {
        if let Some(state) = self.ledger.lock().get_mut(&self.number) {
            let is_other_window = state.limit.every != limit.every;
            state.limit = limit;
            if let Some(holding) = &mut state.holding
                && is_other_window
            {
                // Another window is another budget. What is held of the old one stays spent there.
                holding.change_window(limit);
                state.begin_window();
            }
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
        for (account, window) in &self.accounts {
            // The window that a request began in has paid for it in full.
            if let Some(state) = states.get_mut(&account.number)
                && state.window == *window
            {
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

/// The reason that an account bears no more.
enum Denied {
    Exhausted(What, Option<Duration>),
    Short(What),
}

impl State {
    fn begin_anew_if_due(&mut self, now: Instant) {
        if let Some(holding) = &self.holding {
            if holding.ends.is_some_and(|ends| now >= ends) {
                self.begin_window();
            }
        } else if self.limit.every.is_some_and(|every| now - self.began >= every) {
            self.began = now;
            self.spent = Amount::default();
        }
    }

    fn check(&mut self, more: Amount, now: Instant) -> Result<(), Denied> {
        let Self { limit, spent, reserved, holding, .. } = self;
        for (what, limit, spent, reserved, more) in by_kind(limit, *spent, *reserved, more) {
            let Some(limit) = limit else { continue };
            let fits = |base: u64| base.checked_add(more).is_some_and(|sum| sum <= limit);
            let base = if holding.is_some() { 0 } else { spent.saturating_add(reserved) };
            if fits(base) {
                continue;
            }
            // Only what others have put aside is in the way, and they may yet
            // use less.
            let retry = (holding.is_none() && fits(spent)).then_some(Duration::from_secs(1));
            return Err(Denied::Exhausted(what, retry));
        }
        if let Some(most) = self.limit.requests_per_minute {
            let room = self.minute.room(most, now);
            room.map_err(|wait| Denied::Exhausted(What::Rate, Some(wait)))?;
        }
        match self.missing(more) {
            Some((what, _)) => Err(Denied::Short(what)),
            None => Ok(()),
        }
    }
}

/// Each kind of a budget: its limit, what is spent, reserved, and asked for.
fn by_kind(
    limit: &Limit,
    spent: Amount,
    reserved: Amount,
    more: Amount,
) -> [(What, Option<u64>, u64, u64, u64); 3] {
    [
        (What::Requests, limit.requests, spent.requests, reserved.requests, more.requests),
        (What::Tokens, limit.tokens, spent.tokens, reserved.tokens, more.tokens),
        (
            What::Dollars,
            limit.nano_dollars,
            spent.nano_dollars,
            reserved.nano_dollars,
            more.nano_dollars,
        ),
    ]
}

impl From<Limit> for BudgetLimit {
    fn from(limit: Limit) -> Self {
        let Limit { requests, tokens, nano_dollars, .. } = limit;
        Self { requests, tokens, nano_dollars }
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
