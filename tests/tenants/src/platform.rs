//! A platform: a database, control, and one node behind it.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_actions::{Actions, Config, Keys, Tenant};
use belljar_bus::behalf::ClusterKey;
use belljar_client::Within;
use belljar_control::{Control, Random};
use belljar_node::PoolSize;
use belljar_server::{Cluster, EngineGone, Inside, Listener, Me, Member, Server, Settings};
use belljar_store::{NewKey, Quota, Scope, Store};
use belljar_testkit::{Postgres, Resident, Undecided};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{Client, HANG_LIMIT};
use crate::oracle;
use crate::world::{OPERATIONS, runs};

/// What its parts know each other by.
pub(crate) const CLUSTER_KEY: &str = "0123456789abcdef0123456789abcdef";

pub(crate) struct Platform {
    pub(crate) control: SocketAddr,
    pub(crate) node: SocketAddr,
    pub(crate) store: Store,
    stop: (oneshot::Sender<()>, oneshot::Sender<()>),
    controlling: JoinHandle<()>,
    serving: JoinHandle<Result<(), EngineGone>>,
    staying: JoinHandle<()>,
    resident: Resident,
    _directory: TempDir,
    postgres: Postgres,
}

impl Platform {
    /// With the tenants `a` and `b`, who have no keys yet.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let postgres = tokio::task::spawn_blocking(Postgres::start).await??;
        let store = Store::connect(&postgres.schema(), 8).await?;
        store.migrate().await?;
        let quota = Quota { sandboxes: 200, longest_life: Duration::from_secs(3600) };
        for tenant in ["a", "b"] {
            store.put_tenant(tenant, None, quota).await?;
        }
        let key = ClusterKey::of(CLUSTER_KEY);
        let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), None)?;
        let control = listener.address().context("control has no address")?;
        let settings = belljar_control::Settings::default();
        let replica = Control::new(store.clone(), key.clone(), settings, Random::new(1));
        let directory = tempfile::tempdir()?;
        offer_runs(&replica, &store, directory.path());
        let (stop_control, stopped) = oneshot::channel();
        let controlling = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            replica.run(vec![listener], Settings::default(), stopped).await;
        });

        // The user ids of sandboxes must be able to pass through.
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o711))?;
        let actions = Actions::start(config(&directory)?, Keys::elsewhere()).await?;
        actions.warm_up().await;
        let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), None)?;
        let node = listener.address().context("the node has no address")?;
        let me = Me { name: "one".to_owned(), address: format!("http://{node}"), slots: 200 };
        let cluster = Cluster::new(key);
        let asked = [format!("http://{control}")];
        let member = Member::join(actions.clone(), cluster.clone(), me, &asked);
        let member = tokio::time::timeout(HANG_LIMIT, member).await?;
        let staying = tokio::spawn(member.stay());
        let (stop_node, stopped) = oneshot::channel();
        let server = Server::behind(actions, Settings::default(), cluster);
        let stopped = async { drop(stopped.await) };
        let serving = tokio::spawn(async move { server.run(vec![listener], stopped).await });
        let mut platform = Self {
            control,
            node,
            store,
            stop: (stop_control, stop_node),
            controlling,
            serving,
            staying,
            resident: Resident::default(),
            _directory: directory,
            postgres,
        };
        platform.ready().await?;
        oracle::keep_secret(CLUSTER_KEY);
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
        self.staying.abort();
        let _ = self.stop.1.send(());
        self.serving.await.context("the node panicked")?.context("the node ended by itself")?;
        let _ = self.stop.0.send(());
        self.controlling.await.context("control panicked")
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
        let id = self.store.add_key(&NewKey { hash, tenant, label: "", scopes, lives }).await?;
        Ok((key, id))
    }

    /// Takes a key away, and waits until nobody believes it any more.
    pub(crate) async fn revoke(&self, tenant: &str, id: &str) -> anyhow::Result<()> {
        ensure!(self.store.revoke_key(tenant, id).await?, "no such key");
        Ok(())
    }
}

/// As a replica of the executable does it.
fn offer_runs(control: &Control, store: &Store, place: &Path) {
    let inside = control.inside();
    let runs = runs(Arc::new(store.runs()), place, move |tenant| {
        let (inside, tenant) = (inside.clone(), tenant.to_owned());
        belljar_client::Client::new(Within::new(move |request| {
            let (inside, tenant) = (inside.clone(), tenant.clone());
            async move { inside.answer(&tenant, request).await }
        }))
    });
    let surface = Inside::of_runs(runs, Tenant::new("nobody"));
    control.offer_runs(move |tenant, request| {
        let surface = surface.of(Tenant::new(tenant));
        async move { surface.pass(request).await }
    });
}

fn config(directory: &TempDir) -> anyhow::Result<Config> {
    let template = belljar_warmed::template()?;
    let store = std::env::var_os("BELLJAR_STORE").filter(|value| !value.is_empty());
    let store = store.map_or_else(|| "/var/lib/belljar/templates".into(), PathBuf::from);
    let mut config = Config::new(directory.path().join("state"), store);
    config.aliases = BTreeMap::from([("base".to_owned(), vec![template.name])]);
    let gateway = directory.path().join("gateway.toml");
    std::fs::write(&gateway, OPERATIONS)?;
    config.networks.gateway = Some(gateway);
    config.engine_state = Some(directory.path().join("engine"));
    config.pool = PoolSize { least: 0, ..config.pool };
    config.is_member = true;
    config.slots = Some(200);
    config.quota.sandboxes = usize::MAX;
    Ok(config)
}
