//! The gateway process of this node, and the sandboxes that it serves.
//!
//! ```text
//!   Gateway ──── outbox ──► process.rs ──► belljar-gateway
//!      ▲                        │
//!      └── answers, rows ◄──────┴──► whose.rs: which call, which process
//! ```
//!
//! A gateway that dies is started again. Its listeners died with it, so nothing
//! gets out meanwhile; then every sandbox that still lives is opened anew. Its
//! tokens do not come back.

mod approvals;
mod budgets;
mod charges;
mod desk;
mod process;
mod whose;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use belljar_domain::SandboxId;
use belljar_domain::approval::{ApprovalAction, ApprovalAnswer, ApprovalResult};
use belljar_domain::network::{CassetteId, Policy, Row};
use belljar_engine::{Door, ListenError, Machine};
use belljar_peer_proto::gateway::{
    FromGateway, Grant, Minted, Opened, PORT, Session, ToGateway, Unfit,
};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::files::FileError;
use crate::ledger::Ledger;
use crate::link::Link;
use crate::network::{Way, trust};
use crate::relay::{Relay, RelayError};

pub use approvals::PendingApproval;
pub use budgets::{BudgetLessor, LeaseFuture};
pub use desk::Desk;

/// Why a gateway does not do what it is asked.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    #[error("cannot start the gateway process")]
    Start(#[source] io::Error),
    /// What it said itself.
    #[error("the gateway process cannot serve: {0}")]
    Failed(String),
    #[error("the gateway process ended before it was ready ({0})")]
    Ended(ExitStatus),
    #[error("the gateway process is not running")]
    Gone,
    #[error("the gateway process did not answer in {0:?}")]
    Silent(Duration),
    #[error("the gateway refused: {0}")]
    Refused(String),
    #[error("the request does not fit a packet")]
    Unfit(#[source] Unfit),
    #[error("cannot give the sandbox a network")]
    Listen(#[source] ListenError),
    #[error("the sandbox's guest cannot relay connections")]
    Relay(#[source] RelayError),
    #[error("cannot install the sandbox's certificate authority inside")]
    Authority(#[source] FileError),
    #[error("the sandbox is already connected")]
    Connected,
    #[error("the sandbox has no network; connect it first")]
    NotConnected,
}

/// Variables of an environment. Some of them may be credentials.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(pub Vec<(OsString, OsString)>);

impl Variables {
    /// Those that are text.
    pub fn texts(&self) -> impl Iterator<Item = (String, String)> {
        let text = |(name, value): &(OsString, OsString)| {
            Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
        };
        self.0.iter().filter_map(text)
    }
}

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{} variables]", self.0.len())
    }
}

/// What a gateway process is started with.
#[derive(Debug, Clone, Default)]
pub struct GatewayOptions {
    /// Where its configuration is; empty: it has none.
    pub config: PathBuf,
    /// Where it keeps cassettes and packages, unless its configuration says; empty: nowhere.
    pub data: PathBuf,
    /// The directory of its charge log; empty: it keeps none.
    pub charges: PathBuf,
    /// Its whole environment: nothing of the node's own is in it.
    pub environment: Variables,
    /// The books of its operations' budgets. None: they are in its own memory, and begin anew with
    /// it.
    pub lessor: Option<Arc<dyn BudgetLessor>>,
}

/// A handle on the gateway process; cheap to clone.
#[derive(Debug, Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: GatewayOptions,
    sequence: AtomicU64,
    /// To the process that runs now.
    line: Mutex<Line>,
    served: Mutex<HashMap<SandboxId, Arc<Served>>>,
    rows: broadcast::Sender<Arc<[Row]>>,
    held_slices: budgets::HeldSlices,
    charges: charges::Charges,
    approvals: approvals::Waiting,
}

/// The connection of now, and who waits for answers on it.
#[derive(Debug, Default)]
struct Line {
    outbox: Option<mpsc::UnboundedSender<Packet>>,
    waiting: HashMap<u64, oneshot::Sender<FromGateway>>,
    pid: Option<u32>,
    /// Why there is none, if it said so.
    failed: Option<String>,
}

impl Line {
    fn gone(&self) -> GatewayError {
        self.failed.clone().map_or(GatewayError::Gone, GatewayError::Failed)
    }
}

#[derive(Debug)]
struct Packet {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// A sandbox that the gateway serves. It keeps nothing alive.
#[derive(Debug)]
struct Served {
    session: Mutex<Session>,
    machine: Weak<Machine>,
    link: Link,
    ledger: Arc<Ledger>,
    /// Whether a gateway was ever told of it.
    told: AtomicBool,
    /// An authority that could not be put inside yet.
    untrusted: Mutex<Option<String>>,
    effort: Mutex<whose::Effort>,
}

/// Held by a sandbox that is served; its drop ends that.
#[derive(Debug)]
pub(crate) struct Attached {
    gateway: Gateway,
    id: SandboxId,
}

impl Attached {
    pub(crate) fn gateway(&self) -> Gateway {
        self.gateway.clone()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.gateway.close(&self.id);
    }
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most time that a cassette may take from or to the gateway's disk.
const MOVE_PATIENCE: Duration = Duration::from_secs(120);

/// Packets of rows that wait for a slow subscriber before it misses some.
const ROWS_KEPT: usize = 4096;

impl Gateway {
    /// Starts the process; it serves when this answers.
    pub async fn start(options: GatewayOptions) -> Result<Self, GatewayError> {
        let shared = Arc::new(Shared {
            options,
            sequence: AtomicU64::new(0),
            line: Mutex::default(),
            served: Mutex::default(),
            rows: broadcast::Sender::new(ROWS_KEPT),
            held_slices: budgets::HeldSlices::default(),
            charges: charges::Charges::default(),
            approvals: approvals::Waiting::default(),
        });
        process::keep(&shared).await?;
        Ok(Self { shared })
    }

    /// What becomes of everything that sandboxes ask for, from now on. Whoever
    /// takes them too slowly is told how many were missed.
    pub fn rows(&self) -> broadcast::Receiver<Arc<[Row]>> {
        self.shared.rows.subscribe()
    }

    /// The pid of the process that runs now; `None` while there is none.
    pub fn pid(&self) -> Option<u32> {
        self.shared.line().pid
    }

    /// Has a sandbox served. Everything that fails leaves it without a way out.
    pub(crate) async fn attach(
        &self,
        session: Session,
        machine: &Arc<Machine>,
        link: &Link,
        ledger: &Arc<Ledger>,
    ) -> Result<(Attached, Opened), GatewayError> {
        let id = machine.id().clone();
        let served = Arc::new(Served {
            session: Mutex::new(session),
            machine: Arc::downgrade(machine),
            link: link.clone(),
            ledger: ledger.clone(),
            told: AtomicBool::new(false),
            untrusted: Mutex::default(),
            effort: Mutex::new(whose::Effort::new()),
        });
        match self.shared.served().entry(id.clone()) {
            std::collections::hash_map::Entry::Occupied(_) => return Err(GatewayError::Connected),
            std::collections::hash_map::Entry::Vacant(free) => drop(free.insert(served.clone())),
        }
        // From here on whatever ends this early takes it back.
        let attached = Attached { gateway: self.clone(), id };
        let (opened, way) = self.shared.open(&served, machine).await?;
        served.trust().await.map_err(GatewayError::Authority)?;
        // Whatever starts from now on finds all that its environment names.
        ledger.set_way(Some(way));
        Ok((attached, opened))
    }

    fn close(&self, id: &SandboxId) {
        let served = self.shared.served().remove(id);
        if served.is_some_and(|served| served.told.load(Ordering::Relaxed)) {
            let sequence = self.shared.next();
            self.shared.say(&ToGateway::Close { sequence, sandbox: id.clone() });
        }
    }

    pub(crate) async fn change(&self, id: &SandboxId, policy: Policy) -> Result<(), GatewayError> {
        let served = self.shared.served().get(id).cloned().ok_or(GatewayError::NotConnected)?;
        let sequence = self.shared.next();
        let change =
            ToGateway::Change { sequence, sandbox: id.clone(), policy: Box::new(policy.clone()) };
        match self.shared.ask(sequence, &change, Vec::new()).await? {
            FromGateway::Done { .. } => {
                // Should the gateway have to be told again.
                served.session().policy = policy;
                Ok(())
            }
            _ => Err(GatewayError::Gone),
        }
    }

    pub(crate) async fn mint(&self, id: &SandboxId, grant: Grant) -> Result<Minted, GatewayError> {
        let sequence = self.shared.next();
        let mint = ToGateway::Mint { sequence, sandbox: id.clone(), grant };
        match self.shared.ask(sequence, &mint, Vec::new()).await? {
            FromGateway::Minted { minted, .. } => Ok(minted),
            _ => Err(GatewayError::Gone),
        }
    }

    pub(crate) async fn renew(&self, id: &SandboxId, seconds: u32) -> Result<(), GatewayError> {
        let sequence = self.shared.next();
        let renew = ToGateway::Renew { sequence, sandbox: id.clone(), seconds };
        match self.shared.ask(sequence, &renew, Vec::new()).await? {
            FromGateway::Done { .. } => Ok(()),
            _ => Err(GatewayError::Gone),
        }
    }

    /// Waits until everything that was asked for so far is in [`Self::rows`], and unused parts of
    /// budgets are given back. For
    /// who needs the gateway no more: nobody gets out from now on.
    pub async fn finish(&self) -> Result<(), GatewayError> {
        let sequence = self.shared.next();
        self.shared.ask(sequence, &ToGateway::Finish { sequence }, Vec::new()).await.map(drop)
    }

    pub(crate) async fn revoke(&self, id: &SandboxId) -> Result<(), GatewayError> {
        let sequence = self.shared.next();
        let revoke = ToGateway::Revoke { sequence, sandbox: id.clone() };
        match self.shared.ask(sequence, &revoke, Vec::new()).await? {
            FromGateway::Done { .. } => Ok(()),
            _ => Err(GatewayError::Gone),
        }
    }

    /// The requests that wait until a human has decided, the oldest first.
    pub fn approvals(&self) -> Vec<PendingApproval> {
        self.shared.approvals.list()
    }

    /// Changes with every request that begins to wait, or waits no more.
    pub fn watch_approvals(&self) -> watch::Receiver<u64> {
        self.shared.approvals.watch()
    }

    /// Decides about a request; false: it does not wait any more.
    pub fn decide(&self, approval: &str, answer: ApprovalAnswer) -> bool {
        let Some((question, action)) = self.shared.approvals.take(approval) else { return false };
        let result = match answer.is_approved {
            true => ApprovalResult::Approved,
            false => ApprovalResult::Denied,
        };
        self.shared.approvals.ended(action, result);
        self.shared.say(&ToGateway::Approval { question, answer });
        true
    }

    /// Follows the results of requests that waited, from now on.
    pub fn approval_results(&self) -> broadcast::Receiver<(ApprovalAction, ApprovalResult)> {
        self.shared.approvals.results()
    }

    /// Writes a cassette of a tenant to a file.
    pub async fn save_cassette(
        &self,
        tenant: String,
        cassette: CassetteId,
        file: OwnedFd,
    ) -> Result<(), GatewayError> {
        let sequence = self.shared.next();
        let save = ToGateway::SaveCassette { sequence, tenant, cassette };
        self.shared.move_cassette(sequence, &save, vec![file]).await
    }

    /// Puts the cassette that is in a file in the place of a tenant's.
    pub async fn load_cassette(
        &self,
        tenant: String,
        cassette: CassetteId,
        file: OwnedFd,
    ) -> Result<(), GatewayError> {
        let sequence = self.shared.next();
        let load = ToGateway::LoadCassette { sequence, tenant, cassette };
        self.shared.move_cassette(sequence, &load, vec![file]).await
    }

    /// Removes a cassette of a tenant, if there is one.
    pub async fn remove_cassette(
        &self,
        tenant: String,
        cassette: CassetteId,
    ) -> Result<(), GatewayError> {
        let sequence = self.shared.next();
        let remove = ToGateway::RemoveCassette { sequence, tenant, cassette };
        self.shared.move_cassette(sequence, &remove, Vec::new()).await
    }

    /// Does what could not be done while the sandbox stood still.
    pub(crate) fn catch_up(&self, id: &SandboxId) {
        let served = self.shared.served().get(id).cloned();
        if let Some(served) = served.filter(|served| served.untrusted().is_some())
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { drop(served.trust().await) });
        }
    }

    /// As [`Self::revoke`], without waiting: what is said later is done later.
    pub(crate) fn revoke_later(&self, id: &SandboxId) {
        let sequence = self.shared.next();
        self.shared.say(&ToGateway::Revoke { sequence, sandbox: id.clone() });
    }
}

impl Shared {
    fn next(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn served(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<Served>>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the way out of one sandbox, for the first time or again.
    async fn open(
        self: &Arc<Self>,
        served: &Served,
        machine: &Machine,
    ) -> Result<(Opened, Arc<Way>), GatewayError> {
        // Ours are closed with the packet: a gateway that dies takes the only
        // listener along.
        let door = match machine.listen(PORT).await {
            Ok(Door { listener, diagnosis }) => vec![listener, diagnosis],
            Err(ListenError::Relay(_)) => Vec::new(),
            Err(error) => return Err(GatewayError::Listen(error)),
        };
        let is_relayed = door.is_empty();
        let sequence = self.next();
        let session = Box::new(served.session().clone());
        let open = ToGateway::Open { sequence, session };
        served.told.store(true, Ordering::Relaxed);
        let answer = self.ask(sequence, &open, door).await?;
        let FromGateway::Opened { opened, .. } = answer else { return Err(GatewayError::Gone) };
        let trusts = !opened.authority.is_empty();
        *served.untrusted() = trusts.then(|| opened.authority.clone());
        // Of one that is opened again, the guest still listens.
        let relay = match (is_relayed, served.ledger.way()) {
            (true, Some(way)) => way.relay.clone(),
            (true, None) => Some(self.relay(served, machine).await?),
            (false, _) => None,
        };
        let (otlp, git) = (opened.otlp.clone(), opened.git.clone());
        Ok((opened, Arc::new(Way { trusts, relay, otlp, git })))
    }

    async fn relay(
        self: &Arc<Self>,
        served: &Served,
        machine: &Machine,
    ) -> Result<Arc<Relay>, GatewayError> {
        let (weak, id) = (Arc::downgrade(self), machine.id().clone());
        let pass = move |belongs, stream| {
            let sandbox = id.clone();
            // Without a gateway it is closed, as nobody would listen.
            if let Some(shared) = weak.upgrade() {
                shared.say_with(&ToGateway::Connection { sandbox, belongs }, vec![stream]);
            }
        };
        let relay = Relay::start(served.link.clone(), &served.ledger, Box::new(pass));
        relay.await.map_err(GatewayError::Relay)
    }

    /// Sends what nobody waits for. A gateway that does not run has forgotten
    /// everything that this could be about.
    fn say(&self, message: &ToGateway) {
        self.say_with(message, Vec::new());
    }

    fn say_with(&self, message: &ToGateway, descriptors: Vec<OwnedFd>) {
        let Ok(bytes) = belljar_peer_proto::gateway::encode(message) else { return };
        if let Some(outbox) = &self.line().outbox {
            let _ = outbox.send(Packet { bytes, descriptors });
        }
    }

    async fn move_cassette(
        &self,
        sequence: u64,
        message: &ToGateway,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), GatewayError> {
        match self.ask_within(MOVE_PATIENCE, sequence, message, descriptors).await? {
            FromGateway::Done { .. } => Ok(()),
            _ => Err(GatewayError::Gone),
        }
    }

    async fn ask(
        &self,
        sequence: u64,
        message: &ToGateway,
        descriptors: Vec<OwnedFd>,
    ) -> Result<FromGateway, GatewayError> {
        self.ask_within(PATIENCE, sequence, message, descriptors).await
    }

    async fn ask_within(
        &self,
        patience: Duration,
        sequence: u64,
        message: &ToGateway,
        descriptors: Vec<OwnedFd>,
    ) -> Result<FromGateway, GatewayError> {
        let bytes = belljar_peer_proto::gateway::encode(message).map_err(GatewayError::Unfit)?;
        let answer = {
            let mut line = self.line();
            let outbox = line.outbox.as_ref().ok_or_else(|| line.gone())?;
            outbox.send(Packet { bytes, descriptors }).map_err(|_| line.gone())?;
            let (sender, answer) = oneshot::channel();
            line.waiting.insert(sequence, sender);
            answer
        };
        match tokio::time::timeout(patience, answer).await {
            Ok(Ok(FromGateway::Refused { why, .. })) => Err(GatewayError::Refused(why)),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(GatewayError::Gone),
            Err(_) => {
                self.line().waiting.remove(&sequence);
                Err(GatewayError::Silent(patience))
            }
        }
    }
}

impl Served {
    fn untrusted(&self) -> MutexGuard<'_, Option<String>> {
        self.untrusted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has programs inside trust the authority of now.
    async fn trust(&self) -> Result<(), FileError> {
        let Some(authority) = self.untrusted().clone() else { return Ok(()) };
        trust(&self.link, &authority).await?;
        self.untrusted().take_if(|now| *now == authority);
        Ok(())
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
