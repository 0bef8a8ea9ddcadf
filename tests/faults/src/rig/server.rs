//! `belljar serve`: one machine, no platform.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_testkit::free_port;
use rustix::process::Signal;
use serde_json::Value;

use super::record::Kind;
use super::{Rig, host};
use crate::client::Client;
use crate::evidence::{Books, Host, Row};
use crate::rig::program::Program;

pub(crate) const KEY: &str = "e2b_fafafafafafafafafafafafafafafafafafafafa";
pub(crate) const TENANT: &str = "faults";

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) program: Program,
    pub(crate) address: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) state: PathBuf,
}

/// Where things lie, and what else is said on the command line.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) data: Option<PathBuf>,
    pub(crate) state: Option<PathBuf>,
    pub(crate) store: Option<PathBuf>,
    pub(crate) more: Vec<String>,
    /// Goes before the server's own command line, such as `prlimit --nofile=64`.
    pub(crate) through: Vec<String>,
    /// What sandboxes may reach, beside nothing.
    pub(crate) opening: Option<SocketAddr>,
    pub(crate) variables: Vec<(String, String)>,
}

impl Server {
    pub(crate) async fn start(rig: &Rig, options: Options) -> anyhow::Result<Self> {
        let Options { data, state, store, more, through, opening, variables } = options;
        let data = data.unwrap_or_else(|| rig.dir.join("data"));
        let state = state.unwrap_or_else(|| rig.dir.join("engine"));
        let keys = rig.dir.join("keys");
        std::fs::write(&keys, format!("{KEY} {TENANT}\n"))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let store = store.unwrap_or_else(|| rig.store.clone());
        let text = |path: &PathBuf| path.display().to_string();
        let mut words = through;
        words.extend([text(&rig.belljar), "serve".to_owned()]);
        let flags: [(&str, String); 7] = [
            ("--listen", address.to_string()),
            ("--data", text(&data)),
            ("--state", text(&state)),
            ("--store", text(&store)),
            ("--keys", text(&keys)),
            ("--pool", "0".to_owned()),
            ("--grace", "2s".to_owned()),
        ];
        words.extend(flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]));
        if let Some(opening) = opening {
            let gateway = rig.dir.join("gateway.toml");
            std::fs::write(&gateway, gateway_text(opening))?;
            words.extend(["--gateway".to_owned(), text(&gateway)]);
        }
        words.extend(more);
        rig.record.note(Kind::Groups, &host::groups_of(&state))?;
        let program = Program::new(&rig.record, rig.dir.join("serve.log"), None, words);
        let mut server = Self { program, address, data, state };
        let variables: Vec<_> = variables.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        server.again_with(&variables).await?;
        Ok(server)
    }

    pub(crate) async fn again(&mut self) -> anyhow::Result<()> {
        self.again_with(&[]).await
    }

    /// Starts it, on what the last one left.
    pub(crate) async fn again_with(&mut self, variables: &[(&str, &str)]) -> anyhow::Result<()> {
        self.program.start(variables)?;
        self.answers(Duration::from_secs(60)).await
    }

    /// Waits until it answers.
    pub(crate) async fn answers(&mut self, within: Duration) -> anyhow::Result<()> {
        let client = Client::new(self.address, KEY);
        let began = Instant::now();
        while client.plain("GET", "/v1/sandboxes", None).await.map_or(0, |(status, _)| status)
            != 200
        {
            let said = || format!("the server does not answer: {}", self.program.said());
            ensure!(began.elapsed() < within, said());
            ensure!(host::start_of(self.program.pid()).is_some(), said());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// The process of this name below the server, such as `belljar-spawner`.
    pub(crate) fn part(&self, name: &str) -> Option<u32> {
        let below = host::below(self.pid());
        below.into_iter().map(|(pid, _)| pid).find(|&pid| host::command(pid) == name)
    }

    /// As an operator stops it.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        self.program.signal(Signal::TERM);
        let status = self.program.ended(Duration::from_secs(30)).await?;
        ensure!(status.success(), "the server ended with {status}: {}", self.program.said());
        Ok(())
    }

    /// What it has, by its own records: those of sandboxes, and those of ends.
    pub(crate) async fn books(&self) -> anyhow::Result<Books> {
        let client = Client::new(self.address, KEY);
        let mut rows = Vec::new();
        let asked = client.plain("GET", "/v1/sandboxes?limit=100", None).await;
        if let Ok((200, listed)) = asked {
            for item in listed["items"].as_array().into_iter().flatten() {
                rows.push(row(item, item["state"].as_str().unwrap_or_default()));
            }
        }
        let ended = std::fs::read_to_string(self.data.join("ended.jsonl")).unwrap_or_default();
        for line in ended.lines().filter(|line| !line.trim().is_empty()) {
            let item: Value = serde_json::from_str(line).context("a line of ended.jsonl")?;
            rows.push(row(&item, "ended"));
        }
        Ok(Books { rows, ..Books::default() })
    }

    pub(crate) async fn host(&self) -> anyhow::Result<Host> {
        let mut host = host::look("serve", &self.state, Some(self.pid()));
        let books = self.books().await?;
        let open = books.rows.iter().filter(|row| row.is_open()).map(|row| row.id.clone());
        let open: BTreeSet<String> = open.collect();
        // What is on disk of a sandbox that is not there any more.
        for entry in std::fs::read_dir(self.data.join("sandboxes")).into_iter().flatten().flatten()
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            let id = name.split('.').next().unwrap_or_default().to_owned();
            if !open.contains(&id) {
                host.rubbish.push(format!("a record is left: {name}"));
            }
        }
        host.roster = Some(open);
        Ok(host)
    }
}

fn row(item: &Value, state: &str) -> Row {
    let text = |name: &str| item[name].as_str().map(str::to_owned);
    Row {
        id: text("id").unwrap_or_default(),
        tenant: TENANT.to_owned(),
        state: state.to_owned(),
        reason: text("reason"),
        ..Row::default()
    }
}

/// A gateway that lets sandboxes reach one private address.
pub(crate) fn gateway_text(opening: SocketAddr) -> String {
    let (address, port) = (opening.ip(), opening.port());
    format!("[gateway]\nopenings = [{{ block = \"{address}/32\", ports = [{port}] }}]\n")
}
