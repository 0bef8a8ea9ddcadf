//! The platform: PostgreSQL, three NATS servers, control twice, nodes; each in a
//! network of its own.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_testkit::Nats;
use rustix::process::Signal;

use super::net::{Net, Place};
use super::oracle::Oracle;
use super::postgres::{self, Postgres};
use super::program::Program;
use super::proxy::Proxy;
use super::record::Kind;
use super::server::gateway_text;
use super::{Rig, host, run};
use crate::books;
use crate::case::HANG_LIMIT;
use crate::client::{Client, History};
use crate::evidence::Evidence;

pub(crate) const TENANT: &str = "acme";
const PORT: u16 = 3000;
/// Where controls listen for nodes.
const NODE_PORT: u16 = 3001;

/// How large it is, and what lies between its parts.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) nodes: usize,
    pub(crate) slots: u32,
    /// Whether control reaches the database through proxies, one for each.
    pub(crate) is_proxied: bool,
    /// Where the database's files lie; none: with everything else.
    pub(crate) database: Option<PathBuf>,
    /// More words for every role.
    pub(crate) more: Vec<String>,
    /// More words for control.
    pub(crate) control_more: Vec<String>,
    pub(crate) quota: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            nodes: 2,
            slots: 60,
            is_proxied: false,
            database: None,
            more: Vec::new(),
            control_more: Vec::new(),
            quota: 500,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) rig: Rig,
    pub(crate) net: Net,
    pub(crate) postgres: Postgres,
    pub(crate) database: Place,
    /// One for each control, if that was asked for.
    pub(crate) database_proxies: Vec<Proxy>,
    pub(crate) nats: Nats,
    pub(crate) nats_proxies: Vec<Proxy>,
    pub(crate) controls: Vec<Role>,
    pub(crate) nodes: Vec<Role>,
    pub(crate) oracle: Oracle,
    key: String,
}

/// A replica of control, or a node.
#[derive(Debug)]
pub(crate) struct Role {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) program: Program,
    pub(crate) address: SocketAddr,
    /// Of a node: its records, and its engine's directory.
    pub(crate) data: PathBuf,
    pub(crate) state: PathBuf,
}

impl Role {
    pub(crate) fn pid(&self) -> u32 {
        self.program.pid()
    }

    pub(crate) fn start(&mut self) -> anyhow::Result<()> {
        self.start_with(&[])
    }

    pub(crate) fn start_with(&mut self, variables: &[(&str, &str)]) -> anyhow::Result<()> {
        self.program.start(variables)
    }

    pub(crate) fn kill(&mut self) {
        self.program.kill();
    }

    /// Dies by itself at a chosen moment: kills it, and starts it so.
    pub(crate) fn arm(&mut self, fault: &str) -> anyhow::Result<()> {
        self.program.kill();
        self.program.start(&[("BELLJAR_FAULT", fault)])
    }

    /// As an operator stops it.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        self.program.signal(Signal::TERM);
        let status = self.program.ended(Duration::from_secs(40)).await?;
        ensure!(status.success(), "{} ended with {status}: {}", self.name, self.program.said());
        Ok(())
    }

    /// The ids of what is on record at a node.
    fn roster(&self) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.data.join("sandboxes")).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect()
    }

    /// The processes of every sandbox on a node.
    pub(crate) fn inhabitants(&self) -> Vec<u32> {
        host::inhabited(&self.state).into_iter().flat_map(|(_, pids)| pids).collect()
    }
}

impl Cluster {
    pub(crate) async fn start(rig: &Rig, shape: &Shape) -> anyhow::Result<Self> {
        let mut net = Net::make(rig)?;
        let outside = net.host();
        let database = net.join("pg")?;
        let dir = shape.database.clone().unwrap_or_else(|| rig.dir.join("pg"));
        let postgres = Postgres::start(rig, &dir, Some(&database)).await?;
        let nats = tokio::task::spawn_blocking(Nats::cluster).await??;
        let mut nats_proxies = Vec::new();
        for url in nats.urls() {
            let upstream: SocketAddr = url.trim_start_matches("nats://").parse()?;
            nats_proxies.push(Proxy::start((outside.address, 0).into(), upstream).await?);
        }
        let oracle = Oracle::start((outside.address, 0).into()).await?;
        let belljar = rig.belljar.display().to_string();
        let secret = rig.dir.join("control.key");
        run(&belljar, &["admin", "control-key", &secret.display().to_string()])?;
        let url = postgres.url();
        run(&belljar, &["admin", "--database", &url, "migrate"])?;
        let quota = shape.quota.to_string();
        let put = ["admin", "--database", &url, "tenant", "put", TENANT, "--sandboxes", &quota];
        run(&belljar, &put)?;
        let key = run(&belljar, &["admin", "--database", &url, "key", "add", TENANT])?;
        let key = key.split_whitespace().next().context("no key was printed")?.to_owned();
        let mut cluster = Self {
            rig: rig.clone(),
            net,
            postgres,
            database,
            database_proxies: Vec::new(),
            nats,
            nats_proxies,
            controls: Vec::new(),
            nodes: Vec::new(),
            oracle,
            key,
        };
        for number in 1..=2 {
            cluster.add_control(number, shape).await?;
        }
        for role in &mut cluster.controls {
            role.start()?;
        }
        // They make the authority that tokens are for.
        cluster.has_authority().await?;
        for number in 1..=shape.nodes {
            cluster.add_node(number, shape)?;
        }
        for role in &mut cluster.nodes {
            role.start()?;
        }
        cluster.is_whole().await?;
        Ok(cluster)
    }

    /// As an operator does it; answers what was printed.
    pub(crate) fn admin(&self, words: &[&str]) -> anyhow::Result<String> {
        let (belljar, url) = (self.rig.belljar.display().to_string(), self.postgres.url());
        run(&belljar, &[&["admin", "--database", &url], words].concat())
    }

    /// Lets a node enrol under its name when it starts.
    pub(crate) fn write_token(&self, name: &str, words: &[&str]) -> anyhow::Result<PathBuf> {
        let token = self.admin(&[&["node", "add", name], words].concat())?;
        let file = self.rig.dir.join(format!("{name}.token"));
        write_private(&file, token.trim())?;
        Ok(file)
    }

    /// Waits until a control has made the platform's authority.
    async fn has_authority(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let made = self.postgres.sql("select count(*) from authority");
            if made.is_ok_and(|made| made.trim() == "1") {
                return Ok(());
            }
            for role in &self.controls {
                let said = || format!("{} ended: {}", role.name, role.program.said());
                ensure!(host::start_of(role.pid()).is_some(), said());
            }
            ensure!(began.elapsed() < HANG_LIMIT, "no authority after {HANG_LIMIT:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn bus(&self) -> String {
        let urls = self.nats_proxies.iter().map(|proxy| format!("nats://{}", proxy.address));
        urls.collect::<Vec<_>>().join(",")
    }

    async fn add_control(&mut self, number: usize, shape: &Shape) -> anyhow::Result<()> {
        let name = format!("c{number}");
        let place = self.net.join(&name)?;
        let mut at = self.postgres.address();
        if shape.is_proxied {
            let listen = (self.net.host().address, 0).into();
            let proxy = Proxy::start(listen, at).await?;
            at = proxy.address;
            self.database_proxies.push(proxy);
        }
        let address = SocketAddr::new(IpAddr::V4(place.address), PORT);
        let mut words = vec![self.rig.belljar.display().to_string(), "control".to_owned()];
        let flags = [
            ("--listen", address.to_string()),
            ("--database", postgres::url(at)),
            ("--nats", self.bus()),
            ("--node-listen", SocketAddr::new(address.ip(), NODE_PORT).to_string()),
            ("--control-key", self.rig.dir.join("control.key").display().to_string()),
            ("--grace", "2s".to_owned()),
        ];
        words.extend(flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]));
        words.extend(shape.more.iter().chain(&shape.control_more).cloned());
        self.controls.push(self.role(name, place, address, words));
        Ok(())
    }

    fn add_node(&mut self, number: usize, shape: &Shape) -> anyhow::Result<()> {
        let name = format!("n{number}");
        let place = self.net.join(&name)?;
        let address = SocketAddr::new(IpAddr::V4(place.address), PORT);
        let gateway = self.rig.dir.join("gateway.toml");
        std::fs::write(&gateway, gateway_text(self.oracle.address))?;
        let controls = self.controls.iter().map(|role| role.address.ip());
        let controls = controls.map(|ip| format!("https://{}", SocketAddr::new(ip, NODE_PORT)));
        let file = self.write_token(&name, &[])?;
        let mut words = vec![self.rig.belljar.display().to_string(), "node".to_owned()];
        let text = |path: PathBuf| path.display().to_string();
        let state = self.rig.dir.join(format!("{name}-engine"));
        let flags = [
            ("--name", name.clone()),
            ("--control", controls.collect::<Vec<_>>().join(",")),
            ("--nats", self.bus()),
            ("--enrol-token-file", text(file)),
            ("--listen", address.to_string()),
            ("--slots", shape.slots.to_string()),
            ("--data", text(self.rig.dir.join(format!("{name}-data")))),
            ("--state", text(state.clone())),
            ("--store", text(self.rig.store.clone())),
            ("--gateway", text(gateway)),
            ("--pool", "0".to_owned()),
            ("--grace", "2s".to_owned()),
        ];
        words.extend(flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]));
        words.extend(shape.more.iter().cloned());
        self.rig.record.note(Kind::Groups, &host::groups_of(&state))?;
        let role = self.role(name, place, address, words);
        self.nodes.push(role);
        Ok(())
    }

    fn role(&self, name: String, place: Place, address: SocketAddr, words: Vec<String>) -> Role {
        let dir = &self.rig.dir;
        let log = dir.join(format!("{name}.log"));
        let program = Program::new(&self.rig.record, log, place.namespace.as_deref(), words);
        let (data, state) = (dir.join(format!("{name}-data")), dir.join(format!("{name}-engine")));
        Role { name, place, program, address, data, state }
    }

    /// Waits until every control is ready, and every node up.
    pub(crate) async fn is_whole(&mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        loop {
            let mut all = true;
            for role in &self.controls {
                let client = Client::new(role.address, &self.key).within(Duration::from_secs(2));
                let ready = client.bare("GET", "/v1/ready", &[], None).await;
                all &= ready.is_ok_and(|(status, _)| (200..300).contains(&status));
            }
            let up = self
                .postgres
                .sql("select count(*) from node where state = 'up' and lease_until > now()");
            all &= up.is_ok_and(|up| up.trim().parse() == Ok(self.nodes.len()));
            if all {
                return Ok(began.elapsed());
            }
            for role in self.controls.iter_mut().chain(&mut self.nodes) {
                let said = || format!("{} ended: {}", role.name, role.program.said());
                ensure!(host::start_of(role.pid()).is_some(), said());
            }
            let said = self.nodes.iter().chain(&self.controls);
            let said = said.map(|role| format!("{}: {}", role.name, role.program.said()));
            let said = said.collect::<Vec<_>>().join("\n");
            ensure!(began.elapsed() < HANG_LIMIT, "not whole after {HANG_LIMIT:?}:\n{said}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// A client of one control.
    pub(crate) fn client(&self, control: usize, history: &History) -> Client {
        let address = self.controls[control].address;
        Client { history: history.clone(), ..Client::new(address, &self.key) }
    }

    /// Which node has a sandbox: none, if it has ended.
    pub(crate) fn node_of(&self, id: &str) -> anyhow::Result<Option<usize>> {
        let books = books::read(&self.postgres)?;
        let row = books.row(id).filter(|row| row.is_open());
        let number = row.and_then(|row| row.node);
        let name = books.nodes.iter().find(|node| Some(node.number) == number);
        let name = name.map(|node| node.name.clone());
        Ok(self.nodes.iter().position(|role| Some(&role.name) == name.as_ref()))
    }

    /// State and reason of a sandbox.
    pub(crate) fn state_of(&self, id: &str) -> anyhow::Result<(String, String)> {
        let row = books::read(&self.postgres)?.row(id).cloned();
        let row = row.with_context(|| format!("{id} is on no book"))?;
        Ok((row.state, row.reason.unwrap_or_default()))
    }

    /// Everything that is on the books and on the hosts.
    pub(crate) async fn add_to(&self, evidence: &mut Evidence) -> anyhow::Result<()> {
        let books = books::read(&self.postgres)?;
        for role in &self.nodes {
            let mut host = host::look(&role.name, &role.state, Some(role.pid()));
            let number = books.nodes.iter().find(|node| node.name == role.name);
            // One that never came has nothing on the books.
            host.number = Some(number.map_or(-1, |node| node.number));
            if host.is_served {
                host.roster = Some(role.roster());
            }
            evidence.hosts.push(host);
        }
        evidence.effects = Some(self.oracle.seen());
        evidence.books = Some(books);
        Ok(())
    }
}

/// Writes what only its owner may read.
fn write_private(file: &Path, text: &str) -> anyhow::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(0o600).open(file);
    opened?.write_all(text.as_bytes())?;
    Ok(())
}
