//! A platform that offers runs: PostgreSQL, NATS, two replicas of control and three nodes, all on
//! loopback. Replicas and nodes can be killed and started again.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use belljar_domain::OperationCap;
use belljar_store::{NodeState, Quota, Scope, Store};
use tempfile::TempDir;

use super::MODEL;
use super::patience::{Patience, ProcessAdvance};
use crate::cli::{BenchRuns, Dev};
use crate::commands::admin;
use crate::commands::dev::child::Child;
use crate::commands::dev::home::Home;
use crate::commands::dev::programs::Programs;
use crate::commands::dev::{enrolment, free, ready, services};
use crate::config::Config;
use crate::output::Printer;

const NODES: u16 = 3;
pub(super) const CONTROLS: [&str; 2] = ["control-1", "control-2"];
pub(super) const POSTGRES: &str = "postgres";
pub(super) const NATS: &str = "nats";
/// Time in which a process that starts does something, on an idle machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Lines of a log that are shown.
const LAST_LINES: usize = 8;
/// Connections of a replica to the database.
const CONNECTIONS: u32 = 32;
const LOOK: Duration = Duration::from_millis(100);
const GRACE: Duration = Duration::from_secs(20);
/// Zygotes rest.
const SETTLE: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Rig {
    /// Dropped, and so killed, before the directory goes.
    children: BTreeMap<String, Child>,
    pub(super) store: Store,
    places: Places,
    programs: Programs,
    home: Home,
    printer: Printer,
    _dir: TempDir,
}

/// The words that processes are started with.
#[derive(Debug)]
struct Places {
    database: String,
    nats: SocketAddr,
    /// Of each replica: the address of its API, and the one for nodes.
    controls: [(SocketAddr, SocketAddr); CONTROLS.len()],
    /// Of each node.
    nodes: Vec<SocketAddr>,
    store: PathBuf,
    template: String,
    /// Runs that one tenant may have on one replica, so that it can do the work of both.
    runs: u32,
    creates_per_node: usize,
}

pub(super) fn node_name(number: u16) -> String {
    format!("node-{number}")
}

pub(super) fn node_names() -> impl Iterator<Item = String> {
    (1..=NODES).map(node_name)
}

impl Rig {
    pub(super) async fn start(
        options: &BenchRuns,
        model: SocketAddr,
        config: &Config,
        printer: &Printer,
    ) -> anyhow::Result<Self> {
        // PostgreSQL's own user must be able to pass.
        let dir = tempfile::Builder::new()
            .prefix("belljar-bench")
            .permissions(Permissions::from_mode(0o711))
            .tempdir_in(&options.data)
            .with_context(|| {
                format!("cannot create a directory in `{}`", options.data.display())
            })?;
        let dev = Dev {
            nodes: NODES,
            slots: options.alive,
            listen: free()?,
            metrics: None,
            restart_nodes: false,
            data: Some(dir.path().to_owned()),
        };
        let home = Home::open(&dev, config)?;
        let programs = Programs::find(config)?;
        let mut children = BTreeMap::new();
        services::make_cluster(&programs, &home).await?;
        let (postgres, database) = services::postgres(&programs, &home)?;
        children.insert(POSTGRES.to_owned(), postgres);
        let store = connected(&database).await?;
        store.migrate().await?;
        let nats = free()?;
        children.insert(NATS.to_owned(), services::nats(&programs, &home, nats)?);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let places = Places {
            database,
            nats,
            controls: [(free()?, free()?), (free()?, free()?)],
            nodes: (0..NODES).map(|_| free()).collect::<Result<_, _>>()?,
            store: config.store.clone(),
            template: options.template.clone(),
            runs: options.alive,
            creates_per_node: options.creates_per_node.unwrap_or(cores),
        };
        let printer = *printer;
        let mut rig = Self { children, store, places, programs, home, printer, _dir: dir };
        rig.await_true(NATS, async || ready::listens(nats).await).await?;
        rig.write_settings(model)?;
        for name in CONTROLS {
            rig.start_again(name)?;
        }
        rig.await_controls().await?;
        for name in node_names() {
            enrolment(&rig.store, &rig.home, &name).await?;
            rig.start_again(&name)?;
        }
        rig.await_nodes().await?;
        for name in node_names() {
            rig.await_word(&name).await?;
        }
        tokio::time::sleep(SETTLE).await;
        Ok(rig)
    }

    /// Writes the files that replicas read.
    fn write_settings(&self, model: SocketAddr) -> anyhow::Result<()> {
        admin::make_control_key(&self.home.path("control.key"))?;
        self.home.write("provider.key", "key-of-the-provider")?;
        let key = self.home.path("provider.key");
        let text = format!(
            "[operations.llm]\nkind = \"model\"\ndialects = [\"anthropic-messages\"]\n\
             upstream = \"http://{model}\"\nplaintext = true\n\
             credential = {{ file = {key:?}, as = \"x-api-key\" }}\nmodels = [\"{MODEL}\"]\n"
        );
        self.home.write("runs.toml", &text)
    }

    /// Starts a replica or a node, for the first time or after it was killed.
    pub(super) fn start_again(&mut self, name: &str) -> anyhow::Result<()> {
        let command = match CONTROLS.iter().position(|control| *control == name) {
            Some(number) => self.control(number),
            None => self.node(name)?,
        };
        let child = Child::start(name, command, &self.home)?;
        self.children.insert(name.to_owned(), child);
        Ok(())
    }

    fn control(&self, number: usize) -> Command {
        let Places { database, nats, controls, template, runs, creates_per_node, .. } =
            &self.places;
        let (address, for_nodes) = controls[number];
        let mut command = self.programs.belljar();
        // Each keeps the data of its own gateway.
        command.env("BELLJAR_DATA", self.home.path(&format!("{}-data", CONTROLS[number])));
        command.args(["control", "--listen", &address.to_string(), "--database", database]);
        command.args(["--nats", &format!("nats://{nats}")]);
        command.args(["--node-listen", &for_nodes.to_string()]);
        command.arg("--control-key").arg(self.home.path("control.key"));
        command.arg("--objects").arg(self.home.path("objects"));
        command.arg("--gateway").arg(self.home.path("runs.toml"));
        // One worker of 16 is kept for other tenants.
        let workers = (runs * 16).div_ceil(15) + 1;
        command.args(["--run-template", template, "--runs", &workers.to_string()]);
        command.args(["--max-runs", &runs.to_string()]);
        command.args(["--database-connections", &CONNECTIONS.to_string()]);
        command.args(["--creates-per-node", &creates_per_node.to_string()]);
        command
    }

    fn node(&self, name: &str) -> anyhow::Result<Command> {
        let number = node_names().position(|other| other == name).context("no such node")?;
        let Places { nats, controls, nodes, store, runs, .. } = &self.places;
        let controls = controls.map(|(_, for_nodes)| format!("https://{for_nodes}"));
        let mut command = self.programs.belljar();
        command.args(["node", "--name", name, "--nats", &format!("nats://{nats}")]);
        command.args(["--control", &controls.join(","), "--listen", &nodes[number].to_string()]);
        command.arg("--enrol-token-file").arg(self.home.path(&format!("{name}.token")));
        // Two of them can hold everything when the third is gone.
        command.args(["--slots", &runs.to_string(), "--pool", "0"]);
        command.arg("--data").arg(self.home.path(name)).arg("--store").arg(store);
        command.arg("--state").arg(self.home.path("engines"));
        Ok(command)
    }

    /// Kills a process, as if its machine had lost power.
    pub(super) async fn kill(&mut self, name: &str) -> anyhow::Result<()> {
        let mut child = self.children.remove(name).context("there is no such process")?;
        child.end(Duration::ZERO).await;
        Ok(())
    }

    pub(super) async fn await_controls(&mut self) -> anyhow::Result<()> {
        let addresses = self.places.controls.map(|(address, _)| address);
        for (name, address) in CONTROLS.into_iter().zip(addresses) {
            self.await_true(name, async || ready::answers(address, "/v1/health").await).await?;
        }
        Ok(())
    }

    pub(super) async fn await_nodes(&mut self) -> anyhow::Result<()> {
        let mut patience = Patience::new(PATIENCE, (0, Vec::new()));
        loop {
            self.look()?;
            let nodes = self.store.nodes().await?;
            let up = nodes.iter().filter(|node| node.state == NodeState::Up).count();
            if up >= NODES.into() {
                return Ok(());
            }
            let advances = node_names().map(|name| self.advance(&name)).collect();
            if patience.is_over((up, advances)) {
                let reason = patience.reason();
                anyhow::bail!("{up} of {NODES} nodes registered: {reason}{}", self.last_words());
            }
            patience.note(&self.printer, || format!("{up} of {NODES} nodes registered"));
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Until it says that templates are warm, or that there are none.
    async fn await_word(&mut self, name: &str) -> anyhow::Result<()> {
        let mut patience = Patience::new(PATIENCE, self.advance(name));
        loop {
            self.look()?;
            let said = self.log(name);
            if said.lines().any(|line| line.starts_with("ready") || line.starts_with("no warm")) {
                return Ok(());
            }
            if patience.is_over(self.advance(name)) {
                let reason = patience.reason();
                anyhow::bail!("{name} does not become warm: {reason}{}", last_lines(name, &said));
            }
            patience.note(&self.printer, || format!("{name} warms its templates up"));
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn await_true(
        &mut self,
        name: &str,
        is_there: impl AsyncFn() -> bool,
    ) -> anyhow::Result<()> {
        let mut patience = Patience::new(PATIENCE, self.advance(name));
        while !is_there().await {
            self.look()?;
            if patience.is_over(self.advance(name)) {
                let (reason, said) = (patience.reason(), self.log(name));
                anyhow::bail!("{name} does not respond: {reason}{}", last_lines(name, &said));
            }
            patience.note(&self.printer, || format!("{name} starts"));
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    fn log(&self, name: &str) -> String {
        self.home.read(&format!("logs/{name}.log")).unwrap_or_default()
    }

    fn advance(&self, name: &str) -> ProcessAdvance {
        ProcessAdvance::of(self.pid(name), &self.log(name))
    }

    /// The ends of the logs of replicas and nodes.
    pub(super) fn last_words(&self) -> String {
        let names = CONTROLS.into_iter().map(str::to_owned).chain(node_names());
        names.map(|name| last_lines(&name, &self.log(&name))).collect()
    }

    /// An error if a process has died that was not killed.
    pub(super) fn look(&mut self) -> anyhow::Result<()> {
        self.children.values_mut().try_for_each(Child::look)
    }

    /// Makes a tenant that may have as many sandboxes as it likes; answers its key.
    pub(super) async fn tenant(&self, name: &str) -> anyhow::Result<String> {
        let day = Duration::from_secs(24 * 3600);
        let quota = Quota { sandboxes: 100_000, longest_life: day };
        self.store.put_tenant(name, None, quota).await?;
        let (key, _) =
            admin::make_key(&self.store, name, &Scope::ALL, "bench", None, &OperationCap::ALL)
                .await?;
        Ok(key.expose().to_owned())
    }

    /// The addresses of the API.
    pub(super) fn addresses(&self) -> [SocketAddr; CONTROLS.len()] {
        self.places.controls.map(|(address, _)| address)
    }

    pub(super) fn pid(&self, name: &str) -> Option<u32> {
        self.children.get(name).and_then(Child::pid)
    }

    /// Ends all processes: servers of sandboxes first, the database last.
    pub(super) async fn stop(mut self) {
        let rest = CONTROLS.into_iter().chain([NATS, POSTGRES]).map(str::to_owned);
        for name in node_names().chain(rest) {
            if let Some(mut child) = self.children.remove(&name) {
                child.end(GRACE).await;
            }
        }
    }
}

async fn connected(url: &str) -> anyhow::Result<Store> {
    let mut patience = Patience::new(PATIENCE, ());
    loop {
        match Store::connect(url, 4).await {
            Ok(store) => return Ok(store),
            Err(error) if patience.is_over(()) => {
                return Err(error).with_context(|| {
                    format!("PostgreSQL does not respond: {}", patience.reason())
                });
            }
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

/// The end of a log, on lines of its own.
fn last_lines(name: &str, log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    let shown: Vec<_> = last.iter().map(|line| format!("\n  {name}: {line}")).collect();
    shown.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_says_whose_it_is() {
        let log = (0..20).map(|number| number.to_string()).collect::<Vec<_>>().join("\n");
        let shown = last_lines("node-1", &log);
        assert!(shown.starts_with("\n  node-1: 12\n") && shown.ends_with("node-1: 19"), "{shown}");
        assert_eq!(last_lines("node-1", ""), "");
    }
}
