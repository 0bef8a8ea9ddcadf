//! The gateway's own process, driven as a node drives it.
//!
//! It serves a listener on loopback as if that were a sandbox's. Every row that
//! it writes comes back here and is read, as a node reads them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use belljar_domain::SandboxId;
use belljar_domain::network::{Decision, Kind, Policy, Row, Subject, Throttle};
use belljar_engine::packet;
use belljar_peer_proto::gateway::{
    Budget, FromGateway, Grant, LONGEST, PROCESS, Session, ToGateway, decode, encode,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::exchange::{INPUT, MODEL, OUTPUT};

const PATIENCE: Duration = Duration::from_secs(10);
const OPERATION: &str = "llm";
const TENANT: &str = "bench";
/// Never asked for by anyone but the upstream, which does not look.
const KEY: &str = "sk-bench-0123456789abcdef";
const INPUT_PRICE: u64 = 3_000;
const OUTPUT_PRICE: u64 = 15_000;
/// As long as tokens may live; they are renewed well before.
const LIFETIME: u32 = 600;
const RENEW: Duration = Duration::from_secs(120);

/// One that was started; it ends with this.
#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) address: SocketAddr,
    pub(super) pid: u32,
    pub(super) token: String,
    pub(super) seen: Arc<Seen>,
    socket: Arc<OwnedFd>,
    child: Child,
    renewed: Instant,
    _dir: tempfile::TempDir,
}

/// What its rows said.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Allowed, and charged exactly what the answer cost.
    pub(super) right: AtomicU64,
    pub(super) wrong: AtomicU64,
}

fn sandbox() -> SandboxId {
    SandboxId::from_random([7; 16])
}

/// One operation with everything that an operator can bound, none of it reached.
fn settings(dir: &std::path::Path, upstream: SocketAddr) -> String {
    let most = "{ dollars = \"9000000000\", requests = 1000000000000, tokens = 1000000000000000 }";
    format!(
        "[operations.{OPERATION}]\nkind = \"model\"\nplaintext = true\n\
         upstream = \"http://{upstream}\"\ndialects = [\"anthropic-messages\"]\n\
         credential = {{ file = {:?}, as = \"x-api-key\" }}\nprices = {:?}\n\
         budget = {most}\ntenant_budget = {most}\n",
        dir.join("key"),
        dir.join("prices.toml"),
    )
}

impl Gateway {
    pub(super) fn start(upstream: SocketAddr) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir().context("cannot make a directory")?;
        let prices = format!(
            "[[price]]\nmodels = [\"{MODEL}\"]\ninput = {INPUT_PRICE}\noutput = {OUTPUT_PRICE}\n"
        );
        std::fs::write(dir.path().join("key"), KEY)?;
        std::fs::write(dir.path().join("prices.toml"), prices)?;
        let config = dir.path().join("gateway.toml");
        std::fs::write(&config, settings(dir.path(), upstream))?;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let child = Command::new("/proc/self/exe")
            .arg0(PROCESS)
            .arg(&config)
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            // As a node starts it. It also has it share the processor as one of us:
            // a session of its own would be a group of its own to the scheduler.
            .process_group(0)
            .spawn()
            .context("cannot start the gateway")?;
        let socket = Arc::new(ours);
        let (sender, answers) = mpsc::channel();
        let seen = Arc::new(Seen::default());
        let (reader, counted) = (Arc::clone(&socket), Arc::clone(&seen));
        std::thread::spawn(move || receive(&reader, &counted, &sender));
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
        let address = listener.local_addr()?;
        let mut gateway = Self {
            address,
            pid: child.id(),
            token: String::new(),
            seen,
            socket,
            child,
            renewed: Instant::now(),
            _dir: dir,
        };
        gateway.open(listener, &answers)?;
        Ok(gateway)
    }

    fn open(
        &mut self,
        listener: TcpListener,
        answers: &mpsc::Receiver<FromGateway>,
    ) -> anyhow::Result<()> {
        let answer = || answers.recv_timeout(PATIENCE).context("the gateway does not respond");
        let FromGateway::Ready = answer()? else { bail!("the gateway is not ready") };
        let session = Box::new(session());
        self.say(&ToGateway::Open { sequence: 1, session }, &[OwnedFd::from(listener)])?;
        let FromGateway::Opened { .. } = answer()? else { bail!("the gateway opens no session") };
        let budget = Budget { nano_dollars: Some(u64::MAX / 2), ..Budget::default() };
        let grant = Grant {
            operations: vec![OPERATION.to_owned()],
            agent: None,
            seconds: LIFETIME,
            budget: Some(budget),
            approvals: None,
        };
        self.say(&ToGateway::Mint { sequence: 2, sandbox: sandbox(), grant }, &[])?;
        match answer()? {
            FromGateway::Minted { minted, .. } => self.token = minted.token,
            other => return Err(anyhow!("the gateway mints no token: {other:?}")),
        }
        Ok(())
    }

    fn say(&self, message: &ToGateway, descriptors: &[OwnedFd]) -> anyhow::Result<()> {
        let descriptors: Vec<_> = descriptors.iter().map(|fd| fd.as_fd()).collect();
        packet::send(&*self.socket, &encode(message)?, &descriptors)
            .context("the gateway does not listen")
    }

    /// Called often; keeps the token alive.
    pub(super) fn keep(&mut self) -> anyhow::Result<()> {
        if self.renewed.elapsed() > RENEW {
            self.renewed = Instant::now();
            let renew = ToGateway::Renew { sequence: 3, sandbox: sandbox(), seconds: LIFETIME };
            self.say(&renew, &[])?;
        }
        Ok(())
    }

    /// Waits until there are this many rows, and fails if there are others.
    pub(super) fn await_rows(&self, count: u64) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            let right = self.seen.right.load(Ordering::Relaxed);
            let wrong = self.seen.wrong.load(Ordering::Relaxed);
            if wrong > 0 || right > count || begin.elapsed() > PATIENCE {
                bail!("{count} requests left {right} right rows and {wrong} others");
            }
            if right == count {
                return Ok(());
            }
            super::pause(Duration::from_millis(20));
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Both);
        let _ = self.child.wait();
    }
}

fn session() -> Session {
    let subject = Subject {
        tenant: TENANT.to_owned(),
        sandbox: sandbox(),
        run: None,
        turn: None,
        call: None,
        process: None,
    };
    let throttle =
        Throttle { connections: 4096, connections_per_second: 4096, ..Throttle::default() };
    let policy = Policy { throttle, ..Policy::default() };
    Session { subject, policy, operations: vec![OPERATION.to_owned()], charged: None }
}

/// Reads everything that the gateway says, to its end.
fn receive(socket: &OwnedFd, seen: &Seen, answers: &mpsc::Sender<FromGateway>) {
    let next = || -> io::Result<FromGateway> {
        let (packet, _) = packet::receive(socket, LONGEST)?;
        decode(&packet).map_err(|_| io::ErrorKind::InvalidData.into())
    };
    while let Ok(message) = next() {
        match message {
            FromGateway::Rows { rows } => {
                let right = rows.iter().filter(|row| is_right(row)).count() as u64;
                seen.right.fetch_add(right, Ordering::Relaxed);
                seen.wrong.fetch_add(rows.len() as u64 - right, Ordering::Relaxed);
            }
            other => drop(answers.send(other)),
        }
    }
}

fn is_right(row: &Row) -> bool {
    let cost = INPUT * INPUT_PRICE + OUTPUT * OUTPUT_PRICE;
    let is_paid = row.charge.as_ref().is_some_and(|charge| charge.nano_dollars == cost);
    row.kind == Kind::Operation && row.decision == Decision::Allowed && is_paid
}
