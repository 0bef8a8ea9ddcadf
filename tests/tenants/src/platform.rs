//! A platform: a database, control, and one node behind it.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_client::Within;
use belljar_control::{Control, Keyring, Random};
use belljar_domain::{KnownBudgets, NodeNumber, OperationCap};
use belljar_identity::{ControlKeys, EnrolmentToken, NodeIdentity};
use belljar_node::PoolSize;
use belljar_objects::Place;
use belljar_sandboxes::{Actions, Config, Keys, RowQueue, Tenant};
use belljar_server::{
    Cluster, EngineGone, Inside, Listener, Me, Member, PlatformBudgets, Server, Settings,
};
use belljar_store::{NewKey, Quota, Scope, Store};
use belljar_testkit::{Postgres, Resident, Undecided};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cases::console::CONSOLE;
use crate::client::{Client, HANG_LIMIT};
use crate::models::Scripted;
use crate::oracle;
use crate::world::{OPERATIONS, runs, webhooks, workflows};

/// The node that runs sandboxes.
pub(crate) const NODE: &str = "one";

/// What is not as usual.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Of the ports of control and of the node.
    pub(crate) bounds: Settings,
    /// A port of this host that sandboxes may reach.
    pub(crate) opening: Option<SocketAddr>,
    /// For cases that make contexts, which take seconds each without.
    pub(crate) warm: bool,
    /// Of runs, which are worked on if there is a script.
    pub(crate) models: Scripted,
    /// The gateway's settings for operations; none: the usual ones.
    pub(crate) operations: Option<String>,
    /// The limits of the nodes' budgets, as control knows them.
    pub(crate) known_budgets: Option<KnownBudgets>,
}

pub(crate) struct Platform {
    /// For clients.
    pub(crate) control: SocketAddr,
    /// Control's port for nodes.
    pub(crate) node_port: SocketAddr,
    /// The node's port for control.
    pub(crate) node: SocketAddr,
    /// The node's port for tenants who skip control.
    pub(crate) public: SocketAddr,
    pub(crate) store: Store,
    /// Control's keys.
    pub(crate) keyring: Keyring,
    /// The node's.
    pub(crate) identity: NodeIdentity,
    /// Where its tables are.
    schema: String,
    /// How to reach them.
    pub(crate) database: String,
    stop: (oneshot::Sender<()>, oneshot::Sender<()>),
    controlling: JoinHandle<()>,
    serving: JoinHandle<Result<(), EngineGone>>,
    staying: JoinHandle<()>,
    working: JoinHandle<()>,
    resident: Resident,
    pub(crate) directory: TempDir,
    pub(crate) postgres: Postgres,
}

/// A second control of a platform.
pub(crate) struct Replica {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
    working: Option<JoinHandle<()>>,
}

impl Replica {
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.working.inspect(JoinHandle::abort);
        let _ = self.stop.send(());
        self.serving.await.context("the replica panicked")
    }
}

/// A further node of a platform.
pub(crate) struct Node {
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), EngineGone>>,
    staying: JoinHandle<()>,
}

impl Node {
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.staying.abort();
        let _ = self.stop.send(());
        self.serving.await.context("the node panicked")?.context("the node ended by itself")
    }
}

impl Platform {
    /// With the tenants `a` and `b`, who have no keys yet.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Self::start_with(Options::default()).await
    }

    /// One whose interpreters are warm.
    pub(crate) async fn start_warm() -> anyhow::Result<Self> {
        Self::start_with(Options { warm: true, ..Options::default() }).await
    }

    pub(crate) async fn start_with(options: Options) -> anyhow::Result<Self> {
        let Options { bounds, opening, warm, models, operations, known_budgets } = options;
        let operations = operations.unwrap_or_else(|| OPERATIONS.to_owned());
        let postgres = tokio::task::spawn_blocking(Postgres::start).await??;
        let database = postgres.schema();
        let schema = database.rsplit('=').next().context("no schema")?.to_owned();
        let store = Store::connect(&database, 8).await?;
        store.migrate().await?;
        let quota = Quota { sandboxes: 200, longest_life: Duration::from_secs(3600) };
        for tenant in ["a", "b"] {
            store.put_tenant(tenant, None, quota).await?;
        }
        let secret = ControlKeys::of("the secret of control's");
        let keyring = Keyring::open(&store, secret, Keyring::CERTIFICATE_LIFE).await?;
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::bind(anywhere, None)?;
        let control = listener.address().context("control has no address")?;
        let nodes = keyring.listen(anywhere)?;
        let node_port = nodes.address().context("control has no address")?;
        let settings = belljar_control::Settings::default();
        let replica = Control::new(store.clone(), keyring.clone(), settings, Random::new(1))?;
        if let Some(known) = known_budgets {
            replica.know_budgets(known);
        }
        let directory = tempfile::tempdir()?;
        let working = offer_runs(&replica, &store, directory.path(), models);
        let hooks = webhooks(Arc::new(store.webhooks()))?;
        let surface = Inside::of_webhooks(hooks, Tenant::new("unused"));
        replica.offer_webhooks(move |tenant, request| {
            let surface = surface.of(Tenant::new(tenant));
            async move { surface.pass(request).await }
        });
        replica.offer_console(CONSOLE);
        let (stop_control, stopped) = oneshot::channel();
        let controlling = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            replica.run(vec![listener], vec![nodes], bounds, stopped).await;
        });

        // The user ids of sandboxes must be able to pass through.
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o711))?;
        let budgets = PlatformBudgets::default();
        let mut config = config(directory.path(), directory.path(), opening, &operations)?;
        config.networks.budgets = Some(Arc::new(budgets.clone()));
        let actions = Actions::start(config, Keys::elsewhere()).await?;
        if warm {
            actions.warm_up().await;
        }
        let place = directory.path().join("identity");
        let identity = enrol(&store, node_port, &place, NODE).await?;
        let cluster = Cluster::new(identity.clone());
        let private = cluster.listen(anywhere)?;
        let node = private.address().context("the node has no address")?;
        let public = Listener::bind(anywhere, None)?;
        let tenants = public.address().context("the node has no address")?;
        let me = Me { name: NODE.to_owned(), address: format!("https://{node}"), slots: 200 };
        let asked = [format!("https://{node_port}")];
        let member = Member::join(actions.clone(), cluster.clone(), me, &asked, &budgets);
        let member = tokio::time::timeout(HANG_LIMIT, member).await??;
        let staying = tokio::spawn(member.stay());
        let (stop_node, stopped) = oneshot::channel();
        let server = Server::behind(actions, bounds, cluster);
        let stopped = async { drop(stopped.await) };
        let serving = tokio::spawn(async move { server.run(vec![private, public], stopped).await });
        let mut platform = Self {
            control,
            node_port,
            node,
            public: tenants,
            store,
            keyring,
            identity,
            schema,
            database,
            stop: (stop_control, stop_node),
            controlling,
            serving,
            staying,
            working,
            resident: Resident::default(),
            directory,
            postgres,
        };
        platform.ready().await?;
        let key = std::fs::read_to_string(place.join("node.key"))?;
        key.lines().filter(|line| !line.starts_with('-')).for_each(oracle::keep_secret);
        platform.resident = Resident::of_this();
        Ok(platform)
    }

    async fn ready(&self) -> anyhow::Result<()> {
        let nobody = self.client(None);
        let begin = Instant::now();
        while begin.elapsed() < HANG_LIMIT {
            if nobody.get("/v1/ready").await?.status == 200 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(Undecided("the platform does not become ready".to_owned()).into())
    }

    /// Ends it, unless it holds what it must not.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        oracle::look_at(&mut self.resident).await?;
        oracle::look_into(&self.postgres)?;
        self.working.abort();
        self.staying.abort();
        let _ = self.stop.1.send(());
        self.serving.await.context("the node panicked")?.context("the node ended by itself")?;
        let _ = self.stop.0.send(());
        self.controlling.await.context("control panicked")
    }

    /// A further node, with these operations. It takes sandboxes when this answers.
    pub(crate) async fn add_node(&self, name: &str, operations: &str) -> anyhow::Result<Node> {
        let place = self.directory.path().join(format!("node-{name}"));
        std::fs::create_dir(&place)?;
        std::fs::set_permissions(&place, Permissions::from_mode(0o711))?;
        let budgets = PlatformBudgets::default();
        let mut config = config(&place, self.directory.path(), None, operations)?;
        config.networks.budgets = Some(Arc::new(budgets.clone()));
        let actions = Actions::start(config, Keys::elsewhere()).await?;
        let cluster = Cluster::new(self.enrol(name).await?);
        let private = cluster.listen(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let address = private.address().context("the node has no address")?;
        let me = Me { name: name.to_owned(), address: format!("https://{address}"), slots: 200 };
        let asked = [format!("https://{}", self.node_port)];
        let member = Member::join(actions.clone(), cluster.clone(), me, &asked, &budgets);
        let member = tokio::time::timeout(HANG_LIMIT, member).await??;
        let staying = tokio::spawn(member.stay());
        let (stop, stopped) = oneshot::channel();
        let server = Server::behind(actions, Settings::default(), cluster);
        let stopped = async { drop(stopped.await) };
        let serving = tokio::spawn(async move { server.run(vec![private], stopped).await });
        Ok(Node { stop, serving, staying })
    }

    /// Another replica of control, which begins to answer at once.
    pub(crate) fn replica(&self) -> anyhow::Result<Replica> {
        self.replica_of(None)
    }

    /// The same, which also works on runs, with these models.
    pub(crate) fn working_replica(&self, models: Scripted) -> anyhow::Result<Replica> {
        self.replica_of(Some(models))
    }

    fn replica_of(&self, models: Option<Scripted>) -> anyhow::Result<Replica> {
        let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), None)?;
        let address = listener.address().context("the replica has no address")?;
        let settings = belljar_control::Settings::default();
        let (store, keyring) = (self.store.clone(), self.keyring.clone());
        let control = Control::new(store, keyring, settings, Random::new(2))?;
        let place = self.directory.path();
        let working = models.map(|models| offer_runs(&control, &self.store, place, models));
        let (stop, stopped) = oneshot::channel();
        let stopped = async { drop(stopped.await) };
        let bounds = Settings::default();
        let serving = async move { control.run(vec![listener], vec![], bounds, stopped).await };
        Ok(Replica { address, stop, serving: tokio::spawn(serving), working })
    }

    /// Has messages to webhooks delivered, as a replica of control does, until it is aborted.
    pub(crate) fn deliver_webhooks(&self) -> anyhow::Result<JoinHandle<()>> {
        let webhooks = webhooks(Arc::new(self.store.webhooks()))?;
        Ok(tokio::spawn(async move { webhooks.work().await }))
    }

    /// Whoever asks control with this key, or none.
    pub(crate) fn client(&self, key: Option<&str>) -> Client {
        Client { address: self.control, key: key.map(str::to_owned) }
    }

    /// A key of a tenant's, and its id.
    pub(crate) async fn key(
        &self,
        tenant: &str,
        scopes: &[Scope],
        lives: Option<Duration>,
    ) -> anyhow::Result<(String, String)> {
        let made = self.store.keys(tenant).await?.len();
        let text = Sha256::digest(format!("{tenant} {made}"));
        let text: String = text.iter().take(20).map(|byte| format!("{byte:02x}")).collect();
        let key = format!("e2b_{text}");
        let hash = Sha256::digest(&key).into();
        let operations = OperationCap::ALL;
        let new = NewKey { hash, tenant, label: "", scopes, lives, operations };
        let id = self.store.add_key(&new).await?;
        Ok((key, id))
    }

    /// Keeps everybody else from a table for so long.
    pub(crate) async fn hold_table(&self, table: &str, time: Duration) -> anyhow::Result<()> {
        let (schema, seconds) = (&self.schema, time.as_secs_f64());
        let mut holding = self.postgres.start_statement(&format!(
            "begin; lock table {schema}.{table} in access exclusive mode; \
             select pg_sleep({seconds}); commit"
        ))?;
        tokio::time::sleep(time).await;
        let held = tokio::task::spawn_blocking(move || holding.wait()).await??;
        ensure!(held.success(), "the table was not held: {held}");
        Ok(())
    }

    /// Ends the workers of this control at once. Another replica takes over.
    pub(crate) fn kill_workers(&self) {
        self.working.abort();
    }

    /// Has the node say nothing more to control. It goes on serving.
    pub(crate) fn silence_node(&self) {
        self.staying.abort();
    }

    /// Ends the node at once, as if its machine had lost its power.
    pub(crate) fn kill_node(&mut self) {
        self.staying.abort();
        self.serving.abort();
        self.serving = tokio::spawn(std::future::ready(Ok(())));
    }

    /// Points a node's row to another address, as whoever has the network might. It is not
    /// given up for as long as a case takes.
    pub(crate) fn set_address(&self, node: NodeNumber, to: &str) -> anyhow::Result<()> {
        let schema = &self.schema;
        self.postgres.run(&format!(
            "update {schema}.node set address = '{to}', epoch = epoch + 1,
                    lease_until = now() + interval '1 hour'
             where number = {node}"
        ))
    }

    /// Enrols a machine under this name. Its identity is all that a thief of the machine
    /// would have.
    pub(crate) async fn enrol(&self, name: &str) -> anyhow::Result<NodeIdentity> {
        let directory = self.directory.path().join(name);
        enrol(&self.store, self.node_port, &directory, name).await
    }

    /// Takes a key away, and waits until nobody believes it any more.
    pub(crate) async fn revoke(&self, tenant: &str, id: &str) -> anyhow::Result<()> {
        ensure!(self.store.revoke_key(tenant, id).await?, "no such key");
        Ok(())
    }
}

/// A token that a machine enrols with under this name.
pub(crate) async fn token(
    store: &Store,
    name: &str,
    life: Duration,
) -> anyhow::Result<EnrolmentToken> {
    let number = store.add_node(name).await?.number;
    let (authorities, _) = store.authorities().await?;
    let current = authorities.iter().find(|authority| authority.is_current);
    let token = EnrolmentToken::generate(&current.context("no authority")?.certificate)?;
    store.add_enrolment_token(number, &token.digest(), life).await?;
    Ok(token)
}

async fn enrol(
    store: &Store,
    control: SocketAddr,
    directory: &Path,
    name: &str,
) -> anyhow::Result<NodeIdentity> {
    let token = token(store, name, HANG_LIMIT).await?;
    let control = [format!("https://{control}")];
    Ok(belljar_server::enrol(&control, directory, name, &token).await?)
}

/// As a replica of the executable does it.
fn offer_runs(control: &Control, store: &Store, place: &Path, models: Scripted) -> JoinHandle<()> {
    let inside = control.inside();
    let (journal, figures) = (Arc::new(store.runs()), Arc::new(store.figures()));
    let (rows, ledger) = (Arc::new(store.rows()), Arc::new(store.ledger()));
    let runs = runs(journal, figures, (rows, ledger), place, models, move |tenant| {
        let (inside, tenant) = (inside.clone(), tenant.to_owned());
        belljar_client::Client::new(Within::new(move |request| {
            let (inside, tenant) = (inside.clone(), tenant.clone());
            async move { inside.answer(&tenant, request).await }
        }))
    });
    let inside = control.inside();
    let at_once = if models.has_script() { 4 } else { 0 };
    let flows =
        workflows(Arc::new(store.workflows()), runs.data(), at_once, move |tenant, caps| {
            let (inside, tenant, cap) = (inside.clone(), tenant.to_owned(), caps.key.clone());
            belljar_client::Client::new(Within::new(move |mut request| {
                let (inside, tenant) = (inside.clone(), tenant.clone());
                request.extensions_mut().insert(cap.clone());
                async move { inside.answer(&tenant, request).await }
            }))
        });
    let surface = Inside::of_workflows(flows.clone(), Tenant::new("nobody"));
    control.offer_workflows(move |tenant, request| {
        let surface = surface.of(Tenant::new(tenant));
        async move { surface.pass(request).await }
    });
    let worker = runs.clone();
    let surface = Inside::of_runs(runs, Tenant::new("nobody"));
    control.offer_runs(move |tenant, request| {
        let surface = surface.of(Tenant::new(tenant));
        async move { surface.pass(request).await }
    });
    tokio::spawn(async move {
        tokio::join!(worker.work(std::future::pending()), flows.work(std::future::pending()));
    })
}

/// Of a node: `directory` is its own, and runs keep the files of tenants below `shared`.
fn config(
    directory: &Path,
    shared: &Path,
    opening: Option<SocketAddr>,
    operations: &str,
) -> anyhow::Result<Config> {
    let template = belljar_warmed::template()?;
    let store = std::env::var_os("BELLJAR_STORE").filter(|value| !value.is_empty());
    let store = store.map_or_else(|| "/var/lib/belljar/templates".into(), PathBuf::from);
    let mut config = Config::new(directory.join("state"), store);
    config.aliases = BTreeMap::from([("base".to_owned(), vec![template.name])]);
    let gateway = directory.join("gateway.toml");
    let opening = opening.map_or_else(String::new, |opening| {
        let (address, port) = (opening.ip(), opening.port());
        format!("[gateway]\nopenings = [{{ block = \"{address}/32\", ports = [{port}] }}]\n")
    });
    std::fs::write(&gateway, format!("{opening}{operations}"))?;
    config.networks.gateway = Some(gateway);
    config.engine_state = Some(directory.join("engine"));
    config.pool = PoolSize { least: 0, ..config.pool };
    config.rows = Some(RowQueue::new()?);
    config.datasets = Some(Place::Directory(shared.join("data")));
    config.is_member = true;
    config.slots = Some(200);
    config.quota.sandboxes = usize::MAX;
    Ok(config)
}
