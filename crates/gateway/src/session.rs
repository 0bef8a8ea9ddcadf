//! One sandbox, as the gateway knows it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use belljar_domain::SandboxId;
use belljar_domain::network::{Policy, Row, Subject, Tape};
use belljar_peer_proto::gateway as bus;
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, watch};

use crate::authority::Authority;
use crate::charge_log::ChargeLog;
use crate::log::Log;
use crate::meter::Meter;
use crate::packages::Access;
use crate::room::BodyRoom;
use crate::shared::Shared;
use crate::tape::{Deck, DeckError};
use crate::tokens::Owner;
use crate::upstream::Pool;

/// A sandbox's way out. It ends by [`Session::close`]; whatever still holds it
/// then finds it closed.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) subject: Subject,
    /// Which operations its tokens can be given at most.
    pub(crate) operations: Vec<String>,
    /// The sandbox that is charged, if the subject has another id.
    pub(crate) charged: Option<SandboxId>,
    /// Whose its tokens are: this sandbox, since it was opened.
    pub(crate) owner: Owner,
    pub(crate) meter: Meter,
    /// For bodies of its requests.
    pub(crate) room: BodyRoom,
    /// Upstream connections that wait for another exchange.
    pub(crate) pool: Pool,
    pub(crate) authority: Authority,
    deck: AsyncMutex<Option<Arc<Deck>>>,
    state: watch::Sender<State>,
    connections: AtomicU64,
    /// A token was made whose tool calls wait for a human.
    holds_calls: AtomicBool,
    /// The next row's number. Rows are queued under this lock, so that their
    /// order is that of their numbers.
    sequence: Mutex<u64>,
}

/// What may change while connections are open.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) policy: Arc<Policy>,
    /// What it says of packages.
    pub(crate) packages: Option<Arc<Access>>,
    pub(crate) closed: bool,
}

impl Session {
    pub(crate) fn new(
        shared: Arc<Shared>,
        session: bus::Session,
        authority: Authority,
    ) -> Arc<Self> {
        let bus::Session { subject, policy, operations, charged } = session;
        let packages = Access::of(&policy, None);
        let state = State { policy: Arc::new(policy), packages, closed: false };
        let owner = shared.desk.owner(subject.sandbox.clone());
        let share = shared.live().config.gateway.sandbox_body_bytes();
        let room = BodyRoom::new(Arc::clone(&shared.desk.room), share);
        Arc::new(Self {
            shared,
            owner,
            subject,
            operations,
            charged,
            meter: Meter::new(),
            room,
            pool: Pool::default(),
            authority,
            deck: AsyncMutex::default(),
            state: watch::Sender::new(state),
            connections: AtomicU64::new(0),
            holds_calls: AtomicBool::new(false),
            sequence: Mutex::new(0),
        })
    }

    /// The policy at this moment.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.state.borrow().policy)
    }

    /// What is in force at this moment.
    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Tells of every change from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    pub(crate) fn change(&self, policy: Policy) {
        if self.policy().tape != policy.tape {
            self.put_deck_away();
        }
        self.state.send_modify(|state| {
            state.packages = Access::of(&policy, state.packages.as_deref());
            state.policy = Arc::new(policy);
        });
    }

    pub(crate) fn close(&self) {
        self.state.send_modify(|state| state.closed = true);
        self.pool.clear();
        self.put_deck_away();
    }

    /// Has every connection judged again, by what is in force now.
    pub(crate) fn judge_again(&self) {
        self.state.send_modify(|_| {});
    }

    /// The cassette that `tape` names, opened when it is first needed.
    pub(crate) async fn deck(&self, tape: &Tape) -> Result<Arc<Deck>, DeckError> {
        let mut current = self.deck.lock().await;
        if let Some(deck) = current.as_ref().filter(|deck| deck.plays(tape)) {
            return Ok(Arc::clone(deck));
        }
        // The one before is put away first: both may name the same cassette.
        *current = None;
        let live = self.shared.live();
        let tenant = live.cassettes.as_ref().ok_or(DeckError::NoPlace)?;
        let (tenant, tape) = (tenant.tenant(&self.subject.tenant), tape.clone());
        let opened = tokio::task::spawn_blocking(move || Deck::open(tenant, &tape));
        let deck = Arc::new(opened.await.unwrap_or(Err(DeckError::GivenUp))?);
        *current = Some(Arc::clone(&deck));
        Ok(deck)
    }

    /// Puts the cassette away, unless somebody is just looking for it.
    fn put_deck_away(&self) {
        if let Ok(mut deck) = self.deck.try_lock() {
            *deck = None;
        }
    }

    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// Answers of models may be held from now on.
    pub(crate) fn hold_calls(&self) {
        self.holds_calls.store(true, Ordering::Relaxed);
    }

    /// Returns false if no token of this sandbox has tool calls that wait.
    pub(crate) fn holds_calls(&self) -> bool {
        self.holds_calls.load(Ordering::Relaxed)
    }

    pub(crate) fn log(&self) -> &Log {
        &self.shared.log
    }

    /// None: charges of this gateway are not logged.
    pub(crate) fn charge_log(&self) -> Option<&ChargeLog> {
        self.shared.charges.as_deref()
    }

    pub(crate) fn write(&self, mut row: Row, permit: OwnedSemaphorePermit) {
        let mut next = self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        row.sequence = *next;
        *next += 1;
        self.shared.log.push(row, permit);
    }
}
