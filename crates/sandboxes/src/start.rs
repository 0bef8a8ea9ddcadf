//! The whole of it: start, and an orderly end.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use belljar_domain::{EndReason, SandboxId, Tier};
use belljar_node::{Node, NodeError};
use belljar_template::store::StoreError;

use crate::attribution::Attributor;
use crate::builds::Builds;
use crate::config::Config;
use crate::create::Idempotency;
use crate::data::Shelves;
use crate::events::{EventKind, Events};
use crate::journal::{Ended, Journal, RECORD_VERSION, Written, outlives_the_server};
use crate::keys::{Keys, Tenant};
use crate::member::News;
use crate::network::{Rows, Transfers, Ways};
use crate::once::Once;
use crate::problem::{Kind, Problem};
use crate::registry::Registry;
use crate::sandbox::{Paused, Sandbox, State};
use crate::secrets::Secrets;
use crate::snapshots::Snapshots;
use crate::template::Templates;
use crate::volumes::Volumes;

/// Why nothing could be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot store records in `{path}`")]
    State { path: PathBuf, source: io::Error },
    #[error("cannot open the templates")]
    Store(#[source] StoreError),
    #[error("cannot open the object store")]
    Objects(#[source] belljar_objects::OpenError),
    #[error("cannot start the sandbox engine")]
    Node(#[source] NodeError),
}

/// A handle to everything; cheap to clone.
#[derive(Debug, Clone)]
pub struct Actions(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: Config,
    keys: Keys,
    node: Node,
    templates: Templates,
    builds: Builds,
    registry: Arc<Registry>,
    snapshots: Snapshots,
    journal: Journal,
    events: Events,
    news: News,
    idempotency: Idempotency,
    volumes: Volumes,
    secrets: Secrets,
    shelves: Shelves,
    ways: Ways,
    transfers: Transfers,
    draining: AtomicBool,
    /// Tiers that are offered and that this host has what it takes for, once that is known.
    startable: OnceLock<Vec<Tier>>,
}

impl Actions {
    /// Starts the engine and puts what the last server left in order.
    pub async fn start(config: Config, keys: Keys) -> Result<Self, StartError> {
        let journal = Journal::open(&config.state);
        let state = |source| StartError::State { path: config.state.clone(), source };
        let journal = journal.map_err(state)?;
        let snapshots = Snapshots::open(&config.state, config.snapshot_memory).map_err(state)?;
        let kept = snapshots.left().map_err(state)?;
        let secrets = Secrets::open(&config.state).map_err(state)?;
        let volumes = Volumes::open(&config.state, config.quota.volume_bytes).map_err(state)?;
        let shelves = Shelves::open(&config).map_err(state)?;
        let templates = Templates::open(&config)?;
        let builds = Builds::open(&config.state, &config.builds).map_err(state)?;
        let node = Node::start(config.engine_state.as_deref()).await.map_err(StartError::Node)?;
        if config.allow_weak_limits {
            node.engine().allow_weak_limits();
        }
        let left = journal.left().map_err(state)?;
        journal.forget_rows(&left).map_err(state)?;
        let actions = Self(Arc::new(Inner {
            keys,
            node,
            templates,
            builds,
            registry: Arc::default(),
            snapshots,
            journal,
            events: Events::new(config.event_observer.clone()),
            news: News::default(),
            idempotency: Idempotency::default(),
            volumes,
            secrets,
            shelves,
            ways: Ways::default(),
            transfers: Transfers::default(),
            draining: AtomicBool::new(false),
            startable: OnceLock::new(),
            config,
        }));
        let known = left.into_iter().try_for_each(|written| actions.take_over(written));
        let known =
            known.and_then(|()| kept.into_iter().try_for_each(|kept| actions.know_snapshot(kept)));
        known.map_err(|source| {
            let path = actions.config().state.clone();
            StartError::State { path, source }
        })?;
        Ok(actions)
    }

    /// Answers itself, as long as anybody else holds it.
    pub(crate) fn weakly(&self) -> impl Fn() -> Option<Self> + use<> {
        let inner = Arc::downgrade(&self.0);
        move || inner.upgrade().map(Self)
    }

    /// A sandbox of the last server: there again if it was put on disk, else put
    /// down as lost. What is on disk and cannot come back is set aside.
    fn take_over(&self, written: Written) -> io::Result<()> {
        let paused = written.paused(self.journal());
        let Written { id, facts, deadline, template, network, ran, generation, .. } = written;
        let template = self.templates().exactly(&template);
        let place = self.registry().reserve(&facts.tenant, usize::MAX, None);
        // One that might do again what it has done must not come back.
        let calls = self.journal().read_calls(&id);
        let why = match (paused, template, place, calls) {
            (Some(paused), Ok(template), Ok(place), Ok(calls)) => {
                let state = State::Paused(paused);
                let out = (network, self.rows_for(&id));
                let sandbox = Sandbox::new(id, facts, template, state, deadline, out);
                let once = Once::restored(calls, generation);
                let sandbox = Arc::new(sandbox.with_ran(ran).with_once(once));
                self.registry().enter(sandbox.clone(), place);
                self.guard(&sandbox);
                return Ok(());
            }
            // It ran, and ended with its server.
            (None, ..) => None,
            (Some(_), Err(problem), ..) | (Some(_), _, Err(problem), _) => {
                Some(problem.to_string())
            }
            (.., Err(error)) => Some(format!("cannot read the record of its calls: {error}")),
        };
        if let Some(why) = why {
            self.journal().set_aside(&id, &why)?;
        }
        self.journal().end(&id, &facts, EndReason::Lost)?;
        self.0.events.tell(&facts.tenant, id.as_str(), EventKind::Ended, Some("lost".to_owned()));
        Ok(())
    }

    /// Checks every tier that is offered, and returns those that this host cannot run.
    /// [`Self::startable_tiers`] leaves them out from now on.
    pub async fn check_tiers(&self) -> Vec<(Tier, belljar_engine::StartError)> {
        let (mut startable, mut refused) = (Vec::new(), Vec::new());
        for tier in self.config().tiers.offered() {
            match self.node().engine().check_tier(tier).await {
                Ok(()) => startable.push(tier),
                Err(error) => refused.push((tier, error)),
            }
        }
        let _ = self.0.startable.set(startable);
        refused
    }

    /// The tiers to advertise: those that are offered, less those that this host cannot run.
    pub fn startable_tiers(&self) -> Vec<Tier> {
        self.0.startable.get().cloned().unwrap_or_else(|| self.config().tiers.offered())
    }

    /// Makes no more sandboxes from now on, and breaks builds off.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
        self.0.builds.cancel();
    }

    /// Makes no sandboxes for now, or does so again; what runs goes on.
    pub fn set_draining(&self, draining: bool) {
        self.0.draining.store(draining, Ordering::Relaxed);
    }

    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn refuse_when_draining(&self) -> Result<(), Problem> {
        if self.is_draining() {
            return Err(Problem::new(Kind::Busy, "draining", "the server is stopping"));
        }
        Ok(())
    }

    /// Ends every sandbox, on record.
    pub async fn stop(&self) {
        self.drain();
        // What is on disk stays for the next server.
        let ends = |sandbox: &Arc<Sandbox>| !outlives_the_server(&sandbox.state());
        self.end_all(self.registry().all().into_iter().filter(ends), EndReason::Killed).await;
        self.0.builds.finished().await;
        self.0.node.clone().stop().await;
        self.finish_gateway().await;
    }

    /// Looks after what takes no request: keys that change, figures.
    pub async fn look_after(&self) {
        tokio::join!(
            self.follow_keys(),
            self.keep_figures(),
            self.follow_objects(),
            self.sweep_shelves()
        );
    }

    async fn follow_keys(&self) {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            // A disk that was full may have room again.
            self.journal().pay();
            match self.keys().refresh() {
                Ok(false) => {}
                Ok(true) => self.end_orphans().await,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, "cannot reload keys; keeping the old ones");
                }
            }
        }
    }

    /// Ends what belongs to tenants that have no key any more.
    async fn end_orphans(&self) {
        let orphaned = |sandbox: &Arc<Sandbox>| !self.keys().has(&sandbox.facts().tenant);
        self.end_all(self.registry().all().into_iter().filter(orphaned), EndReason::Policy).await;
    }

    pub fn config(&self) -> &Config {
        &self.0.config
    }

    pub fn keys(&self) -> &Keys {
        &self.0.keys
    }

    pub fn node(&self) -> &Node {
        &self.0.node
    }

    pub fn registry(&self) -> &Arc<Registry> {
        &self.0.registry
    }

    pub fn events(&self) -> &Events {
        &self.0.events
    }

    /// How the tenant's last sandboxes ended, newest first.
    pub fn ended(&self, tenant: &Tenant, most: usize) -> Vec<Ended> {
        self.0.journal.ended(tenant, most)
    }

    pub(crate) fn news(&self) -> &News {
        &self.0.news
    }

    pub(crate) fn templates(&self) -> &Templates {
        &self.0.templates
    }

    pub(crate) fn builds(&self) -> &Builds {
        &self.0.builds
    }

    pub(crate) fn snapshots(&self) -> &Snapshots {
        &self.0.snapshots
    }

    pub(crate) fn volumes(&self) -> &Volumes {
        &self.0.volumes
    }

    pub(crate) fn secrets(&self) -> &Secrets {
        &self.0.secrets
    }

    pub(crate) fn shelves(&self) -> &Shelves {
        &self.0.shelves
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.0.journal
    }

    pub(crate) fn ways(&self) -> &Ways {
        &self.0.ways
    }

    pub(crate) fn transfers(&self) -> &Transfers {
        &self.0.transfers
    }

    /// Where rows of a sandbox's traffic go.
    pub(crate) fn rows_for(&self, id: &SandboxId) -> Arc<Rows> {
        let attributor = Attributor::new(self.config().rows.clone());
        Arc::new(Rows::new(id.clone(), self.journal().rows(id), attributor))
    }

    pub(crate) fn idempotency(&self) -> &Idempotency {
        &self.0.idempotency
    }

    pub(crate) fn tell(&self, sandbox: &Sandbox, kind: EventKind, detail: Option<String>) {
        sandbox.note(kind, detail.as_deref());
        if self.config().is_member {
            self.news().happened(sandbox.id(), kind);
        }
        self.0.events.tell(&sandbox.facts().tenant, sandbox.id().as_str(), kind, detail);
    }

    /// Writes a sandbox down as it is now.
    pub(crate) fn write_down(&self, sandbox: &Sandbox) -> Result<(), Problem> {
        let written = Written {
            version: RECORD_VERSION,
            id: sandbox.id().clone(),
            facts: sandbox.facts().clone(),
            deadline: sandbox.deadline(),
            template: (&**sandbox.template()).into(),
            saved: matches!(sandbox.state(), State::Paused(Paused::Saved(_))),
            suspended: matches!(sandbox.state(), State::Paused(Paused::Suspended(_))),
            network: (*sandbox.network()).clone(),
            ran: sandbox.ran(),
            generation: sandbox.once.generation(),
        };
        self.journal().write(&written).map_err(|error| not_written(&error))
    }

    /// Writes down which calls a sandbox that is on disk was asked for.
    pub(crate) fn write_down_calls(&self, sandbox: &Sandbox) -> Result<(), Problem> {
        let calls = sandbox.once.written();
        self.journal().write_calls(sandbox.id(), &calls).map_err(|error| not_written(&error))
    }

    /// Refuses whoever acts for a generation that was replaced; from now on also
    /// those that this one replaces.
    pub fn fence(&self, sandbox: &Sandbox, generation: u64) -> Result<(), Problem> {
        if sandbox.once.fence(generation)? {
            self.write_down(sandbox)?;
        }
        Ok(())
    }
}

fn not_written(error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            tracing::error!(%error, "cannot record sandbox");
            Problem::new(Kind::NoSpace, "no_space", "the server's disk is full")
        }
        _ => Problem::internal("record the sandbox", error),
    }
}
