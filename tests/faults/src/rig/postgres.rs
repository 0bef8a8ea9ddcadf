//! A PostgreSQL server that can be killed, restarted, filled up: with real fsync.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::net::Place;
use super::program::Program;
use super::{Rig, run};

#[derive(Debug)]
pub(crate) struct Postgres {
    program: Program,
    programs: PathBuf,
    socket: PathBuf,
    data: PathBuf,
    address: IpAddr,
    port: u16,
}

const PATIENCE: Duration = Duration::from_secs(60);

impl Postgres {
    /// Its files lie in `dir`, which may be a file system of its own; it listens at
    /// `place`, or on loopback.
    pub(crate) async fn start(
        rig: &Rig,
        dir: &Path,
        place: Option<&Place>,
    ) -> anyhow::Result<Self> {
        Self::start_with(rig, dir, place, &[]).await
    }

    pub(crate) async fn start_with(
        rig: &Rig,
        dir: &Path,
        place: Option<&Place>,
        settings: &[&str],
    ) -> anyhow::Result<Self> {
        let programs = belljar_testkit::programs()?;
        let data = dir.join("data");
        std::fs::create_dir_all(dir)?;
        run("chown", &["postgres:postgres", &dir.display().to_string()])?;
        let made = Command::new("setpriv")
            .args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"])
            .arg(programs.join("initdb"))
            .args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8"])
            .args(["--locale=C", "--data-checksums", "--wal-segsize=1", "--pgdata"])
            .arg(&data)
            .current_dir(dir)
            .stdin(Stdio::null())
            .output()?;
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        ensure!(made.status.success(), "initdb failed: {said}");
        std::fs::write(data.join("pg_hba.conf"), "local all all trust\nhost all all all trust\n")?;
        let socket = rig.dir.join("pg-socket");
        std::fs::create_dir_all(&socket)?;
        run("chown", &["postgres:postgres", &socket.display().to_string()])?;
        let address = place.map_or(Ipv4Addr::LOCALHOST, |place| place.address);
        let port = belljar_testkit::free_port()?;
        let mut words: Vec<String> = ["setpriv", "--reuid=postgres", "--regid=postgres"]
            .into_iter()
            // Changing the user id undoes what was asked for before.
            .chain(["--init-groups", "--pdeathsig=KILL", "--"])
            .map(str::to_owned)
            .collect();
        words.extend([
            programs.join("postgres").display().to_string(),
            "-D".to_owned(),
            data.display().to_string(),
            "-k".to_owned(),
            socket.display().to_string(),
            "-p".to_owned(),
            port.to_string(),
        ]);
        let listen = format!("listen_addresses={address}");
        let usual = [&*listen, "fsync=on", "synchronous_commit=on", "max_connections=120"];
        // So small that a disk of some megabytes is enough.
        let small = ["max_wal_size=4MB", "min_wal_size=2MB", "shared_buffers=16MB"];
        for setting in usual.iter().chain(&small).chain(settings) {
            words.extend(["-c".to_owned(), (*setting).to_owned()]);
        }
        let namespace = place.and_then(|place| place.namespace.as_deref());
        let program = Program::new(&rig.record, rig.dir.join("pg.log"), namespace, words);
        let mut postgres = Self { program, programs, socket, data, address: address.into(), port };
        postgres.again().await?;
        Ok(postgres)
    }

    /// Starts it, after it was killed or stopped.
    pub(crate) async fn again(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            if !self.program.is_alive() {
                self.program.start(&[])?;
            }
            if self.is_ready() {
                return Ok(());
            }
            let said = || format!("PostgreSQL does not answer: {}", self.program.said());
            ensure!(began.elapsed() < PATIENCE, said());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn is_ready(&self) -> bool {
        self.sql("select 1").is_ok()
    }

    /// SIGKILL to the server; what it forked ends when it notices.
    pub(crate) fn kill(&mut self) {
        self.program.kill();
    }

    /// `pg_ctl stop -m immediate`: nothing is written any more.
    pub(crate) async fn stop_at_once(&mut self) -> anyhow::Result<()> {
        self.program.signal(rustix::process::Signal::QUIT);
        self.program.ended(PATIENCE).await.map(drop)
    }

    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        self.program.signal(rustix::process::Signal::INT);
        self.program.ended(PATIENCE).await.map(drop)
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        (self.address, self.port).into()
    }

    pub(crate) fn url(&self) -> String {
        url(self.address())
    }

    /// Runs a statement and answers what it says, a line for each row.
    pub(crate) fn sql(&self, sql: &str) -> anyhow::Result<String> {
        let done = Command::new(self.programs.join("psql"))
            .args(["--quiet", "--no-psqlrc", "--username=postgres", "--dbname=postgres"])
            .args(["--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", "--command", sql])
            .arg(format!("--port={}", self.port))
            .arg("--host")
            .arg(&self.socket)
            .stdin(Stdio::null())
            .output()?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        ensure!(done.status.success(), "`{sql}`: {said}");
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// All rows of a table, as JSON.
    pub(crate) fn rows(&self, table: &str) -> anyhow::Result<Vec<Value>> {
        let text = self.sql(&format!("select row_to_json(t) from {table} t"))?;
        let rows = text.lines().map(|line| serde_json::from_str(line).context("not a row"));
        rows.collect()
    }
}

pub(crate) fn url(address: std::net::SocketAddr) -> String {
    format!("postgres://postgres@{address}/postgres?sslmode=disable")
}
