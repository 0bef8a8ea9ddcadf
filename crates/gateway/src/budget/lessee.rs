//! Leases slices for accounts that several gateways share.
//!
//! ```text
//!   reserve ──fits──► goes out
//!      │ short
//!      ├─ one request asks the node; the others of this account wait for it
//!      └─ exhausted, or the books are away: refused, and remembered for a moment
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use belljar_domain::budget::{
    AskSlice, BudgetAnswer, BudgetKey, BudgetRequest, ReturnSlices, Slice,
};
use belljar_peer_proto::gateway::FromGateway;
use futures_util::StreamExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::{Account, Amount, Exhausted, Ledger, NotReserved, Reservation, Short};

/// Longest wait for an answer of the node, which asks every replica of control.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);
/// Longest wait for a rate: without an answer, this gateway's own count bounds the request.
const RATE_TIMEOUT: Duration = Duration::from_millis(250);
/// A refusal holds for so long before the books are asked again.
const REFUSAL_MEMORY: Duration = Duration::from_millis(500);
/// Books of a rate that are away are asked again after so long.
const RATE_AWAY_MEMORY: Duration = Duration::from_secs(5);
/// An account that was not used for so long gives its slices back.
const IDLE: Duration = Duration::from_secs(5);
/// Interval of looks for idle accounts.
const IDLE_LOOK: Duration = Duration::from_secs(1);
/// Attempts to give slices back. After them, they stay spent.
const RETURN_ATTEMPTS: u32 = 3;
const RETURN_RETRY: Duration = Duration::from_secs(2);
/// Accounts whose slices are given back at the same time. Control answers four of a node at once.
const RETURNS_AT_ONCE: usize = 4;
/// Slices that one request may lease: others take what it leased.
const MAX_LEASES: u32 = 100;

/// The smallest slice that an early renewal takes.
const SMALLEST: Amount = Amount { requests: 1, tokens: 1, nano_dollars: 1 };

/// The reason that a request was not let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Exhausted(Exhausted),
    /// No slice can be leased now.
    NoLease,
}

/// A note for the requests that wait behind the one that was refused.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusal {
    at: Instant,
    /// It holds for so long.
    memory: Duration,
    missing: Amount,
    /// None: the books are away.
    is_held: Option<bool>,
}

/// Asks the node for slices.
#[derive(Debug)]
pub(crate) struct Lessee {
    /// The epoch of this process.
    gateway: String,
    events: mpsc::Sender<FromGateway>,
    questions: Mutex<Questions>,
}

#[derive(Debug, Default)]
struct Questions {
    next: u64,
    waiting: HashMap<u64, Question>,
}

/// A question to the node. It stays here until the node answers, even if no request waits for
/// the answer any more.
#[derive(Debug)]
struct Question {
    request: BudgetRequest,
    sender: oneshot::Sender<BudgetAnswer>,
}

impl Lessee {
    pub(crate) fn new(gateway: String, events: mpsc::Sender<FromGateway>) -> Self {
        Self { gateway, events, questions: Mutex::default() }
    }

    fn questions(&self) -> MutexGuard<'_, Questions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node's answer. A slice that no request waits for any more is given back.
    pub(crate) fn answer(&self, number: u64, answer: BudgetAnswer) {
        let Some(Question { request, sender }) = self.questions().waiting.remove(&number) else {
            return;
        };
        if let Err(answer) = sender.send(answer)
            && let Some(back) = request.return_of(&answer)
        {
            let question = self.next_question();
            let events = self.events.clone();
            tokio::spawn(async move {
                let request = BudgetRequest::Return(back);
                let _ = events.send(FromGateway::Budget { question, request }).await;
            });
        }
    }

    fn next_question(&self) -> u64 {
        let mut questions = self.questions();
        questions.next += 1;
        questions.next
    }

    async fn ask(&self, request: BudgetRequest, timeout: Duration) -> BudgetAnswer {
        let deadline = Instant::now() + timeout;
        let away = |why: &str| BudgetAnswer::Away { why: why.to_owned() };
        let (sender, mut answer) = oneshot::channel();
        let question = self.next_question();
        let noted = Question { request: request.clone(), sender };
        self.questions().waiting.insert(question, noted);
        let sending = self.events.send(FromGateway::Budget { question, request });
        let why_not = match tokio::time::timeout_at(deadline, sending).await {
            Ok(Ok(())) => None,
            Ok(Err(_)) => Some("the node is gone"),
            Err(_) => Some("the node takes no question"),
        };
        if let Some(why) = why_not {
            self.questions().waiting.remove(&question);
            return away(why);
        }
        let answered = tokio::time::timeout_at(deadline, &mut answer).await;
        // An answer that was sent just now counts; a later one finds the channel closed.
        answer.close();
        let answered = answered.ok().and_then(Result::ok).or_else(|| answer.try_recv().ok());
        answered.unwrap_or_else(|| away("the node did not answer in time"))
    }

    async fn give_back(&self, slices: &ReturnSlices, attempts: u32) {
        for attempt in 1..=attempts {
            match self.ask(BudgetRequest::Return(slices.clone()), ANSWER_TIMEOUT).await {
                BudgetAnswer::Away { why } => {
                    tracing::warn!(operation = slices.key.operation, why, "slices not returned");
                }
                _ => return,
            }
            if attempt < attempts {
                tokio::time::sleep(RETURN_RETRY).await;
            }
        }
    }
}

impl Ledger {
    /// Puts `amount` aside in all of `accounts`, and leases what their slices lack.
    pub(crate) async fn obtain(
        self: &Arc<Self>,
        mut accounts: Vec<Arc<Account>>,
        amount: Amount,
    ) -> Result<Reservation, Refused> {
        for _ in 0..MAX_LEASES {
            match self.try_reserve(&accounts, amount) {
                Ok(reservation) => {
                    accounts.iter().for_each(|account| self.renew_early(account));
                    return Ok(reservation);
                }
                Err(NotReserved::Exhausted(exhausted)) => {
                    return Err(Refused::Exhausted(exhausted));
                }
                Err(NotReserved::Short(short)) => {
                    let account = Arc::clone(&short.account);
                    match self.lease(short, amount).await {
                        // A rate is no money: while the books are away, this gateway's own count
                        // bounds it.
                        Err(Refused::NoLease) if account.is_rate => {
                            accounts.retain(|other| !Arc::ptr_eq(other, &account));
                        }
                        leased => leased?,
                    }
                }
            }
        }
        Err(Refused::NoLease)
    }

    /// Leases a slice for an account that is short, unless another request just did.
    async fn lease(&self, short: Short, amount: Amount) -> Result<(), Refused> {
        let Short { account, what } = short;
        let mut turn = account.turn.lock().await;
        let Some(missing) = self.missing(&account, amount) else { return Ok(()) };
        let remembered = turn.filter(|refusal| refusal.covers(missing));
        let is_held = match remembered {
            Some(refusal) => refusal.is_held,
            None => match self.ask_for(&account, missing).await {
                Ok(()) => {
                    *turn = None;
                    return Ok(());
                }
                Err(is_held) => {
                    *turn = Some(Refusal::new(&account, missing, is_held));
                    is_held
                }
            },
        };
        match is_held {
            None => Err(Refused::NoLease),
            Some(is_held) => {
                // Slices that others hold come back when those are idle.
                let retry = is_held.then_some(IDLE);
                Err(Refused::Exhausted(account.exhausted(what, retry)))
            }
        }
    }

    /// The part of `amount` that the account's slices lack now.
    fn missing(&self, account: &Account, amount: Amount) -> Option<Amount> {
        self.lock().get(&account.number)?.missing(amount).map(|(_, missing)| missing)
    }

    /// Asks for a slice and takes it. Refused: whether others hold slices; none if the books are
    /// away.
    async fn ask_for(&self, account: &Account, at_least: Amount) -> Result<(), Option<bool>> {
        let request = {
            let states = self.lock();
            let state = states.get(&account.number).ok_or(None::<bool>)?;
            let holding = state.holding.as_ref().ok_or(None::<bool>)?;
            let lessee = self.lessee.as_ref().ok_or(None::<bool>)?;
            AskSlice {
                gateway: lessee.gateway.clone(),
                key: holding.key.clone(),
                limit: state.limit.into(),
                at_least,
            }
        };
        let key = request.key.clone();
        let lessee = self.lessee.as_ref().ok_or(None::<bool>)?;
        let asked = Instant::now();
        // Requests wait for an early renewal too.
        let timeout = if account.is_rate { RATE_TIMEOUT } else { ANSWER_TIMEOUT };
        match lessee.ask(BudgetRequest::Lease(request), timeout).await {
            BudgetAnswer::Granted(slice) => {
                account.take_slice(&key, slice, asked);
                Ok(())
            }
            BudgetAnswer::Exhausted { is_held } => Err(Some(is_held)),
            BudgetAnswer::Away { why } => {
                tracing::warn!(operation = key.operation, why, "no slice of the budget");
                Err(None)
            }
            BudgetAnswer::Returned { .. } => Err(None),
        }
    }

    /// Leases the next slice before the account is short, so that no request waits for it.
    fn renew_early(self: &Arc<Self>, account: &Arc<Account>) {
        let is_low = || self.lock().get(&account.number).is_some_and(super::State::is_running_low);
        if self.lessee.is_none() || !is_low() {
            return;
        }
        let (ledger, account) = (Arc::clone(self), Arc::clone(account));
        tokio::spawn(async move {
            let Ok(mut turn) = account.turn.try_lock() else { return };
            if turn.is_some_and(|refusal| refusal.covers(SMALLEST)) {
                return;
            }
            let refused = ledger.ask_for(&account, SMALLEST).await.err();
            *turn = refused.map(|is_held| Refusal::new(&account, SMALLEST, is_held));
        });
    }

    /// Gives back what idle accounts hold, for as long as the ledger is there.
    pub(crate) fn return_idle(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(IDLE_LOOK).await;
                let Some(ledger) = weak.upgrade() else { return };
                let Some(before) = Instant::now().checked_sub(IDLE) else { continue };
                ledger.give_back(before, RETURN_ATTEMPTS).await;
            }
        });
    }

    /// Gives back everything that no request needs: this gateway is about to end.
    pub(crate) async fn return_all(&self) {
        self.give_back(Instant::now(), 1).await;
    }

    async fn give_back(&self, before: Instant, attempts: u32) {
        let Some(lessee) = &self.lessee else { return };
        let unused: Vec<ReturnSlices> = {
            let mut states = self.lock();
            let taken = states.values_mut().map(|state| state.take_unused(&lessee.gateway, before));
            taken.flatten().collect()
        };
        let giving = |slices| async move { lessee.give_back(&slices, attempts).await };
        futures_util::stream::iter(unused).for_each_concurrent(RETURNS_AT_ONCE, giving).await;
    }
}

impl Account {
    /// Adds a slice that was asked for at `asked`, unless the account has another window now.
    fn take_slice(&self, key: &BudgetKey, slice: Slice, asked: Instant) {
        if let Some(state) = self.ledger.lock().get_mut(&self.number)
            && state.holding.as_ref().is_some_and(|holding| holding.key == *key)
        {
            state.take_slice(slice, asked);
        }
    }
}

impl Refusal {
    fn new(account: &Account, missing: Amount, is_held: Option<bool>) -> Self {
        let is_away = is_held.is_none();
        let memory = if account.is_rate && is_away { RATE_AWAY_MEMORY } else { REFUSAL_MEMORY };
        Self { at: Instant::now(), memory, missing, is_held }
    }

    /// Returns true if asking for this much would be refused again.
    fn covers(&self, missing: Amount) -> bool {
        let is_fresh = self.at.elapsed() < self.memory;
        let is_as_large = match self.is_held {
            None => true,
            Some(_) => self.missing.min(missing) == self.missing,
        };
        is_fresh && is_as_large
    }
}
