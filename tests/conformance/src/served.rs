//! A real `belljar serve` and a plain HTTP client for it: one connection for each
//! request, and streams that can be left unread.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::process::{Child, Command};

const KEY: &str = "e2b_cccccccccccccccccccccccccccccccccccccccc";

/// Small, so that a client that does not read holds its server back at once.
const UNREAD_BYTES: u32 = 16 << 10;

#[derive(Debug)]
pub(crate) struct Served {
    address: SocketAddr,
    child: Child,
    _directory: TempDir,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
    pub(crate) took: Duration,
}

impl Answer {
    pub(crate) fn expect(self, status: u16, what: &str) -> anyhow::Result<Self> {
        ensure!(self.status == status, "{what}: {} {}", self.status, self.body);
        Ok(self)
    }

    pub(crate) fn value(&self) -> anyhow::Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("not JSON: {}", self.body))
    }
}

impl Served {
    /// Starts the executable beside this one. Answers when its template is
    /// warm, which it is in the jail alone.
    pub(crate) async fn start(longest: Duration) -> anyhow::Result<Self> {
        Self::start_with(longest, &[], &[]).await
    }

    /// As [`Self::start`], with more arguments, and more in its environment.
    pub(crate) async fn start_with(
        longest: Duration,
        arguments: &[&str],
        environment: &[(&str, &Path)],
    ) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?.with_file_name("belljar");
        ensure!(program.exists(), "`{}` is not built: `just suites`", program.display());
        let directory = tempfile::tempdir()?;
        // The user ids of sandboxes must be able to pass through.
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o711))?;
        let keys = directory.path().join("keys");
        std::fs::write(&keys, format!("{KEY} one\n"))?;
        let mut command = Command::new(program);
        command.arg("--state").arg(directory.path().join("engine")).arg("serve");
        command.args(["--listen", "127.0.0.1:0", "--pool", "0", "--grace", "1s"]);
        command.arg("--keys").arg(keys).arg("--data").arg(directory.path().join("data"));
        command.args(arguments).envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().context("start `belljar serve`")?;
        let said = child.stderr.take().context("it has no standard error")?;
        let address = tokio::time::timeout(longest, ready(said)).await;
        let address = address.context("the server does not become ready")??;
        Ok(Self { address, child, _directory: directory })
    }

    pub(crate) fn pid(&self) -> anyhow::Result<u32> {
        self.child.id().context("the server is gone")
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<Answer> {
        ask(self.address, method, path, body).await
    }

    /// Sends a request that is answered while others are sent.
    pub(crate) fn ask_beside(
        &self,
        method: &'static str,
        path: String,
        body: Value,
    ) -> tokio::task::JoinHandle<anyhow::Result<Answer>> {
        let address = self.address;
        tokio::spawn(async move { ask(address, method, &path, &body).await })
    }

    /// Begins an answer that comes as events, read only as far as it is asked for.
    pub(crate) async fn open(&self, path: &str, body: &Value) -> anyhow::Result<Unread> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(UNREAD_BYTES)?;
        let mut stream = socket.connect(self.address).await?;
        let text = request("POST", path, "accept: text/event-stream\r\n", body);
        stream.write_all(text.as_bytes()).await?;
        Ok(Unread { stream })
    }

    /// Tells the server to stop, and answers how long it took.
    pub(crate) async fn stop(mut self, longest: Duration) -> anyhow::Result<Duration> {
        let pid = Pid::from_raw(i32::try_from(self.pid()?)?).context("no process has this id")?;
        kill_process(pid, Signal::TERM)?;
        let begin = Instant::now();
        let status = tokio::time::timeout(longest, self.child.wait()).await;
        let status = status.with_context(|| format!("the server runs on after {longest:?}"))??;
        ensure!(status.success(), "the server ended with {status}");
        Ok(begin.elapsed())
    }
}

/// A connection whose answer is not read.
#[derive(Debug)]
pub(crate) struct Unread {
    stream: TcpStream,
}

impl Unread {
    pub(crate) async fn until(&mut self, text: &str, longest: Duration) -> anyhow::Result<()> {
        let mut seen = Vec::new();
        let read = async {
            while !String::from_utf8_lossy(&seen).contains(text) {
                let mut byte = [0; 1];
                ensure!(self.stream.read(&mut byte).await? > 0, "the stream ended");
                seen.extend(byte);
            }
            Ok(())
        };
        let came = tokio::time::timeout(longest, read).await.unwrap_or_else(|_| bail!("silence"));
        came.with_context(|| format!("waits for {text:?} in {:?}", String::from_utf8_lossy(&seen)))
    }

    /// Waits until the server has bytes for this connection and cannot send them.
    pub(crate) async fn until_stalled(&self, longest: Duration) -> anyhow::Result<()> {
        let begin = Instant::now();
        let (mut last, mut same) = (0, 0);
        while same < 5 {
            ensure!(begin.elapsed() < longest, "the server is not held back");
            tokio::time::sleep(Duration::from_millis(100)).await;
            let now = self.unsent()?;
            same = if now > 0 && now == last { same + 1 } else { 0 };
            last = now;
        }
        Ok(())
    }

    /// Bytes that wait in the kernel on the server's side of this connection.
    fn unsent(&self) -> anyhow::Result<u64> {
        let (ours, theirs) = (self.stream.local_addr()?.port(), self.stream.peer_addr()?.port());
        let table = std::fs::read_to_string("/proc/net/tcp")?;
        let (local, remote) = (format!(":{theirs:04X}"), format!(":{ours:04X}"));
        let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let own = lines.find(|fields| {
            let ends = |at: usize, port: &str| fields.get(at).is_some_and(|it| it.ends_with(port));
            ends(1, &local) && ends(2, &remote)
        });
        let queues = own.and_then(|fields| Some((*fields.get(4)?).to_owned()));
        let queues = queues.context("the connection is gone")?;
        let (unsent, _) = queues.split_once(':').context("no queues in /proc/net/tcp")?;
        Ok(u64::from_str_radix(unsent, 16)?)
    }
}

/// Waits for the address and for warm templates; what is said later is thrown away.
async fn ready(said: tokio::process::ChildStderr) -> anyhow::Result<SocketAddr> {
    let mut lines = BufReader::new(said).lines();
    let (mut address, mut all) = (None, BTreeMap::new());
    while let Some(line) = lines.next_line().await? {
        if let Some((_, at)) = line.split_once("listening on http://") {
            address = at.trim().parse::<SocketAddr>().ok();
        }
        let is_warm = line.contains("ready: warm") || line.contains("no warm template");
        all.insert(all.len(), line);
        if let (true, Some(address)) = (is_warm, address) {
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok(address);
        }
    }
    bail!("the server ended: {:?}", all.values().collect::<Vec<_>>())
}

fn request(method: &str, path: &str, headers: &str, body: &Value) -> String {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {KEY}\r\n{headers}\
         content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n\
         {body}"
    )
}

async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &Value,
) -> anyhow::Result<Answer> {
    let begin = Instant::now();
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request(method, path, "", body).as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.with_context(|| format!("{method} {path}"))?;
    let took = begin.elapsed();
    let (head, body) = text.split_once("\r\n\r\n").context("an answer without a head")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.with_context(|| format!("no status in {head:?}"))?;
    Ok(Answer { status, body: body.to_owned(), took })
}
