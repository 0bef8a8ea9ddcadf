//! `belljar dev`: a whole platform on one machine.
//!
//! ```text
//!   belljar dev ─┬─ postgres      data below --data, reached by a socket
//!                ├─ nats-server   on a free port of the loopback
//!                ├─ belljar control
//!                └─ belljar node  one or more
//! ```
//!
//! They start in this order and end in the opposite one. Each has a process group
//! of its own, so that Ctrl-C reaches this process alone, and each dies with this
//! process however it ends. A node that dies takes nothing else with it.

pub(super) mod child;
pub(super) mod home;
mod nodes;
pub(super) mod programs;
pub(super) mod ready;
pub(super) mod services;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_console::Console;
use belljar_domain::OperationCap;
use belljar_template::{Outcome, Progress as _, StepStart};

use self::child::{Child, Ending};
use self::home::Home;
use self::nodes::{DevNode, DevNodes, metrics_of};
use self::programs::Programs;
use super::progress::Screen;
use super::{admin, env};
use crate::cli::Dev;
use crate::config::Config;
use crate::output::{Hint as _, Printer};
use crate::session::Interrupt;

/// What sandboxes are made for.
const TENANT: &str = "dev";
/// A node tries its tiers and its gateway before it comes.
const PATIENCE: Duration = Duration::from_secs(90);
/// What a child may take to end.
const GRACE: Duration = Duration::from_secs(20);
/// Between two looks at whether all children are alive.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) async fn run(options: &Dev, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    let programs = Programs::find(config)?;
    let home = Home::open(options, config)?;
    // A port that is taken is the usual mistake.
    TcpListener::bind(options.listen)
        .with_context(|| format!("cannot listen on {}", options.listen))
        .hint("choose another port with --listen")?;
    let mut interrupt = Interrupt::new()?;
    let node_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    if let Some(metrics) = options.metrics {
        metrics_of(metrics, options.nodes)?;
    }
    let mut platform = Platform {
        options,
        config,
        programs,
        home,
        printer,
        node_port,
        nats: String::new(),
        nodes: DevNodes::new(),
        children: Vec::new(),
    };
    let ended = tokio::select! {
        ended = platform.live() => ended,
        () = interrupt.wait() => Ok(()),
    };
    platform.stop(&mut interrupt).await;
    ended.map(|()| 0)
}

struct Platform<'a> {
    options: &'a Dev,
    config: &'a Config,
    programs: Programs,
    home: Home,
    printer: &'a Printer,
    /// Where control listens for nodes.
    node_port: SocketAddr,
    nats: String,
    nodes: DevNodes,
    /// In the order of their starts.
    children: Vec<Child>,
}

impl Platform<'_> {
    /// Starts everything, and then ends only with an error: something other than a node died.
    async fn live(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        let key = self.start().await?;
        let url = format!("http://{}", self.reached());
        let variables = env::for_url(&url, &key);
        self.home.write("env", &format!("{variables}\n"))?;
        self.printer.note(format_args!(
            "ready after {:.1} s; logs are in `{}`\n\
             use it:   . {}\n\
             manage:   belljar admin --database-file {} node list\n\
             Ctrl-C ends everything",
            began.elapsed().as_secs_f32(),
            self.home.path("logs").display(),
            self.home.path("env").display(),
            self.home.path("database").display(),
        ));
        if !Console::embedded().is_empty() {
            self.printer.note(format_args!("console on {url}{}", belljar_console::ROOT));
        }
        if let Some(metrics) = self.options.metrics {
            self.printer.note(format_args!("metrics on http://{metrics}/metrics (control)"));
            for (name, node) in &self.nodes {
                if let Some(metrics) = node.metrics {
                    self.printer.note(format_args!("metrics on http://{metrics}/metrics ({name})"));
                }
            }
        }
        self.printer.data(variables)?;
        loop {
            self.watch()?;
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn start(&mut self) -> anyhow::Result<String> {
        let mut screen = Screen::new(self.printer);
        let mut step = Steps { screen: &mut screen, number: 0 };
        let database = step.run("PostgreSQL", self.database()).await?;
        let key = step.run("tables, tenant and key", self.key(&database)).await?;
        self.nats = step.run("NATS", self.start_nats()).await?;
        step.run("control", self.control(&database)).await?;
        let nodes = match self.options.nodes {
            1 => "one node".to_owned(),
            nodes => format!("{nodes} nodes"),
        };
        step.run(&nodes, self.start_nodes(&database)).await?;
        Ok(key)
    }

    async fn database(&mut self) -> anyhow::Result<String> {
        services::make_cluster(&self.programs, &self.home).await?;
        let (postgres, url) = services::postgres(&self.programs, &self.home)?;
        self.children.push(postgres);
        self.home.write("database", &format!("{url}\n"))?;
        let began = Instant::now();
        loop {
            self.look()?;
            match belljar_store::Store::connect(&url, 1).await {
                Ok(_) => return Ok(url),
                Err(error) if began.elapsed() > PATIENCE => {
                    return Err(error).context("PostgreSQL does not answer");
                }
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// The key of the first start, or a new one if the database does not know it.
    async fn key(&mut self, database: &str) -> anyhow::Result<String> {
        let store = admin::connect(database).await?;
        store.migrate().await.hint("remove the data directory to start over")?;
        admin::open_tenant(&store, TENANT).await?;
        let label = "belljar dev";
        let keys = store.keys(TENANT).await?;
        let is_known = keys.iter().any(|key| key.is_alive && key.label == label);
        if let Some(key) = self.home.read("key").filter(|_| is_known) {
            return Ok(key);
        }
        let scopes = belljar_store::Scope::ALL;
        let (key, _) =
            admin::make_key(&store, TENANT, &scopes, label, None, &OperationCap::ALL).await?;
        self.home.write("key", &format!("{}\n", key.expose()))?;
        Ok(key.expose().to_owned())
    }

    async fn start_nats(&mut self) -> anyhow::Result<String> {
        let address = free()?;
        self.children.push(services::nats(&self.programs, &self.home, address)?);
        self.answers(async || ready::listens(address).await, "NATS").await?;
        Ok(format!("nats://{address}"))
    }

    async fn control(&mut self, database: &str) -> anyhow::Result<()> {
        let secret = self.home.path("control.key");
        if !secret.exists() {
            admin::make_control_key(&secret)?;
        }
        self.node_port = free()?;
        let node_listen = self.node_port.to_string();
        let listen = self.options.listen.to_string();
        let mut command = self.programs.belljar();
        command.args(["control", "--listen", &listen, "--database", database]);
        command.args(["--nats", &self.nats]);
        if let Some(metrics) = self.options.metrics {
            command.args(["--metrics", &metrics.to_string()]);
        }
        command.args(["--node-listen", &node_listen]).arg("--control-key").arg(&secret);
        command.arg("--objects").arg(self.home.path("objects"));
        command.env("BELLJAR_DATA", self.home.path("control"));
        self.children.push(Child::start("control", command, &self.home)?);
        let reached = self.reached();
        self.answers(async || ready::answers(reached, "/v1/health").await, "control").await
    }

    async fn start_nodes(&mut self, database: &str) -> anyhow::Result<()> {
        let store = admin::connect(database).await?;
        for number in 1..=self.options.nodes {
            let name = format!("node-{number}");
            let address = free()?;
            let token = enrolment(&store, &self.home, &name).await?;
            let metrics =
                self.options.metrics.map(|first| metrics_of(first, number)).transpose()?;
            self.nodes.insert(name.clone(), DevNode::new(address, metrics, token));
            let command = self.node_command(&name);
            self.children.push(Child::start(&name, command, &self.home)?);
        }
        let reached = self.reached();
        self.answers(async || ready::answers(reached, "/v1/ready").await, "the platform").await?;
        self.all_up().await
    }

    /// One node is enough to be ready, but not what was asked for.
    async fn all_up(&mut self) -> anyhow::Result<()> {
        let database = self.home.read("database").unwrap_or_default();
        let store = admin::connect(&database).await?;
        let began = Instant::now();
        loop {
            self.look()?;
            let nodes = store.nodes().await?;
            // A lease of the last `belljar dev` may still run, at another address.
            let is_ours = |node: &belljar_store::Node| {
                let ours = self.nodes.get(&node.name);
                ours.is_some_and(|ours| node.address == format!("https://{}", ours.address))
            };
            let is_up = |node: &&belljar_store::Node| {
                let is_up = node.state == belljar_store::NodeState::Up;
                is_up && node.lease_left.is_positive() && is_ours(node)
            };
            if nodes.iter().filter(is_up).count() >= usize::from(self.options.nodes) {
                return Ok(());
            }
            anyhow::ensure!(began.elapsed() < PATIENCE, "some nodes did not register");
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn answers(
        &mut self,
        is_there: impl AsyncFn() -> bool,
        name: &str,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        while !is_there().await {
            self.look()?;
            let waited = began.elapsed() < PATIENCE;
            let logs = self.home.path("logs");
            anyhow::ensure!(waited, "{name} does not answer; its log is in `{}`", logs.display());
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Whether everybody is alive.
    fn look(&mut self) -> anyhow::Result<()> {
        self.children.iter_mut().try_for_each(Child::look)
    }

    /// Where this machine reaches control: everywhere is no address.
    fn reached(&self) -> SocketAddr {
        let mut reached = self.options.listen;
        if reached.ip().is_unspecified() {
            reached.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        reached
    }

    /// Ends all children, the last one first; whoever is impatient asks again.
    async fn stop(&mut self, interrupt: &mut Interrupt) {
        while let Some(mut child) = self.children.pop() {
            if !child.is_alive() {
                continue;
            }
            self.printer.note(format_args!("ending {}", child.name()));
            let ending = tokio::select! {
                ending = child.end(GRACE) => ending,
                () = interrupt.wait() => child.end(Duration::ZERO).await,
            };
            if ending == Ending::Killed {
                let name = child.name();
                self.printer.note(format_args!("{name} did not end by itself and was killed"));
            }
        }
    }
}

/// Shows what is being started.
struct Steps<'a> {
    screen: &'a mut Screen,
    number: usize,
}

impl Steps<'_> {
    async fn run<T>(
        &mut self,
        name: &str,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        self.number += 1;
        let began = Instant::now();
        self.screen.started(&StepStart { name, number: self.number, total: 5 });
        let done = work.await;
        let outcome = if done.is_ok() { Outcome::Made } else { Outcome::Failed };
        self.screen.finished(outcome, began.elapsed());
        done.with_context(|| format!("cannot start {name}"))
    }
}

/// A token that lets the node of this name enrol, or enrol again, in a file. One that is
/// enrolled and whose certificate is valid does not look at it.
pub(super) async fn enrolment(
    store: &belljar_store::Store,
    home: &Home,
    name: &str,
) -> anyhow::Result<std::path::PathBuf> {
    let number = store.add_node(name).await?.number;
    let token = admin::make_node_token(store, number, PATIENCE * 10).await?;
    let file = format!("{name}.token");
    home.write(&file, &format!("{}\n", token.expose()))?;
    Ok(home.path(&file))
}

/// A free address, with a port below the kernel's ephemeral range: an outgoing connection cannot
/// take it before the child listens. If another server does, the child reports it.
pub(super) fn free() -> anyhow::Result<SocketAddr> {
    static TURN: AtomicU32 = AtomicU32::new(0);
    for _ in 0..1000 {
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let offset = std::process::id().wrapping_mul(37).wrapping_add(turn.wrapping_mul(11));
        let port = 20_000 + u16::try_from(offset % 12_000)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    anyhow::bail!("there is no free port between 20000 and 32000")
}
