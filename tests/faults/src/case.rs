//! One fault under way: what it happens to, and what is found.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_store::Store;

use crate::books;
use crate::client::{Client, History};
use crate::evidence::{Audit, Evidence, Figure, Healed, Host, Probe, Shown};
use crate::rig::Rig;
use crate::rig::cluster::Cluster;
use crate::rig::host;
use crate::rig::oracle::Oracle;
use crate::rig::postgres::Postgres;
use crate::rig::server::{KEY, Options, Server};

pub(crate) struct Case {
    pub(crate) rig: Rig,
    pub(crate) history: History,
    pub(crate) server: Option<Server>,
    pub(crate) cluster: Option<Cluster>,
    pub(crate) postgres: Option<Postgres>,
    pub(crate) oracle: Option<Oracle>,
    /// What a fault counted itself, where no oracle does.
    pub(crate) effects: Option<std::collections::BTreeMap<String, u32>>,
    /// What nodes had that are none: a fault on the store plays them itself.
    pub(crate) hosts: Vec<Host>,
    pub(crate) tokens: Vec<Shown>,
    pub(crate) probes: Vec<Probe>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) healed: Option<Healed>,
    pub(crate) audits: Vec<Audit>,
    /// How long everything may take to be as it must.
    pub(crate) patience: Duration,
}

impl Case {
    pub(crate) fn new(rig: Rig) -> Self {
        Self {
            rig,
            history: History::default(),
            server: None,
            cluster: None,
            postgres: None,
            oracle: None,
            effects: None,
            hosts: Vec::new(),
            tokens: Vec::new(),
            probes: Vec::new(),
            figures: Vec::new(),
            healed: None,
            audits: Vec::new(),
            patience: Duration::from_secs(30),
        }
    }

    /// Everything that is known now.
    pub(crate) async fn collect(&self) -> anyhow::Result<Evidence> {
        let mut evidence = Evidence {
            history: self.history.told(),
            hosts: self.hosts.clone(),
            tokens: self.tokens.clone(),
            probes: self.probes.clone(),
            figures: self.figures.clone(),
            healed: self.healed.clone(),
            audits: self.audits.clone(),
            effects: self.effects.clone(),
            ..Evidence::default()
        };
        if let Some(oracle) = &self.oracle {
            evidence.effects = Some(oracle.seen());
        }
        if let Some(server) = &self.server {
            evidence.books = Some(server.books().await?);
            evidence.hosts.push(server.host().await?);
        }
        if let Some(postgres) = &self.postgres {
            evidence.books = Some(books::read(postgres)?);
        }
        if let Some(cluster) = &self.cluster {
            cluster.add_to(&mut evidence).await?;
        }
        Ok(evidence)
    }

    /// `belljar serve`, and a client.
    pub(crate) async fn serve(&mut self, options: Options) -> anyhow::Result<Client> {
        self.server = Some(Server::start(&self.rig, options).await?);
        self.client()
    }

    /// The same, with an oracle that its sandboxes may reach.
    pub(crate) async fn serve_with_oracle(
        &mut self,
        mut options: Options,
    ) -> anyhow::Result<(Client, SocketAddr)> {
        let oracle = Oracle::start((Ipv4Addr::new(127, 0, 0, 2), 0).into()).await?;
        let address = oracle.address;
        options.opening = Some(address);
        self.oracle = Some(oracle);
        Ok((self.serve(options).await?, address))
    }

    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let server = self.server.as_ref().context("there is no server")?;
        Ok(Client { history: self.history.clone(), ..Client::new(server.address, KEY) })
    }

    pub(crate) fn server(&mut self) -> anyhow::Result<&mut Server> {
        self.server.as_mut().context("there is no server")
    }

    pub(crate) fn cluster(&mut self) -> anyhow::Result<&mut Cluster> {
        self.cluster.as_mut().context("there is no cluster")
    }

    /// PostgreSQL with the platform's tables, and nothing else.
    pub(crate) async fn store(&mut self) -> anyhow::Result<Store> {
        let dir = self.rig.dir.join("pg");
        let postgres = Postgres::start(&self.rig, &dir, None).await?;
        let store = Store::connect(&postgres.url(), 20).await?;
        store.migrate().await?;
        self.postgres = Some(postgres);
        Ok(store)
    }

    pub(crate) fn postgres(&mut self) -> anyhow::Result<&mut Postgres> {
        self.postgres.as_mut().context("there is no database")
    }

    pub(crate) fn probe(&mut self, what: impl Into<String>, got_through: bool) {
        self.probes.push(Probe { what: what.into(), got_through });
    }

    /// Waits until sandboxes can be made and used again, and writes down how long
    /// that took.
    pub(crate) async fn heal(&mut self, client: &Client) -> anyhow::Result<()> {
        let after = client.works(HANG_LIMIT).await.unwrap_or(HANG_LIMIT * 2);
        self.healed = Some(Healed { after, within: HANG_LIMIT });
        Ok(())
    }

    /// What a process uses, once it has stayed the same for a while.
    pub(crate) async fn settled(pid: u32) -> (u64, u64) {
        let began = Instant::now();
        let (mut last, mut since) = (0, Instant::now());
        while began.elapsed() < Duration::from_secs(15) {
            let now = host::descriptors(pid);
            if now != last {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() > Duration::from_millis(1500) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        (last, host::resident(pid))
    }

    pub(crate) fn compare(&mut self, before: (u64, u64), after: (u64, u64), kilobytes: u64) {
        let figure = |what: &str, before, after, slack| Figure {
            what: what.to_owned(),
            before,
            after,
            slack,
        };
        self.figures.push(figure("descriptors of the daemon", before.0, after.0, 4));
        self.figures.push(figure("memory of the daemon, KiB", before.1, after.1, kilobytes));
    }
}

/// What is not so by then never will be, also on a small machine that others use. How long
/// it took is told as a figure; nothing else is promised of it.
pub(crate) const HANG_LIMIT: Duration = Duration::from_secs(60);

/// Waits until something is so, and answers how long it took.
pub(crate) async fn until(
    what: &str,
    mut is_so: impl AsyncFnMut() -> bool,
) -> anyhow::Result<Duration> {
    let began = Instant::now();
    loop {
        if is_so().await {
            return Ok(began.elapsed());
        }
        anyhow::ensure!(began.elapsed() < HANG_LIMIT, "not so within {HANG_LIMIT:?}: {what}");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}
