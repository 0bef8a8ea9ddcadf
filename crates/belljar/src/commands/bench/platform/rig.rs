//! A platform that lives as long as a measurement.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_domain::OperationCap;
use belljar_store::{NodeState, Quota, Scope, Store};
use tempfile::TempDir;

use super::client::Client;
use crate::cli::{BenchPlatform, Dev};
use crate::commands::admin;
use crate::commands::dev::child::Child;
use crate::commands::dev::home::Home;
use crate::commands::dev::programs::Programs;
use crate::commands::dev::{enrolment, free, ready, services};
use crate::config::Config;

/// What is to be there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) nodes: u16,
    /// Of each node.
    pub(super) slots: u32,
    pub(super) pool: usize,
    pub(super) at_once: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Rig {
    /// Dropped, and so killed, before the directory goes.
    children: BTreeMap<String, Child>,
    pub(super) store: Store,
    pub(super) address: SocketAddr,
    /// Where control listens for nodes.
    node_port: SocketAddr,
    programs: Programs,
    home: Home,
    _dir: TempDir,
}

const PATIENCE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(100);
const GRACE: Duration = Duration::from_secs(20);
/// Pools fill, zygotes rest.
const SETTLE: Duration = Duration::from_secs(3);
/// Only known to the server that is measured beside, on loopback.
const SERVE_KEY: &str = "e2b_00000000000000000000000000000000000000aa";
const SERVE: &str = "serve";
pub(super) const CONTROL: &str = "control";
pub(super) const POSTGRES: &str = "postgres";
pub(super) const NATS: &str = "nats";

impl Rig {
    pub(super) async fn start(
        shape: Shape,
        options: &BenchPlatform,
        config: &Config,
    ) -> anyhow::Result<Self> {
        // PostgreSQL's own user must be able to pass.
        let dir = tempfile::Builder::new()
            .prefix("belljar-bench")
            .permissions(Permissions::from_mode(0o711))
            .tempdir_in(&options.data)
            .with_context(|| {
                format!("cannot create a directory in `{}`", options.data.display())
            })?;
        let address = free()?;
        let data = Some(dir.path().to_owned());
        let dev = Dev {
            nodes: shape.nodes,
            slots: shape.slots,
            listen: address,
            metrics: None,
            restart_nodes: false,
            data,
        };
        let home = Home::open(&dev, config)?;
        let programs = Programs::find(config)?;
        let mut children = BTreeMap::new();
        services::make_cluster(&programs, &home).await?;
        let (postgres, url) = services::postgres(&programs, &home)?;
        children.insert(POSTGRES.to_owned(), postgres);
        let store = connected(&url).await?;
        store.migrate().await?;
        let nats = free()?;
        children.insert(NATS.to_owned(), services::nats(&programs, &home, nats)?);
        let node_port = free()?;
        let mut rig = Self { children, store, address, node_port, programs, home, _dir: dir };
        rig.answers(async || ready::listens(nats).await, NATS).await?;
        rig.control(&url, nats, shape)?;
        rig.answers(async || ready::answers(address, "/v1/health").await, CONTROL).await?;
        for number in 1..=shape.nodes {
            rig.node(&name_of(number), nats, shape, config).await?;
        }
        rig.await_nodes(shape.nodes).await?;
        rig.await_warmth(shape.nodes).await?;
        Ok(rig)
    }

    fn control(&mut self, url: &str, nats: SocketAddr, shape: Shape) -> anyhow::Result<()> {
        let secret = self.home.path("control.key");
        admin::make_control_key(&secret)?;
        let mut command = self.programs.belljar();
        command.args([CONTROL, "--listen", &self.address.to_string(), "--database", url]);
        command.args(["--nats", &format!("nats://{nats}")]).arg("--control-key").arg(secret);
        command.args(["--node-listen", &self.node_port.to_string()]);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let at_once = shape.at_once.unwrap_or(cores);
        command.args(["--creates-per-node", &at_once.to_string()]);
        self.child(CONTROL, command)
    }

    async fn node(
        &mut self,
        name: &str,
        nats: SocketAddr,
        shape: Shape,
        config: &Config,
    ) -> anyhow::Result<()> {
        let (private, public) = (free()?, free()?);
        let token = enrolment(&self.store, &self.home, name).await?;
        let mut command = self.programs.belljar();
        command.args(["node", "--name", name, "--nats", &format!("nats://{nats}")]);
        command.args(["--control", &format!("https://{}", self.node_port)]);
        command.args(["--listen", &private.to_string()]).arg("--enrol-token-file").arg(token);
        command.args(["--public-listen", &public.to_string()]);
        command.args(["--direct-url", &format!("http://{public}")]);
        command.args(["--slots", &shape.slots.to_string()]);
        command.args(["--pool", &shape.pool.to_string()]);
        self.places(&mut command, name, config);
        self.child(name, command)
    }

    /// A server by itself, beside; answers where it is, and a key.
    pub(super) async fn serve(
        &mut self,
        pool: usize,
        config: &Config,
    ) -> anyhow::Result<(SocketAddr, String)> {
        let address = free()?;
        let keys = self.home.path("serve.keys");
        self.home.write("serve.keys", &format!("{SERVE_KEY} bench\n"))?;
        let mut command = self.programs.belljar();
        command.args([SERVE, "--listen", &address.to_string(), "--pool", &pool.to_string()]);
        command.arg("--keys").arg(keys);
        self.places(&mut command, SERVE, config);
        self.child(SERVE, command)?;
        self.answers(async || ready::answers(address, "/v1/health").await, SERVE).await?;
        self.await_word(SERVE).await?;
        tokio::time::sleep(SETTLE).await;
        Ok((address, SERVE_KEY.to_owned()))
    }

    fn places(&self, command: &mut Command, name: &str, config: &Config) {
        command.arg("--data").arg(self.home.path(name)).arg("--store").arg(&config.store);
        command.arg("--state").arg(self.home.path("engines"));
    }

    fn child(&mut self, name: &str, command: Command) -> anyhow::Result<()> {
        let child = Child::start(name, command, &self.home)?;
        self.children.insert(name.to_owned(), child);
        Ok(())
    }

    async fn answers(
        &mut self,
        is_there: impl AsyncFn() -> bool,
        name: &str,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        while !is_there().await {
            self.look()?;
            anyhow::ensure!(began.elapsed() < PATIENCE, "{name} does not respond");
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    async fn await_nodes(&mut self, count: u16) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            self.look()?;
            let nodes = self.store.nodes().await?;
            if nodes.iter().filter(|node| node.state == NodeState::Up).count() >= count.into() {
                return Ok(());
            }
            anyhow::ensure!(began.elapsed() < PATIENCE, "some nodes did not register");
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn await_warmth(&mut self, count: u16) -> anyhow::Result<()> {
        for number in 1..=count {
            self.await_word(&name_of(number)).await?;
        }
        tokio::time::sleep(SETTLE).await;
        Ok(())
    }

    /// Until it says that templates are warm, or that there are none.
    async fn await_word(&mut self, name: &str) -> anyhow::Result<()> {
        let log = format!("logs/{name}.log");
        let began = Instant::now();
        loop {
            self.look()?;
            let said = self.home.read(&log).unwrap_or_default();
            if said.lines().any(|line| line.starts_with("ready") || line.starts_with("no warm")) {
                return Ok(());
            }
            anyhow::ensure!(began.elapsed() < PATIENCE, "{name} does not become warm");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether everybody is alive.
    pub(super) fn look(&mut self) -> anyhow::Result<()> {
        self.children.values_mut().try_for_each(Child::look)
    }

    /// A tenant that may have as many as it likes, and a client that has its key.
    pub(super) async fn tenant(&self, name: &str) -> anyhow::Result<Client> {
        let day = Duration::from_secs(24 * 3600);
        let quota = Quota { sandboxes: 100_000, longest_life: day };
        self.store.put_tenant(name, None, quota).await?;
        let (key, _) =
            admin::make_key(&self.store, name, &Scope::ALL, "bench", None, &OperationCap::ALL)
                .await?;
        Ok(Client::new(self.address, key.expose().to_owned()))
    }

    pub(super) fn pid(&self, name: &str) -> anyhow::Result<u32> {
        let pid = self.children.get(name).and_then(Child::pid);
        pid.with_context(|| format!("{name} does not run"))
    }

    /// As if its machine had lost power.
    pub(super) async fn kill(&mut self, name: &str) -> anyhow::Result<()> {
        let mut child = self.children.remove(name).context("there is no such process")?;
        child.end(Duration::ZERO).await;
        Ok(())
    }

    /// Ends everybody: servers of sandboxes first, the database last.
    pub(super) async fn stop(mut self) {
        let first = |name: &String| ![CONTROL, NATS, POSTGRES].contains(&name.as_str());
        let (nodes, rest): (Vec<_>, Vec<_>) = self.children.keys().cloned().partition(first);
        for name in nodes.into_iter().chain(rest) {
            if let Some(mut child) = self.children.remove(&name) {
                child.end(GRACE).await;
            }
        }
    }
}

pub(super) fn name_of(number: u16) -> String {
    format!("node-{number}")
}

async fn connected(url: &str) -> anyhow::Result<Store> {
    let began = Instant::now();
    loop {
        match Store::connect(url, 2).await {
            Ok(store) => return Ok(store),
            Err(error) if began.elapsed() > PATIENCE => {
                return Err(error).context("PostgreSQL does not respond");
            }
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}
