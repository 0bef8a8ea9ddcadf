//! A server with real sandboxes, in this process.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use belljar_node::PoolSize;
use belljar_runs::Runs;
use belljar_sandboxes::{Actions, Config, Keys, Tenant};
use belljar_server::{EngineGone, Inside, Listener, Server, Settings, tls};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// First of all in `main`: the process that makes sandboxes is this same program.
pub fn hook() {
    belljar_node::hook();
}

/// Sandboxes are of the template `host`, also under the name `base`.
#[derive(Debug)]
pub struct Served {
    pub address: SocketAddr,
    /// The same with TLS, as `localhost`.
    pub secure: SocketAddr,
    /// Who vouches for that, in PEM.
    pub authority: PathBuf,
    inside: Inside,
    stop: oneshot::Sender<()>,
    server: JoinHandle<Result<(), EngineGone>>,
    /// None: a store of its own.
    store: Option<PathBuf>,
    /// Removed after the server is gone.
    directory: TempDir,
}

impl Served {
    /// A key of the tenant `one`, and one of the tenant `two`.
    pub const KEYS: [&str; 2] = [
        "e2b_1111111111111111111111111111111111111111",
        "e2b_2222222222222222222222222222222222222222",
    ];

    pub async fn start() -> anyhow::Result<Self> {
        Self::open(Self::directory()?, None, |_, _| None).await
    }

    /// One with the templates of a store as well, that answers questions, too: `runs`
    /// makes them of its API and a directory.
    pub async fn with_runs(
        store: PathBuf,
        runs: impl FnOnce(&Inside, &Path) -> Runs,
    ) -> anyhow::Result<Self> {
        let runs = |inside: &Inside, path: &Path| Some(runs(inside, path));
        Self::open(Self::directory()?, Some(store), runs).await
    }

    fn directory() -> anyhow::Result<TempDir> {
        let directory = tempfile::tempdir()?;
        // The user ids of sandboxes must be able to pass through.
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o711))?;
        let keys = directory.path().join("keys");
        let [one, two] = Self::KEYS;
        std::fs::write(&keys, format!("{one} one\n{two} two\n"))?;
        Ok(directory)
    }

    async fn open(
        directory: TempDir,
        store: Option<PathBuf>,
        runs: impl FnOnce(&Inside, &Path) -> Option<Runs>,
    ) -> anyhow::Result<Self> {
        let at = |name: &str| directory.path().join(name);
        let templates = store.clone().unwrap_or_else(|| at("store"));
        let mut config = Config::new(at("state"), templates);
        config.aliases = BTreeMap::from([("base".to_owned(), vec!["host".to_owned()])]);
        config.offers_host = true;
        config.engine_state = Some(at("engine"));
        // As runs have it that keep their data in `data` of their directory.
        config.datasets = Some(at("served").join("data").to_string_lossy().parse()?);
        config.pool = PoolSize { least: 0, ..config.pool };
        let actions = Actions::start(config, Keys::read(&at("keys"))?).await?;
        let inside = Inside::new(actions.clone(), Tenant::new("one"));
        let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), None)?;
        let address = listener.address().context("the server has no address")?;
        let files = tls::init(&at("tls"), "localhost")?;
        let config = tls::config(&files.certificate, &files.key)?;
        let tls = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), Some(config))?;
        let secure = tls.address().context("the server has no address")?;
        let (stop, stopped) = oneshot::channel();
        let mut server = Server::new(actions, Settings::default());
        if let Some(runs) = runs(&inside, &at("served")) {
            server = server.with_runs(runs);
        }
        let server = tokio::spawn(async move {
            server.run(vec![listener, tls], async { drop(stopped.await) }).await
        });
        let authority = files.authority;
        Ok(Self { address, secure, authority, inside, stop, server, store, directory })
    }

    /// The API without a port, as the tenant of this name has it.
    pub fn inside(&self, tenant: &str) -> Inside {
        self.inside.of(Tenant::new(tenant))
    }

    pub async fn stop(self) -> anyhow::Result<()> {
        self.halt().await.map(drop)
    }

    /// Another server in the place of this one, on other ports, and without runs.
    pub async fn restart(self) -> anyhow::Result<Self> {
        let store = self.store.clone();
        Self::open(self.halt().await?, store, |_, _| None).await
    }

    async fn halt(self) -> anyhow::Result<TempDir> {
        let _ = self.stop.send(());
        self.server.await.context("the server panicked")?.context("the server ended by itself")?;
        Ok(self.directory)
    }
}
