//! One replica.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::Response;
use belljar_console::Console;
use belljar_domain::{KnownBudgets, NodeNumber};
use belljar_identity::{Connector, PublicKey, TlsConfigError};
use belljar_listen::{Doors, Listener, Settings as Bounds};
use belljar_store::{NodeState, Store};
use hyper_util::client::legacy::Client;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::dial::{self, Known, KnownNodes};
use crate::forward::Unreached;
use crate::inside::TenantService;
use crate::keyring::Keyring;
use crate::keys::Proofs;
use crate::known_tenants::KnownTenants;
use crate::node_places::NodePlaces;
use crate::placement::Roster;
use crate::places::Places;
use crate::random::Random;
use crate::refuse::Refusal;
use crate::turns::Turns;

/// What a replica is told at its start.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How long a node is believed to be there after it spoke.
    pub lease: Duration,
    /// How much longer, before it is given up.
    pub grace: Duration,
    /// Creates that a node works on at the same time; others wait for their turn.
    pub at_once: usize,
    /// How long a create waits for a place.
    pub patience: Duration,
    /// Creates of one tenant, and of all, that wait.
    pub waiting: (usize, usize),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(6),
            grace: Duration::from_secs(1),
            at_once: 4,
            patience: Duration::from_secs(10),
            waiting: (2000, 10_000),
        }
    }
}

/// An enrolment is one statement; an operator adds a few nodes at a time.
const ENROLMENTS_AT_ONCE: usize = 2;

/// A handle on everything; cheap to clone.
#[derive(Debug, Clone)]
pub struct Control(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    /// The same, by connections that requests of tenants cannot take.
    leases: Store,
    keyring: Keyring,
    settings: Settings,
    roster: Roster,
    known: KnownNodes,
    client: Client<Connector, Body>,
    /// Enrolments that are looked up at the same time: they need no certificate.
    enrolling: Semaphore,
    proofs: Proofs,
    turns: Turns,
    places: Places,
    /// Since when the database has always answered; none: it does not.
    well: Mutex<Option<Instant>>,
    runs: OnceLock<TenantService>,
    webhooks: OnceLock<TenantService>,
    workflows: OnceLock<TenantService>,
    console: OnceLock<Console>,
    /// Of requests that have no key: those of runs that are worked on here.
    tenants: KnownTenants,
    /// The limits of the nodes' budgets; none: those that nodes claim are used.
    known_budgets: OnceLock<KnownBudgets>,
    /// Messages of each node that are heard at the same time.
    node_places: NodePlaces,
    /// Time and success of the last read of the nodes for a request that named an unknown node.
    learned: tokio::sync::Mutex<Option<(Instant, bool)>>,
}

/// Minimum time between two reads of the nodes for requests. It bounds the load of requests that
/// name nodes that do not exist.
const LEARN_APART: Duration = Duration::from_millis(50);
/// A database that takes longer is away.
const LEARN_WITHIN: Duration = Duration::from_secs(2);

impl Control {
    pub fn new(
        store: Store,
        keyring: Keyring,
        settings: Settings,
        random: Random,
    ) -> Result<Self, TlsConfigError> {
        let known = KnownNodes::default();
        let client = dial::client(&keyring, known.clone())?;
        let roster = Roster::new(settings.lease + settings.grace, random);
        Ok(Self(Arc::new(Inner {
            proofs: Proofs::default(),
            turns: Turns::new(settings.waiting),
            places: Places::new(store.max_connections()),
            leases: store.for_leases(),
            store,
            keyring,
            settings,
            roster,
            known,
            client,
            enrolling: Semaphore::new(ENROLMENTS_AT_ONCE),
            well: Mutex::new(None),
            runs: OnceLock::new(),
            tenants: KnownTenants::default(),
            webhooks: OnceLock::new(),
            workflows: OnceLock::new(),
            known_budgets: OnceLock::new(),
            console: OnceLock::new(),
            node_places: NodePlaces::default(),
            learned: tokio::sync::Mutex::default(),
        })))
    }

    /// Judges what nodes claim of budgets by these limits. Only the first ones count.
    pub fn know_budgets(&self, known: KnownBudgets) {
        let _ = self.0.known_budgets.set(known);
    }

    pub(crate) fn known_budgets(&self) -> Option<&KnownBudgets> {
        self.0.known_budgets.get()
    }

    /// Answers clients at `listeners` and nodes at `nodes` until `shutdown`, then lets
    /// what runs finish for a while.
    pub async fn run(
        self,
        listeners: Vec<Listener>,
        nodes: Vec<Listener>,
        bounds: Bounds,
        shutdown: impl Future<Output = ()>,
    ) {
        let after = tokio::spawn({
            let control = self.clone();
            async move { control.look_after().await }
        });
        self.observe();
        let control = self.clone();
        let doors = Doors::open(listeners, bounds, move |request| {
            let control = control.clone();
            async move { control.answer(request).await }
        });
        let control = self.clone();
        let node_doors = Doors::open(nodes, bounds, move |request| {
            let control = control.clone();
            async move { crate::observe::answer_node(&control, request).await }
        });
        shutdown.await;
        tokio::join!(doors.close(), node_doors.close());
        after.abort();
    }

    pub(crate) fn known_tenants(&self) -> &KnownTenants {
        &self.0.tenants
    }

    /// Places for messages of one node: it sends one after the other, and another that has its
    /// key keeps nobody else waiting.
    pub(crate) fn speaking(&self, node: NodeNumber) -> Arc<Semaphore> {
        self.0.node_places.messages(node)
    }

    /// A place for rows of one node; none if it has a batch under way.
    pub(crate) fn place_for_rows(&self, node: NodeNumber) -> Option<OwnedSemaphorePermit> {
        self.0.node_places.rows(node)
    }

    /// Places for one node's requests for slices of budgets.
    pub(crate) fn budget_places(&self, node: NodeNumber) -> Arc<Semaphore> {
        self.0.node_places.budgets(node)
    }

    /// Answers itself, as long as anybody else holds it.
    pub(crate) fn weakly(&self) -> impl Fn() -> Option<Self> + use<> {
        let inner = Arc::downgrade(&self.0);
        move || inner.upgrade().map(Self)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }

    /// For leases, and for what looks after them.
    pub(crate) fn leases(&self) -> &Store {
        &self.0.leases
    }

    pub fn keyring(&self) -> &Keyring {
        &self.0.keyring
    }

    pub(crate) fn enrolling(&self) -> &Semaphore {
        &self.0.enrolling
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn roster(&self) -> &Roster {
        &self.0.roster
    }

    pub(crate) fn client(&self) -> &Client<Connector, Body> {
        &self.0.client
    }

    pub(crate) fn proofs(&self) -> &Proofs {
        &self.0.proofs
    }

    pub(crate) fn places(&self) -> &Places {
        &self.0.places
    }

    pub(crate) fn turns(&self) -> &Turns {
        &self.0.turns
    }

    /// Has this replica serve the console. Only the first one counts.
    pub fn offer_console(&self, console: Console) {
        let _ = self.0.console.set(console);
    }

    pub(crate) fn console(&self) -> Option<Console> {
        self.0.console.get().copied()
    }

    pub(crate) fn runs(&self) -> Option<&TenantService> {
        self.0.runs.get()
    }

    pub(crate) fn set_runs(&self, runs: TenantService) {
        let _ = self.0.runs.set(runs);
    }

    pub(crate) fn webhooks(&self) -> Option<&TenantService> {
        self.0.webhooks.get()
    }

    pub(crate) fn workflows(&self) -> Option<&TenantService> {
        self.0.workflows.get()
    }

    pub(crate) fn set_workflows(&self, workflows: TenantService) {
        let _ = self.0.workflows.set(workflows);
    }

    pub(crate) fn set_webhooks(&self, webhooks: TenantService) {
        let _ = self.0.webhooks.set(webhooks);
    }

    /// The base of a node's URLs, if it may be reached: see [`dial::base`].
    pub(crate) fn address(&self, node: NodeNumber) -> Option<String> {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        let epoch = known.get(&node).filter(|node| node.state != NodeState::Lost)?.epoch;
        Some(dial::base(node, epoch))
    }

    /// As [`Self::address`], but reads the nodes from the database if the node is unknown: it may
    /// have registered with another replica a moment ago, or this replica has just started.
    /// Concurrent requests share one read.
    pub(crate) async fn find_address(&self, node: NodeNumber) -> Result<String, Unreached> {
        if let Some(address) = self.address(node) {
            return Ok(address);
        }
        let asked = Instant::now();
        let mut learned = self.0.learned.lock().await;
        let works = match *learned {
            Some((last, works)) if last >= asked => works,
            last => {
                if let Some((last, _)) = last {
                    tokio::time::sleep_until((last + LEARN_APART).into()).await;
                }
                let began = Instant::now();
                let read = tokio::time::timeout(LEARN_WITHIN, self.learn_nodes(self.store())).await;
                let works = matches!(read, Ok(Ok(())));
                *learned = Some((began, works));
                works
            }
        };
        drop(learned);
        if works { self.address(node).ok_or(Unreached::Gone) } else { Err(Unreached::Database) }
    }

    /// The key of a node that is enrolled and not revoked.
    pub(crate) fn node_key(&self, node: NodeNumber) -> Option<PublicKey> {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&node).map(|node| node.public_key)
    }

    /// A node's name; its number if it is not known here.
    pub(crate) fn node_name(&self, node: NodeNumber) -> String {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&node).map_or_else(|| node.to_string(), |node| node.name.clone())
    }

    /// Places that a node has in all.
    pub(crate) fn slots_of(&self, node: NodeNumber) -> Option<u32> {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&node).map(|node| node.slots)
    }

    pub(crate) fn count_nodes(&self, state: NodeState) -> usize {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        known.values().filter(|node| node.state == state).count()
    }

    /// The reason no node takes new sandboxes, unless one does.
    pub(crate) fn no_node(&self) -> Option<Refusal> {
        let now = Instant::now();
        if self.count_nodes(NodeState::Up) > 0 && self.roster().has_ready_node(now) {
            return None;
        }
        let warming = self.roster().has_warming_node(now).then_some("warming up");
        let other = [NodeState::Draining, NodeState::Lost].into_iter();
        let other = other.filter(|state| self.count_nodes(*state) > 0).map(NodeState::as_str);
        let states: Vec<_> = warming.into_iter().chain(other).collect();
        Some(Refusal::no_node(&states))
    }

    /// Under which epoch a node is known.
    pub(crate) fn epoch(&self, node: NodeNumber) -> Option<u64> {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&node).map(|node| node.epoch)
    }

    /// Every node that may be reached.
    pub(crate) fn nodes(&self) -> Vec<NodeNumber> {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        let there = known.iter().filter(|(_, node)| node.state != NodeState::Lost);
        there.map(|(number, _)| *number).collect()
    }

    /// Places on all nodes that take something.
    pub(crate) fn slots(&self) -> u64 {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        let up = known.values().filter(|node| node.state == NodeState::Up);
        up.map(|node| u64::from(node.slots)).sum()
    }

    pub(crate) fn set_known(&self, nodes: BTreeMap<NodeNumber, Known>) {
        *self.0.known.write().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    pub(crate) fn set_node(&self, number: NodeNumber, node: Known) {
        self.0.known.write().unwrap_or_else(PoisonError::into_inner).insert(number, node);
    }

    /// The database answered, or did not.
    pub(crate) fn set_well(&self, is_well: bool) {
        let mut well = self.0.well.lock().unwrap_or_else(PoisonError::into_inner);
        *well = if is_well { well.or_else(|| Some(Instant::now())) } else { None };
    }

    /// For how long the database has always answered.
    pub(crate) fn well_for(&self) -> Option<Duration> {
        let well = self.0.well.lock().unwrap_or_else(PoisonError::into_inner);
        well.map(|since| since.elapsed())
    }

    pub(crate) async fn answer(&self, request: http::Request<Body>) -> Response {
        crate::observe::answer(self, request).await
    }
}
