//! NATS servers that live as long as the test's process, and die when told.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::ports::free_ports;
use crate::postgres::spawn_for_good;

const PREFIX: &str = "belljar-nats-";
const OWNER: &str = "owner";
const PATIENCE: Duration = Duration::from_secs(60);

/// One server with JetStream, or a cluster of three; each with a directory of its
/// own and the same ports for as long as this lives.
#[derive(Debug)]
pub struct Nats {
    servers: Vec<Server>,
    dir: TempDir,
}

#[derive(Debug)]
struct Server {
    /// For clients, for its like, and for questions about its health.
    ports: [u16; 3],
    process: Option<Child>,
}

impl Nats {
    /// One server.
    pub fn start() -> anyhow::Result<Self> {
        Self::many(1)
    }

    /// Three that make one: any of them may be lost.
    pub fn cluster() -> anyhow::Result<Self> {
        Self::many(3)
    }

    fn many(count: usize) -> anyhow::Result<Self> {
        sweep();
        let mut last = anyhow::anyhow!("not tried");
        // Between choosing a port and using it somebody else may take it.
        for _ in 0..5 {
            let dir = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
            std::fs::write(dir.path().join(OWNER), std::process::id().to_string())?;
            let mut ports = free_ports(3 * count)?.into_iter();
            let mut three = || [(); 3].map(|()| ports.next().unwrap_or_default());
            let servers = (0..count).map(|_| Server { ports: three(), process: None }).collect();
            let mut nats = Self { servers, dir };
            match (0..count).try_for_each(|n| nats.run(n)).and_then(|()| nats.settle()) {
                Ok(()) => return Ok(nats),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Where clients find all of them.
    pub fn urls(&self) -> Vec<String> {
        let url = |server: &Server| format!("nats://127.0.0.1:{}", server.ports[0]);
        self.servers.iter().map(url).collect()
    }

    /// Ends a server, with no time to write anything.
    pub fn kill(&mut self, n: usize) {
        if let Some(mut process) = self.servers[n].process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// A server says nothing more, and is not gone.
    pub fn freeze(&self, n: usize) {
        self.signal(n, Signal::STOP);
    }

    /// A frozen server goes on.
    pub fn thaw(&self, n: usize) {
        self.signal(n, Signal::CONT);
    }

    fn signal(&self, n: usize, signal: Signal) {
        if let Some(process) = &self.servers[n].process {
            let _ = rustix::process::kill_process(Pid::from_child(process), signal);
        }
    }

    /// Starts a server that was killed, with what it had written.
    pub fn restart(&mut self, n: usize) -> anyhow::Result<()> {
        self.kill(n);
        self.run(n)
    }

    /// Ends a server and takes away what it had written.
    pub fn wipe(&mut self, n: usize) -> anyhow::Result<()> {
        self.kill(n);
        let data = self.data(n);
        if data.exists() {
            std::fs::remove_dir_all(data)?;
        }
        Ok(())
    }

    /// Waits until those that run have agreed on everything: in a cluster at least
    /// two have to.
    #[expect(clippy::disallowed_methods, reason = "a server tells nobody when it is ready")]
    pub fn settle(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        while let Some(server) = self.servers.iter_mut().find(|server| !server.is_healthy()) {
            if let Some(process) = &mut server.process
                && let Some(status) = process.try_wait()?
            {
                anyhow::bail!("a server ended: {status}; {}", self.said());
            }
            anyhow::ensure!(began.elapsed() < PATIENCE, "not ready: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Starts a server and waits until it listens, so that a client which comes now
    /// is not sent away.
    #[expect(clippy::disallowed_methods, reason = "a server tells nobody when it listens")]
    fn run(&mut self, n: usize) -> anyhow::Result<()> {
        let config = self.dir.path().join(format!("{n}.conf"));
        std::fs::write(&config, self.config(n))?;
        // Killed when the thread that started it ends; and that one never does.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig=KILL", "--"]).arg(program()?).arg("--config").arg(config);
        command.current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.servers[n].process = Some(spawn_for_good(command)?);
        let began = Instant::now();
        let port = self.servers[n].ports[0];
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let process = self.servers[n].process.as_mut().context("it was just started")?;
            if let Some(status) = process.try_wait()? {
                anyhow::bail!("nats-server ended: {status}; {}", self.said());
            }
            anyhow::ensure!(began.elapsed() < PATIENCE, "does not listen: {}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn config(&self, n: usize) -> String {
        let [port, own, health] = self.servers[n].ports;
        let (data, log) = (self.data(n), self.log(n));
        let mut text = format!(
            "server_name: n{n}\nlisten: \"127.0.0.1:{port}\"\nhttp: \"127.0.0.1:{health}\"\n\
             log_file: \"{}\"\n\
             jetstream {{ store_dir: \"{}\", max_mem: 64M, max_file: 2G }}\n",
            log.display(),
            data.display(),
        );
        if self.servers.len() > 1 {
            let others = self.servers.iter().map(|it| format!("nats://127.0.0.1:{}", it.ports[1]));
            let routes = others.collect::<Vec<_>>().join(", ");
            text += &format!(
                "cluster {{ name: test, listen: \"127.0.0.1:{own}\", routes: [{routes}] }}\n"
            );
        }
        text
    }

    fn data(&self, n: usize) -> PathBuf {
        self.dir.path().join(format!("{n}.data"))
    }

    fn log(&self, n: usize) -> PathBuf {
        self.dir.path().join(format!("{n}.log"))
    }

    /// The last that each of them logged.
    fn said(&self) -> String {
        let tail = |n| {
            let log = std::fs::read_to_string(self.log(n)).unwrap_or_default();
            log.lines().rev().take(3).collect::<Vec<_>>().join(" <- ")
        };
        (0..self.servers.len()).map(tail).collect::<Vec<_>>().join("; ")
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        (0..self.servers.len()).for_each(|n| self.kill(n));
    }
}

impl Server {
    /// One that does not run is not asked.
    fn is_healthy(&self) -> bool {
        self.process.is_none() || health(self.ports[2]).is_ok_and(|said| said.contains(" 200 "))
    }
}

fn health(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(said.lines().next().unwrap_or_default().to_owned())
}

/// Removes what processes left that were killed.
fn sweep() {
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // One without the file is about to start.
        let Ok(owner) = std::fs::read_to_string(entry.path().join(OWNER)) else { continue };
        if !owner.is_empty() && !Path::new("/proc").join(owner).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// `BELLJAR_NATS_SERVER`, else the one of the host, else the gate's own.
fn program() -> anyhow::Result<PathBuf> {
    const NAME: &str = "nats-server";
    if let Some(named) = std::env::var_os("BELLJAR_NATS_SERVER") {
        return Ok(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cache = std::env::var_os("BELLJAR_CACHE").map(PathBuf::from).or_else(|| {
        let caches = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let caches = caches.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")));
        Some(caches?.join("belljar"))
    });
    std::env::split_paths(&path)
        .chain(cache.map(|cache| cache.join("tools/bin")))
        .map(|dir| dir.join(NAME))
        .find(|program| program.is_file())
        .context("there is no nats-server; `.ci/run prepare` installs one")
}
