//! The gateway as a library: what the control socket, or a test, drives.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use belljar_cassette::{Limits, Store, StoreError};
use belljar_domain::SandboxId;
use belljar_domain::approval::ApprovalAnswer;
use belljar_domain::budget::BudgetAnswer;
use belljar_domain::network::{CassetteId, Miss, Policy, Tape};
use belljar_egress::{Openings, own};
use belljar_peer_proto::gateway::{self as bus, Belongs, FromGateway, Grant, Minted, Opened};
use hickory_resolver::TokioResolver;
use hickory_resolver::net::NetError;
use tokio::sync::mpsc;
use tokio_rustls::rustls::ClientConfig;

use crate::approvals::Approvals;
use crate::authority::{Authority, AuthorityError};
use crate::budget::Lessee;
use crate::charge_log::ChargeLog;
use crate::config::Config;
use crate::connection::Connection;
use crate::lanes::Lanes;
use crate::log::Log;
use crate::operations::{Desk, InvalidOperations, MintError, Operations};
use crate::session::Session;
use crate::trust::{self, TrustError};
use crate::whose::Questions;
use crate::{charges, listen, moving, operations, packages, resolve};

/// What the gateway says unasked: rows, and questions whose a connection is.
pub type Events = mpsc::Receiver<FromGateway>;

/// Every sandbox's way out. All clones are the same gateway.
#[derive(Debug, Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    live: RwLock<Arc<Live>>,
    sessions: Mutex<HashMap<SandboxId, Arc<Session>>>,
    pub(crate) log: Log,
    pub(crate) events: mpsc::Sender<FromGateway>,
    pub(crate) questions: Questions,
    pub(crate) desk: Desk,
    pub(crate) packages: packages::Keeper,
    /// None: charges are not logged.
    pub(crate) charges: Option<Arc<ChargeLog>>,
    pub(crate) lanes: Lanes,
    pub(crate) approvals: Approvals,
}

/// The settings, and what is made of them. Replaced as a whole.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) config: Config,
    pub(crate) openings: Openings,
    pub(crate) resolver: TokioResolver,
    /// For upstreams.
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) operations: Operations,
    pub(crate) cassettes: Option<Store>,
}

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot find the name servers")]
    Resolver(#[source] NetError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error(transparent)]
    Operations(#[from] InvalidOperations),
    #[error("cannot store cassettes")]
    Cassettes(#[source] StoreError),
    #[error("cannot create the charge log")]
    ChargeLog(#[source] io::Error),
}

/// Why a sandbox is not served.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the sandbox is already served")]
    Twice,
    #[error("the sandbox is not served")]
    Unknown,
    #[error("cannot use the sandbox's listener")]
    Listener(#[source] io::Error),
    #[error("the sandbox has no authority")]
    Authority(#[source] AuthorityError),
    #[error("no token was created")]
    Mint(#[source] MintError),
    #[error("there is no cassette `{0}` to replay; `belljar cassette list` lists cassettes")]
    NoCassette(CassetteId),
    #[error("cannot create the cassette")]
    Cassette(#[source] StoreError),
}

impl Live {
    fn new(config: Config, desk: &Desk) -> Result<Self, StartError> {
        let settings = &config.gateway;
        let resolver = resolve::resolver(&settings.resolver).map_err(StartError::Resolver)?;
        let tls = trust::client(&settings.trusted_roots)?;
        let openings = Openings::new(settings.openings.iter().map(Into::into).collect());
        let openings = openings.with_own(own::addresses());
        let operations = Operations::new(&config.operations, &tls, desk)?;
        let cassettes = config.gateway.cassettes.as_ref();
        let cassettes = cassettes.map(|folder| Store::open(folder, Limits::default()));
        let cassettes = cassettes.transpose().map_err(StartError::Cassettes)?;
        Ok(Self { config, openings, resolver, tls, operations, cassettes })
    }
}

impl Shared {
    /// The settings at this moment.
    pub(crate) fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn session(&self, sandbox: &SandboxId) -> Option<Arc<Session>> {
        self.sessions().get(sandbox).cloned()
    }
}

impl Gateway {
    /// Must be called within a tokio runtime, in which everything runs.
    /// Its budgets are in its own memory.
    pub fn new(config: Config) -> Result<(Self, Events), StartError> {
        Self::with(config, Lanes::default(), None, None)
    }

    /// Connections are served on `lanes`. With the epoch of this process, budgets of operations and
    /// tenants are leased from the node. `charges`: where the charge log is, and the epoch of its
    /// records.
    pub(crate) fn with(
        config: Config,
        lanes: Lanes,
        epoch: Option<String>,
        charges: Option<(PathBuf, String)>,
    ) -> Result<(Self, Events), StartError> {
        let (sender, events) = mpsc::channel(256);
        let (log, deliver) = Log::new(sender.clone());
        tokio::spawn(deliver);
        let lessee = epoch.map(|epoch| Lessee::new(epoch, sender.clone()));
        let desk = Desk::new(lessee);
        if desk.ledger.lessee().is_some() {
            desk.ledger.return_idle();
        }
        let durability = config.gateway.charge_log;
        let live = RwLock::new(Arc::new(Live::new(config, &desk)?));
        let charges =
            charges.map(|(root, epoch)| charges::start(&root, epoch, durability, sender.clone()));
        let charges = charges.transpose()?;
        let questions = Questions::default();
        let sessions = Mutex::default();
        let packages = packages::Keeper::default();
        let approvals = Approvals::new(sender.clone());
        let shared = Shared {
            live,
            sessions,
            log,
            events: sender,
            questions,
            desk,
            packages,
            charges,
            lanes,
            approvals,
        };
        let shared = Arc::new(shared);
        tokio::spawn(moving::sweep_again(Arc::downgrade(&shared)));
        Ok((Self { shared }, events))
    }

    /// Takes over new settings; when they cannot be used, the old ones stay.
    pub fn reload(&self, config: Config) -> Result<(), StartError> {
        let durability = config.gateway.charge_log;
        let live = Arc::new(Live::new(config, &self.shared.desk)?);
        if let Some(log) = &self.shared.charges {
            log.set_durability(durability);
        }
        *self.shared.live.write().unwrap_or_else(PoisonError::into_inner) = live;
        for session in self.shared.sessions().values() {
            session.judge_again();
        }
        Ok(())
    }

    /// Serves a sandbox from now on: on the listener if there is one, with the
    /// socket that tells whose its connections are.
    pub fn open(
        &self,
        session: bus::Session,
        listener: Option<TcpListener>,
        diagnosis: Option<OwnedFd>,
    ) -> Result<Opened, OpenError> {
        self.check_tape(&session.subject.tenant, &session.policy.tape)?;
        let listener = listener.map(listen::adopt).transpose().map_err(OpenError::Listener)?;
        let authority = Authority::new().map_err(OpenError::Authority)?;
        let live = self.shared.live();
        let otlp = live.operations.otlp_path(&session.operations);
        let git = live.operations.git_remotes(&session.operations);
        let opened = Opened { authority: authority.pem(), otlp, git };
        let sandbox = session.subject.sandbox.clone();
        let session = Session::new(Arc::clone(&self.shared), session, authority);
        match self.shared.sessions().entry(sandbox) {
            Entry::Occupied(_) => return Err(OpenError::Twice),
            Entry::Vacant(vacant) => vacant.insert(Arc::clone(&session)),
        };
        if let Some(listener) = listener {
            tokio::spawn(listen::serve(session, listener, diagnosis.map(Arc::new)));
        }
        Ok(opened)
    }

    /// Serves one connection of a sandbox whose connections come one by one.
    pub fn connect(
        &self,
        sandbox: &SandboxId,
        stream: OwnedFd,
        belongs: Belongs,
    ) -> Result<(), OpenError> {
        let session = self.shared.session(sandbox).ok_or(OpenError::Unknown)?;
        let connection = Connection::new(session);
        connection.attribute(belongs);
        listen::admit(connection, move || listen::stream(stream));
        Ok(())
    }

    /// The answer to a question whose a connection is.
    pub fn answer(&self, question: u64, belongs: Belongs) {
        self.shared.questions.answer(question, belongs);
    }

    /// The answer to a request for slices of a budget.
    pub(crate) fn answer_budget(&self, question: u64, answer: BudgetAnswer) {
        if let Some(lessee) = self.shared.desk.ledger.lessee() {
            lessee.answer(question, answer);
        }
    }

    /// The decision about a request that waits.
    pub fn answer_approval(&self, question: u64, answer: ApprovalAnswer) {
        self.shared.approvals.answer(question, answer);
    }

    /// The policy of a sandbox from now on; what it forbids is cut.
    pub fn change(&self, sandbox: &SandboxId, policy: Policy) -> Result<(), OpenError> {
        let session = self.shared.session(sandbox).ok_or(OpenError::Unknown)?;
        self.check_tape(&session.subject.tenant, &policy.tape)?;
        session.change(policy);
        Ok(())
    }

    /// A misspelled cassette is an error now, not an answer 502 to every request later.
    /// One that is being recorded exists from the start, even if nothing is asked. One that is
    /// judged may come later: until then, every request is refused.
    fn check_tape(&self, tenant: &str, tape: &Tape) -> Result<(), OpenError> {
        // Without cassettes, requests are refused one by one, with the reason.
        let live = self.shared.live();
        let Some(store) = &live.cassettes else { return Ok(()) };
        let cassettes = store.tenant(tenant);
        match tape {
            Tape::Record { cassette } | Tape::Replay { cassette, miss: Miss::Judged } => {
                cassettes.make(cassette).map_err(OpenError::Cassette)
            }
            Tape::Replay { cassette, miss: Miss::Strict } if !cassettes.has(cassette) => {
                Err(OpenError::NoCassette(cassette.clone()))
            }
            Tape::Replay { .. } | Tape::Off => Ok(()),
        }
    }

    /// The cassettes of all tenants; none: the gateway has no place for them.
    pub(crate) fn cassettes(&self) -> Option<Store> {
        self.shared.live().cassettes.clone()
    }

    pub(crate) fn charge_log(&self) -> Option<&Arc<ChargeLog>> {
        self.shared.charges.as_ref()
    }

    /// Takes messages for the node.
    pub(crate) fn events(&self) -> mpsc::Sender<FromGateway> {
        self.shared.events.clone()
    }

    /// Cuts everything of a sandbox.
    pub fn close(&self, sandbox: &SandboxId) -> Result<(), OpenError> {
        let session = self.shared.sessions().remove(sandbox).ok_or(OpenError::Unknown)?;
        session.close();
        self.shared.desk.tokens.revoke(&session.owner);
        Ok(())
    }

    /// Answers the node once every row has been said, and every unused slice given back.
    pub(crate) fn finish(&self, sequence: u64) {
        let ledger = Arc::clone(&self.shared.desk.ledger);
        let last = async move { ledger.return_all().await };
        tokio::spawn(self.shared.log.clone().finish(sequence, last));
    }

    /// Makes a token for a sandbox.
    pub fn mint(&self, sandbox: &SandboxId, grant: Grant) -> Result<Minted, OpenError> {
        let session = self.shared.session(sandbox).ok_or(OpenError::Unknown)?;
        operations::mint(&session, grant).map_err(OpenError::Mint)
    }

    /// Lets all tokens of a sandbox that are alive live for so long from now.
    pub fn renew(&self, sandbox: &SandboxId, seconds: u32) -> Result<(), OpenError> {
        let session = self.shared.session(sandbox).ok_or(OpenError::Unknown)?;
        let lifetime = Duration::from_secs(seconds.into());
        self.shared.desk.tokens.renew(&session.owner, lifetime);
        Ok(())
    }

    /// All tokens of a sandbox are dead from now on.
    pub fn revoke(&self, sandbox: &SandboxId) -> Result<(), OpenError> {
        let session = self.shared.session(sandbox).ok_or(OpenError::Unknown)?;
        self.shared.desk.tokens.revoke(&session.owner);
        Ok(())
    }
}
